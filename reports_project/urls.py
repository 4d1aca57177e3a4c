"""Every route of the product on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth import views as auth
from django.urls import URLPattern, path, re_path
from django.views.generic import RedirectView

from access import pages as access
from budgets.api import BudgetView
from openapi import views as openapi
from reports import front, pages
from reports.answers import nowhere, private
from reports.api import AgainView, CancelView, ReportListView, ReportView
from reports_project import ops
from responses import api as responses
from streams.views import EventsView, ResponseView
from webhooks import api as webhooks, pages as hooks

if TYPE_CHECKING:
    from collections.abc import Callable

# Whatever stands there, slashes too: a malformed id is answered exactly like an unknown one.
JOB = r"(?P<job_id>[\s\S]+?)"
WEBHOOK = r"(?P<webhook_id>[\s\S]+?)"
DELIVERY = r"(?P<delivery_id>[\s\S]+?)"
RESPONSE = r"(?P<response_id>[\s\S]+?)"
MODEL = r"(?P<model>[\s\S]+?)"

SIGN_IN = private(auth.LoginView.as_view(redirect_authenticated_user=True))
SIGN_OUT = private(pages.SignOut.as_view())

handler500 = "reports.pages.broken"


def api(route: str, view: Callable[..., Any], name: str) -> URLPattern:
    """An API path, which works the same with a final slash and without."""
    return re_path(rf"^{route}/?\Z", view, name=name)


urlpatterns = [
    api("reports", ReportListView.as_view(), "report-list"),
    api(f"reports/{JOB}/again", AgainView.as_view(), "report-again"),
    api(f"reports/{JOB}/events", EventsView.as_view(), "report-events"),
    api(f"reports/{JOB}/cancel", CancelView.as_view(), "report-cancel"),
    api(f"reports/{JOB}", ReportView.as_view(), "report-detail"),
    api("webhooks", webhooks.WebhookListView.as_view(), "webhook-list"),
    api(f"webhooks/{WEBHOOK}/rotate", webhooks.WebhookRotateView.as_view(), "webhook-rotate"),
    api(f"webhooks/{WEBHOOK}/test", webhooks.WebhookTestView.as_view(), "webhook-test"),
    api(
        f"webhooks/{WEBHOOK}/deliveries/{DELIVERY}/replay",
        webhooks.ReplayView.as_view(),
        "webhook-replay",
    ),
    api(
        f"webhooks/{WEBHOOK}/deliveries", webhooks.DeliveryListView.as_view(), "webhook-deliveries"
    ),
    api(f"webhooks/{WEBHOOK}", webhooks.WebhookView.as_view(), "webhook-detail"),
    api("v1/responses", responses.ResponseListView.as_view(), "response-list"),
    api(
        f"v1/responses/{RESPONSE}/cancel",
        responses.ResponseCancelView.as_view(),
        "response-cancel",
    ),
    api(
        f"v1/responses/{RESPONSE}/input_items",
        responses.InputItemsView.as_view(),
        "response-input-items",
    ),
    api(f"v1/responses/{RESPONSE}", ResponseView.as_view(), "response-detail"),
    api("v1/models", responses.ModelListView.as_view(), "model-list"),
    api(f"v1/models/{MODEL}", responses.ModelView.as_view(), "model-detail"),
    api("budget", BudgetView.as_view(), "budget"),
    api("schema", openapi.schema, "schema"),
    api("docs", openapi.docs, "docs"),
    api("healthz", ops.healthz, "healthz"),
    api("readyz", ops.readyz, "readyz"),
    api("metrics", ops.metrics, "metrics"),
    path("", front.index, name="index"),
    path("jobs/<uuid:job_id>/", pages.job, name="job"),
    path("jobs/<uuid:job_id>", pages.job),
    path("jobs/<uuid:job_id>/fragment/", pages.fragment, name="job-fragment"),
    path("jobs/<uuid:job_id>/text.md", pages.text, name="job-text"),
    path("jobs/<uuid:job_id>/cancel/", pages.cancel, name="job-cancel"),
    path("jobs/<uuid:job_id>/erase/", pages.erase, name="job-erase"),
    path("tokens/", access.tokens, name="tokens"),
    path("tokens", access.tokens),
    path("tokens/<int:token_id>/revoke/", access.revoke, name="token-revoke"),
    path("hooks/", hooks.hooks, name="hooks"),
    path("hooks", hooks.hooks),
    path("hooks/<uuid:webhook_id>/", hooks.hook, name="hook"),
    path("login/", SIGN_IN, name="login"),
    path("login", SIGN_IN),
    path("logout/", SIGN_OUT, name="logout"),
    path("logout", SIGN_OUT),
    path("admin/", admin.site.urls),
    path("admin", RedirectView.as_view(pattern_name="admin:index")),
    path("favicon.ico", RedirectView.as_view(url="/static/icon.svg")),
    re_path("", nowhere, name="none"),
]
