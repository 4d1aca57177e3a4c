"""Configuration: what each variable may hold, and the one line that a bad one ends with."""

from __future__ import annotations

import os
import runpy
import sqlite3
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from reports_project.env import BadVariable
from tests.support import processes

SETTINGS = processes.ROOT / "reports_project" / "settings.py"
# The least that a deployment sets.
PRODUCTION = {
    "PYTHON_DOTENV_DISABLED": "1",
    "SECRET_KEY": "a long random text",
    "DATABASE_URL": "postgres://reports:secret@db.example/reports",
    "REDIS_URL": "redis://broker.example/0",
    "INFERENCE_URL": "https://provider.example/complete",
}
DEFAULTS = {
    "DEBUG": False,
    "ALLOWED_HOSTS": ["localhost", "127.0.0.1", "[::1]"],
    "CSRF_TRUSTED_ORIGINS": [],
    "HTTPS": False,
    "TRUSTED_PROXIES": 0,
    "HOST": "0.0.0.0",  # noqa: S104  # the default of production
    "PORT": 8000,
    "INFERENCE_KEY": "",
    "INFERENCE_TIMEOUT_S": 45,
    "INFERENCE_PROTOCOL": "prompt",
    "INFERENCE_SYSTEM_PROMPT": "",
    "INFERENCE_MAX_OUTPUT_TOKENS": 0,
    "INFERENCE_MAX_RESPONSE_BYTES": 1024 * 1024,
    "INFERENCE_MAX_TOKENS_FIELD": "max_tokens",
    "DAILY_TOKEN_CAP": 100_000,
    "MAX_ACTIVE_JOBS_PER_USER": 20,
    "QUEUE_TTL_S": 3600,
    "REDISPATCH_AFTER_S": 30,
    "SWEEP_INTERVAL_S": 10,
    "LEASE_GRACE_S": 15,
    "RETENTION_DAYS": 30,
    "KEY_RETENTION_DAYS": 0,
    "WORKER_CONCURRENCY": 100,
}
WHOLE_NUMBERS = [
    "TRUSTED_PROXIES",
    "PORT",
    "INFERENCE_MAX_OUTPUT_TOKENS",
    "INFERENCE_MAX_RESPONSE_BYTES",
    "DAILY_TOKEN_CAP",
    "MAX_ACTIVE_JOBS_PER_USER",
    "RETENTION_DAYS",
    "KEY_RETENTION_DAYS",
    "WORKER_CONCURRENCY",
    "WEB_CONCURRENCY",
    "WEB_THREADS",
]
DURATIONS = [
    "INFERENCE_TIMEOUT_S",
    "QUEUE_TTL_S",
    "REDISPATCH_AFTER_S",
    "SWEEP_INTERVAL_S",
    "LEASE_GRACE_S",
    "SHUTDOWN_GRACE_S",
]


def settings_of(**variables: str) -> dict[str, Any]:
    """What settings.py makes of an environment."""
    with patch.dict(os.environ, {**PRODUCTION, **variables}, clear=True):
        return runpy.run_path(str(SETTINGS))


def complaint(**variables: str) -> str:
    """The line that it ends with instead."""
    with pytest.raises(BadVariable) as refused:
        settings_of(**variables)
    line = str(refused.value.code)
    assert "\n" not in line
    return line


def test_the_defaults_are_the_contracts():
    found = settings_of()

    assert {name: found[name] for name in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize("name", ["SECRET_KEY", "REDIS_URL", "INFERENCE_URL"])
@pytest.mark.parametrize("value", ["", "  ", None])
def test_production_needs_these(name: str, value: str | None):
    rest = {key: text for key, text in PRODUCTION.items() if key != name}
    if value is not None:
        rest[name] = value

    with patch.dict(os.environ, rest, clear=True), pytest.raises(BadVariable) as refused:
        runpy.run_path(str(SETTINGS))

    assert str(refused.value.code).startswith(f"{name}: is not set; ")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("for-development-only-never-in-production", "everybody knows"),
        ("a long random text, the same for every process", "everybody knows"),
        ("django-insecure-7x!kq9vw2m#e8r5t1y0u3i6o4p", "everybody knows"),
        ("changem", "too short"),
        ("secret", "too short"),
    ],
)
def test_production_takes_no_key_that_others_have(value: str, problem: str):
    line = complaint(SECRET_KEY=value)

    assert line.startswith("SECRET_KEY: ")
    assert problem in line
    assert value not in line
    if "," not in value:
        fallbacks = f"{PRODUCTION['SECRET_KEY']},{value}"
        assert complaint(SECRET_KEY_FALLBACKS=fallbacks).startswith("SECRET_KEY_FALLBACKS: ")
    assert settings_of(DEBUG="1", SECRET_KEY=value)["SECRET_KEY"] == value


@pytest.mark.parametrize(
    "value",
    ["", " ", ",", "*", ".", "a.example,*", "https://a.example", "a.example:443", "*.a", "a b"],
)
def test_production_names_its_hosts(value: str):
    assert complaint(ALLOWED_HOSTS=value).startswith("ALLOWED_HOSTS: ")
    assert settings_of(DEBUG="1", ALLOWED_HOSTS=value)["DEBUG"]


def test_a_host_may_stand_for_all_below_it():
    found = settings_of(ALLOWED_HOSTS="a.example,.b.example,192.0.2.1,[2001:db8::1],LocalHost")

    assert len(found["ALLOWED_HOSTS"]) == 5


@pytest.mark.parametrize("opened", [{"HTTPS": "1"}, {"HOST": "0.0.0.0"}, {"HOST": "::"}])  # noqa: S104
@pytest.mark.parametrize("hosts", ["reports.example.org", "localhost,.example.org", "a.example"])
def test_the_public_sees_no_debug_pages(opened: dict[str, str], hosts: str):
    line = complaint(DEBUG="1", ALLOWED_HOSTS=hosts, **opened)

    assert line.startswith("DEBUG: is on for a public site (")
    assert settings_of(DEBUG="0", ALLOWED_HOSTS=hosts, **opened)


@pytest.mark.parametrize(
    "hosts", ["localhost", "*", "testserver", "192.0.2.1,[2001:db8::1]", "box.local,reports.test"]
)
def test_at_home_debug_pages_are_shown_to_whoever_may_come(hosts: str):
    assert settings_of(DEBUG="1", HTTPS="1", ALLOWED_HOSTS=hosts)["DEBUG"]
    assert settings_of(DEBUG="1", ALLOWED_HOSTS="reports.example.org")["DEBUG"]


@pytest.mark.parametrize(
    ("value", "host"),
    [
        ("localhost", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("::", "::"),
        ("", "0.0.0.0"),  # noqa: S104  # the default of production
        (" ", "0.0.0.0"),  # noqa: S104
    ],
)
def test_the_web_process_listens_at_an_address(value: str, host: str):
    assert settings_of(HOST=value)["HOST"] == host


@pytest.mark.parametrize("value", ["reports.example", "0.0.0.0:8000", "1.2.3", "http://::1", "a b"])
def test_what_is_no_address_is_refused_under_its_name(value: str):
    assert complaint(HOST=value).startswith("HOST: ")


def test_an_address_of_another_machine_is_refused_under_its_name():
    environment = {**PRODUCTION, "PATH": processes.environment()["PATH"], "HOST": "192.0.2.1"}

    done = subprocess.run(
        ["/bin/sh", "-c", processes.procfile()["web"]],
        check=False,
        cwd=processes.ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("HOST: 192.0.2.1 cannot be used: ")


def test_a_sqlite_file_is_made_for_its_owner_alone(tmp_path: Path):
    file = tmp_path / "reports.db"
    found = settings_of(DATABASE_URL=f"sqlite:///{file}")
    database = found["DATABASES"]["default"]

    with sqlite3.connect(file) as connection:
        connection.executescript(database["OPTIONS"]["init_command"])
        connection.execute("CREATE TABLE jobs (prompt TEXT)")
        connection.commit()
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    connection.close()

    assert modes == dict.fromkeys(["reports.db", "reports.db-shm", "reports.db-wal"], 0o600)


@pytest.mark.parametrize("name", [":memory:", "file:shared?mode=memory", "/nowhere/reports.db"])
def test_what_is_no_file_is_not_made(name: str):
    settings_of(DATABASE_URL=f"sqlite:///{name}")

    assert not Path(name).exists()


@pytest.mark.parametrize("value", ["", "  "])
def test_development_needs_none_of_them(value: str):
    bare = {"PYTHON_DOTENV_DISABLED": "1", "DEBUG": "1"}
    empty = dict.fromkeys(("SECRET_KEY", "REDIS_URL", "INFERENCE_URL", "DATABASE_URL"), value)

    with patch.dict(os.environ, {**bare, **empty}, clear=True):
        found = runpy.run_path(str(SETTINGS))

    assert found["SECRET_KEY"]
    assert found["DATABASES"]["default"]["ENGINE"] == "django.db.backends.sqlite3"
    assert Path(found["DATABASES"]["default"]["NAME"]).parent == processes.ROOT / "var"


@pytest.mark.parametrize(
    ("value", "timeout_s"),
    [(" 30 ", 30.0), ("0.5", 0.5), ("45", 45.0), ("3600", 3600.0), ("1e1", 10.0), ("30\n", 30.0)],
)
def test_a_timeout_is_a_number_of_seconds(value: str, timeout_s: float):
    assert settings_of(INFERENCE_TIMEOUT_S=value)["INFERENCE_TIMEOUT_S"] == timeout_s


@pytest.mark.parametrize("name", DURATIONS)
@pytest.mark.parametrize(
    "value",
    [
        "",
        "-1",
        "abc",
        "nan",
        "inf",
        "-inf",
        "Infinity",
        "1e9",
        "30s",
        "1:30",
        "1,5",
        "0x10",
        "None",
    ],
)
def test_no_duration_is_without_end_or_sense(name: str, value: str):
    assert complaint(**{name: value}).startswith(f"{name}: must be a number of seconds from ")


@pytest.mark.parametrize("name", ["INFERENCE_TIMEOUT_S", "QUEUE_TTL_S", "SWEEP_INTERVAL_S"])
@pytest.mark.parametrize("value", ["0", "0.0", "-0", "1e-9"])
def test_no_time_at_all_is_refused(name: str, value: str):
    assert complaint(**{name: value}).startswith(f"{name}: must be a number of seconds from ")


@pytest.mark.parametrize("name", WHOLE_NUMBERS)
@pytest.mark.parametrize("value", ["", "-1", "abc", "1.5", "1e3", "9" * 30, "٣", "1_000", "0x10"])
def test_a_whole_number_is_one(name: str, value: str):
    assert complaint(**{name: value}).startswith(f"{name}: must be ")


@pytest.mark.parametrize(
    ("name", "value"),
    [("PORT", "0"), ("PORT", "65536"), ("MAX_ACTIVE_JOBS_PER_USER", "0"), ("RETENTION_DAYS", "0")],
)
def test_a_number_out_of_bounds_is_refused(name: str, value: str):
    assert complaint(**{name: value}).startswith(f"{name}: must be from ")


@pytest.mark.parametrize(
    ("value", "is_on"),
    [(word, True) for word in ("1", "true", "yes", "on", "True", " ON ")]
    + [(word, False) for word in ("0", "false", "no", "off", "FALSE", "")],
)
def test_a_boolean_is_one_of_eight_words(value: str, is_on: bool):
    assert settings_of(HTTPS=value)["HTTPS"] is is_on


@pytest.mark.parametrize("name", ["DEBUG", "HTTPS"])
@pytest.mark.parametrize("value", ["2", "y", "tru", "None"])
def test_another_word_is_no_boolean(name: str, value: str):
    assert complaint(**{name: value}) == (f"{name}: must be one of 1/true/yes/on or 0/false/no/off")


def test_a_list_is_separated_by_commas():
    found = settings_of(ALLOWED_HOSTS=" a.example, b.example ,,")

    assert found["ALLOWED_HOSTS"] == ["a.example", "b.example"]


def test_trusted_origins_are_a_list():
    found = settings_of(CSRF_TRUSTED_ORIGINS="https://a.example, http://*.b.example:8000")

    assert found["CSRF_TRUSTED_ORIGINS"] == ["https://a.example", "http://*.b.example:8000"]


@pytest.mark.parametrize(
    "value", ["reports.example", "https://", "//reports.example", "x://a", "http://a/"]
)
def test_a_trusted_origin_has_a_scheme_and_a_host(value: str):
    line = complaint(CSRF_TRUSTED_ORIGINS=f"https://good.example,{value}")

    assert line.startswith("CSRF_TRUSTED_ORIGINS: ")


@pytest.mark.parametrize(
    ("url", "protocol", "limit"),
    [
        ("http://p.example/complete", "prompt", 0),
        ("http://p.example/v1/chat/completions", "openai", 1024),
        ("http://p.example/v1/chat/completions?key=1", "openai", 1024),
        ("http://p.example/chat/completions/", "prompt", 0),
    ],
)
def test_the_protocol_follows_the_url(url: str, protocol: str, limit: int):
    found = settings_of(INFERENCE_URL=url)

    assert found["INFERENCE_PROTOCOL"] == protocol
    assert found["INFERENCE_MAX_OUTPUT_TOKENS"] == limit


@pytest.mark.parametrize("protocol", ["prompt", "openai"])
def test_a_protocol_that_is_named_wins(protocol: str):
    found = settings_of(INFERENCE_PROTOCOL=protocol)

    assert found["INFERENCE_PROTOCOL"] == protocol


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("INFERENCE_PROTOCOL", "grpc"),
        ("INFERENCE_PROTOCOL", "OpenAI"),
        ("INFERENCE_MAX_TOKENS_FIELD", "tokens"),
        ("LOG_FORMAT", "xml"),
        ("LOG_LEVEL", "debug"),
        ("LOG_LEVEL", ""),
    ],
)
def test_a_choice_is_one_of_its_words(name: str, value: str):
    assert complaint(**{name: value}).startswith(f"{name}: must be one of ")


@pytest.mark.parametrize(
    "value",
    [
        "provider.example/complete",
        "ftp://provider.example",
        "http://",
        "http://:80/",
        "http://host:99999/",
        "http://host:0/",
        "http://[::1/",
        "http://a b.example/",
        "http://host/\x07",
        "http://host/\nHost: evil",
        "file:///etc/passwd",
    ],
)
def test_an_url_is_absolute_and_its_text_is_not_repeated(value: str):
    line = complaint(INFERENCE_URL=value)

    assert line == "INFERENCE_URL: must be an absolute http:// or https:// URL"


@pytest.mark.parametrize("around", ["{}\n", "{}\r\n", " {} ", "\ufeff{}", "{}"])
def test_what_surrounds_a_key_is_stripped(around: str):
    assert settings_of(INFERENCE_KEY=around.format("sk-1"))["INFERENCE_KEY"] == "sk-1"


@pytest.mark.parametrize("value", ["CANARY\u2026", "CAN ARY", "CAN\nARY", "CANARY\x7f", "CANARYé"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(value: str):
    line = complaint(INFERENCE_KEY=value)

    assert line.startswith("INFERENCE_KEY: ")
    assert "CAN" not in line.removeprefix("INFERENCE_KEY: ")


@pytest.mark.parametrize(
    "value",
    [
        "mysql://a@b/c",
        "postgres://user:CANARY@host/",
        "postgres://user:CANARY@host:99999/name",
        "postgres://user:CANARY@[host/name",
        "CANARY",
        "postgres://user:CANARY@host/name?sslmode",
    ],
)
def test_a_database_is_known_and_its_password_not_shown(value: str):
    line = complaint(DATABASE_URL=value)

    assert line.startswith("DATABASE_URL: ")
    assert "CANARY" not in line


def test_a_database_url_is_read_whole():
    found = settings_of(DATABASE_URL="postgresql://us%40er:p%3Aw@h:1234/na%2Fme?sslmode=require")

    database = found["DATABASES"]["default"]
    words = {name: database[name] for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT")}
    assert words == {
        "NAME": "na/me",
        "USER": "us@er",
        "PASSWORD": "p:w",
        "HOST": "h",
        "PORT": "1234",
    }
    assert database["OPTIONS"]["sslmode"] == "require"


def of_database(query: str) -> dict[str, Any]:
    """Django's settings for a PostgreSQL with these words behind its URL."""
    found = settings_of(DATABASE_URL=f"postgres://reports@db.example/reports?{query}")
    database: dict[str, Any] = found["DATABASES"]["default"]
    return database


@pytest.mark.parametrize(
    ("query", "name", "value"),
    [
        ("prepare_threshold=none", "prepare_threshold", None),
        ("prepare_threshold=NONE", "prepare_threshold", None),
        ("prepare_threshold=0", "prepare_threshold", 0),
        ("sslmode=require&prepare_threshold=5", "prepare_threshold", 5),
        ("server_side_binding=1", "server_side_binding", True),
        ("server_side_binding=Off", "server_side_binding", False),
    ],
)
def test_a_database_url_says_how_statements_are_sent(query: str, name: str, value: object):
    options = of_database(query)["OPTIONS"]

    assert (type(options[name]), options[name]) == (type(value), value)


def test_a_database_url_says_how_many_connections_a_process_holds_at_most():
    assert of_database("")["OPTIONS"]["pool"]["max_size"] == 10
    many = of_database("pool_max=50")["OPTIONS"]

    assert many["pool"]["max_size"] == 50
    assert "pool_max" not in many  # which PostgreSQL's client does not know


@pytest.mark.parametrize(
    ("query", "is_by_transaction"),
    [("", False), ("prepare_threshold=5", False), ("prepare_threshold=none", True)],
)
def test_behind_a_pooler_by_transaction_no_cursor_outlives_its_own(
    query: str, *, is_by_transaction: bool
):
    assert of_database(query)["DISABLE_SERVER_SIDE_CURSORS"] is is_by_transaction


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("prepare_threshold=", "must be none or a whole number from 0 to 1000000"),
        ("prepare_threshold=never", "must be none or a whole number from 0 to 1000000"),
        ("prepare_threshold=-1", "must be none or from 0 to 1000000, not -1"),
        ("server_side_binding=maybe", "must be one of 1/true/yes/on or 0/false/no/off"),
        ("pool_max=", "must be a whole number from 1 to 1000"),
        ("pool_max=0", "must be from 1 to 1000, not 0"),
    ],
)
def test_a_bad_word_in_a_database_url_is_told_by_its_own_name(query: str, problem: str):
    line = complaint(DATABASE_URL=f"postgres://user:CANARY@host/name?{query}")

    assert line == f"DATABASE_URL: {query.partition('=')[0]} {problem}"


@pytest.mark.parametrize(
    "value", ["http://host", "host:6379", "redis://:CANARY@host:99999/0", "redis://:CANARY@[x/0"]
)
def test_a_broker_is_known_and_its_password_not_shown(value: str):
    line = complaint(REDIS_URL=value)

    assert line.startswith("REDIS_URL: ")
    assert "CANARY" not in line


@pytest.mark.parametrize("scheme", ["redis", "rediss", "valkey", "valkeys"])
def test_a_broker_may_be_redis_or_valkey(scheme: str):
    found = settings_of(REDIS_URL=f"{scheme}://host:6379/1")

    secure = "s" if scheme.endswith("ys") or scheme == "rediss" else ""
    assert found["CELERY_BROKER_URL"] == f"redis{secure}://host:6379/1"


@pytest.mark.parametrize("name", ["release", "web", "worker", "beat"])
@pytest.mark.parametrize(
    ("variable", "value"), [("INFERENCE_TIMEOUT_S", "inf"), ("PORT", "http"), ("SECRET_KEY", "")]
)
def test_every_process_ends_with_one_line_and_status_1(name: str, variable: str, value: str):
    environment = {**PRODUCTION, "PATH": processes.environment()["PATH"], variable: value}

    done = subprocess.run(
        ["/bin/sh", "-c", processes.procfile()[name]],
        check=False,
        cwd=processes.ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(f"{variable}: ")
