"""The one settings file: environment in, Django names out."""

from __future__ import annotations

from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from reports_project import env
from telemetry import lines

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = BASE_DIR / "var"

env.load_dotenv(BASE_DIR / ".env")

DEBUG = env.boolean("DEBUG", default=False)
SECRET_KEY = (
    env.text("SECRET_KEY") or env.DEVELOPMENT_KEY
    if DEBUG
    else env.required("SECRET_KEY", hint="set it to a long random text, the same for every process")
)
# Keys of before: sessions and the hashes of erased prompts that they made stay good.
SECRET_KEY_FALLBACKS = env.words("SECRET_KEY_FALLBACKS")
if not DEBUG:
    env.own_keys("SECRET_KEY", [SECRET_KEY])
    env.own_keys("SECRET_KEY_FALLBACKS", SECRET_KEY_FALLBACKS)
ALLOWED_HOSTS = env.hosts("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]", is_public=not DEBUG)
CSRF_TRUSTED_ORIGINS = env.origins("CSRF_TRUSTED_ORIGINS")
# Behind a proxy that ends TLS and sets X-Forwarded-Proto: redirects to https, secure cookies, HSTS.
HTTPS = env.boolean("HTTPS", default=False)
# How many proxies in front append to X-Forwarded-For; attempts to get in are counted by address.
TRUSTED_PROXIES = env.integer("TRUSTED_PROXIES", 0, low=0, high=10)
HOST = env.address("HOST", "127.0.0.1" if DEBUG else "0.0.0.0")  # noqa: S104  # containers are reached from outside
PORT = env.integer("PORT", 8000, low=1, high=65535)
# The process that streams events, and where the web process passes such requests on to.
EVENTS_PORT = env.integer("EVENTS_PORT", PORT % 65535 + 1, low=1, high=65535)
EVENTS_URL = env.http_url("EVENTS_URL") or f"http://127.0.0.1:{EVENTS_PORT}"
if DEBUG and (HTTPS or HOST not in {"127.0.0.1", "::1"}):
    env.not_public("DEBUG", ALLOWED_HOSTS)

# The provider.
INFERENCE_URL = env.http_url("INFERENCE_URL")
if not (INFERENCE_URL or DEBUG):
    raise env.BadVariable("INFERENCE_URL", "is not set; set it to the URL that answers completions")
INFERENCE_KEY = env.secret_header("INFERENCE_KEY")
INFERENCE_TIMEOUT_S = env.seconds("INFERENCE_TIMEOUT_S", 45, low=0.1, high=3600)
INFERENCE_PROTOCOL = env.choice(
    "INFERENCE_PROTOCOL",
    "openai" if urlsplit(INFERENCE_URL).path.endswith("/chat/completions") else "prompt",
    options=("prompt", "openai", "anthropic"),
)
INFERENCE_MODEL = env.text("INFERENCE_MODEL", "default")
INFERENCE_SYSTEM_PROMPT = env.text("INFERENCE_SYSTEM_PROMPT")
INFERENCE_MAX_OUTPUT_TOKENS = env.integer(
    "INFERENCE_MAX_OUTPUT_TOKENS",
    0 if INFERENCE_PROTOCOL == "prompt" else 1024,
    low=1 if INFERENCE_PROTOCOL == "anthropic" else 0,  # which refuses a call without a limit
    high=10_000_000,
)
INFERENCE_MAX_RESPONSE_BYTES = env.integer(
    "INFERENCE_MAX_RESPONSE_BYTES", 1024 * 1024, low=1024, high=256 * 1024 * 1024
)
INFERENCE_MAX_TOKENS_FIELD = env.choice(
    "INFERENCE_MAX_TOKENS_FIELD", "max_tokens", options=("max_tokens", "max_completion_tokens")
)
# Ask for the answer in events, so that the text can be seen while it grows.
INFERENCE_STREAM = env.boolean("INFERENCE_STREAM", default=True)
INFERENCE_MAX_ATTEMPTS = env.integer("INFERENCE_MAX_ATTEMPTS", 1, low=1, high=10)

# Promises and limits.
DAILY_TOKEN_CAP = env.integer("DAILY_TOKEN_CAP", 100_000, low=0, high=2**62)
MAX_ACTIVE_JOBS_PER_USER = env.integer("MAX_ACTIVE_JOBS_PER_USER", 20, low=1, high=1_000_000)
QUEUE_TTL_S = env.seconds("QUEUE_TTL_S", 3600, low=1, high=30 * 86400)
REDISPATCH_AFTER_S = env.seconds("REDISPATCH_AFTER_S", 30, low=0.1, high=86400)
SWEEP_INTERVAL_S = env.seconds("SWEEP_INTERVAL_S", 10, low=0.1, high=3600)
LEASE_GRACE_S = env.seconds("LEASE_GRACE_S", 15, low=1, high=3600)
RETENTION_DAYS = env.integer("RETENTION_DAYS", 30, low=1, high=36500)
KEY_RETENTION_DAYS = env.integer("KEY_RETENTION_DAYS", 0, low=0, high=36500)
WORKER_CONCURRENCY = env.integer("WORKER_CONCURRENCY", 100, low=1, high=10_000)
# What a platform allows between SIGTERM and SIGKILL, less a second to write the last rows.
SHUTDOWN_GRACE_S = env.seconds("SHUTDOWN_GRACE_S", 8, low=0, high=3600)
WEB_CONCURRENCY = env.integer("WEB_CONCURRENCY", 2, low=1, high=256)
WEB_THREADS = env.integer("WEB_THREADS", 2, low=1, high=256)
# How long a lost hint can delay an event; streams of one user, and of one process.
EVENTS_POLL_S = env.seconds("EVENTS_POLL_S", 2, low=0.1, high=60)
EVENTS_PER_USER = env.integer("EVENTS_PER_USER", 100, low=1, high=1_000_000)
EVENTS_MAX = env.integer("EVENTS_MAX", 5000, low=1, high=1_000_000)
MAX_BODY_BYTES = 128 * 1024

# Parts of Django.
INSTALLED_APPS = [
    "operations.apps.OperationsAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "knox",
    "axes",
    "access",
    "budgets",
    "reports",
    "webhooks",
]
MIDDLEWARE = [
    "reports_project.policy.PolicyMiddleware",
    "telemetry.access.AccessMiddleware",
    "reports.problems.ApiErrorsMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "reports_project.statics.StaticFilesMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "reports_project.urls"
WSGI_APPLICATION = "reports_project.wsgi.application"
APPEND_SLASH = False
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

if not env.text("DATABASE_URL"):
    VAR_DIR.mkdir(mode=0o700, exist_ok=True)
DATABASES = {"default": env.database("DATABASE_URL", fallback=VAR_DIR / "reports.sqlite3")}
IS_POSTGRESQL = DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql"
if IS_POSTGRESQL:
    from_url = DATABASES["default"]["OPTIONS"]
    most = from_url.pop("pool_max", 10)
    DATABASES["default"]["OPTIONS"] = {
        "connect_timeout": 3,
        # Few connections serve many worker threads, since none is held while the provider thinks.
        # The short reconnect_timeout keeps the pool's back-off from outliving a database restart.
        "pool": {"min_size": 1, "max_size": most, "timeout": 3, "reconnect_timeout": 2},
        **from_url,
    }
else:
    DATABASES["default"]["OPTIONS"] = {
        # A writer that begins as a reader fails at once when another writes; this one waits.
        "transaction_mode": "IMMEDIATE",
        # Seconds to wait for the one writer: SQLite lets no queue form, so under load luck decides.
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
AUTHENTICATION_BACKENDS = [
    "access.locks.LoginLock",
    "django.contrib.auth.backends.ModelBackend",
]
# Five wrong passwords for a name from one address: no more from there for a quarter of an hour.
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_CLIENT_IP_CALLABLE = "access.addresses.address_of"
AXES_LOCKOUT_CALLABLE = "access.locks.locked_out"
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "csrfmiddlewaretoken", "next"]
AXES_DISABLE_ACCESS_LOG = True
AXES_VERBOSE = False
AXES_ENABLE_ADMIN = False  # ours shows no forms that were sent
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "index"
LOGOUT_REDIRECT_URL = "login"

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True
FORMAT_MODULE_PATH = "reports_project.formats"

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Served from where the packages keep them, so there is no collect step to forget.
WHITENOISE_USE_FINDERS = True
STORAGES = {"staticfiles": {"BACKEND": "reports_project.statics.VersionedStorage"}}

DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES
# Their sizes are bounded already; what Django raises here would be a fault of ours on some ways.
DATA_UPLOAD_MAX_NUMBER_FIELDS = None

SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^healthz/?$", r"^readyz/?$", r"^metrics/?$"]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_HSTS_SECONDS = 365 * 86400 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SECURE_HSTS_PRELOAD = HTTPS
X_FRAME_OPTIONS = "DENY"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "access.authentication.BearerAuthentication",
        "access.authentication.CsrfCheckedSession",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": [
        "rest_framework.renderers.JSONRenderer",
        "reports.browsing.BrowsingRenderer",
    ],
    "DEFAULT_PARSER_CLASSES": ["reports.parsing.StrictJSONParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "reports.parsing.Negotiation",
    "EXCEPTION_HANDLER": "reports.problems.handle",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
    "DATETIME_FORMAT": "iso-8601",
    "DEFAULT_SCHEMA_CLASS": "openapi.document.Described",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Reports",
    "DESCRIPTION": "LLM completions as jobs: a POST is accepted in milliseconds, then polled.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "POSTPROCESSING_HOOKS": ["openapi.document.complete"],
}
# Knox makes tokens and hashes them; their table is our own, and knox's stays out of the database.
KNOX_TOKEN_MODEL = "access.Token"  # noqa: S105  # a name
MIGRATION_MODULES = {"knox": None}
REST_KNOX = {"TOKEN_TTL": None}

REDIS_URL = env.redis_url("REDIS_URL")
if not (REDIS_URL or DEBUG):
    raise env.BadVariable("REDIS_URL", "is not set; it must look like redis://host:6379/0")
CELERY_BROKER_URL = REDIS_URL or "redis://127.0.0.1:6379/0"

# Where a collector takes spans; nothing of OpenTelemetry is imported without it.
OTEL_EXPORTER_OTLP_ENDPOINT = env.http_url("OTEL_EXPORTER_OTLP_ENDPOINT")
if OTEL_EXPORTER_OTLP_ENDPOINT and not find_spec("opentelemetry"):
    what_to_do = "needs pip install -r requirements-otel.txt"
    raise env.BadVariable("OTEL_EXPORTER_OTLP_ENDPOINT", what_to_do)
LOG_LEVEL = env.choice("LOG_LEVEL", "INFO", options=("DEBUG", "INFO", "WARNING", "ERROR"))
LOG_FORMAT = env.choice("LOG_FORMAT", "pretty" if DEBUG else "json", options=("json", "pretty"))
LOGGING = lines.configuration(LOG_FORMAT, LOG_LEVEL)
DEFAULT_EXCEPTION_REPORTER = "telemetry.crashes.Reporter"
DEFAULT_EXCEPTION_REPORTER_FILTER = "telemetry.crashes.WithoutValues"
