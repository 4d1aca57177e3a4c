"""The HTTP API: parse, call one function, render."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from django.urls import reverse
from django.utils import timezone
from django.utils.http import parse_etags
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param
from rest_framework.views import APIView

from budgets.api import user_id_of
from reports import acceptance, parsing, serializers, transitions
from reports.errors import Erased, InvalidRequest, JobActive
from reports.models import ReportJob
from reports.wishes import Wishes, validate_instant

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from rest_framework.request import Request

    from reports.acceptance import Accepted

QUICKEST_POLL_S = 1
SLOWEST_POLL_S = 10
CURSOR = re.compile(r"(-?)([0-9]{0,16})[.]([0-9]{1,4})")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
CREATED = {"created_after": "created_at__gte", "created_before": "created_at__lt"}
PRIVATE = {"Cache-Control": "private, no-cache"}


class HistoryPagination(CursorPagination):
    """Newest first, in pages that do not shift when jobs are added.

    A cursor is `-` when it leads back, the microseconds of an instant (none: the newest), a dot,
    and how many jobs of that instant to pass by. DRF's own form could not be described exactly.
    """

    page_size = 20
    ordering = ("-created_at", "-id")

    def decode_cursor(self, request: Request) -> Cursor | None:
        """The cursor of a request. Raises InvalidRequest for one that we could not have made."""
        if self.cursor_query_param not in request.query_params:
            return None
        found = CURSOR.fullmatch(request.query_params[self.cursor_query_param])
        if found is None:
            raise InvalidRequest(cursor="This cursor is none of ours; follow `next` from a page.")
        back, instant, offset = found.groups()
        position = str(EPOCH + timedelta(microseconds=int(instant))) if instant else None
        # The stubs know positions that are numbers only.
        return Cursor(int(offset), bool(back), position)  # type: ignore[arg-type]

    def encode_cursor(self, cursor: Cursor) -> str:
        """The address of the page at a cursor."""
        position = str(cursor.position or "")
        instant = (datetime.fromisoformat(position) - EPOCH) // MICROSECOND if position else ""
        place = f"{'-' if cursor.reverse else ''}{instant}.{cursor.offset}"
        return replace_query_param(self.base_url or "", self.cursor_query_param, place)


class ReportListView(APIView):
    """Submit a prompt as a job, or list your jobs."""

    def get_view_name(self) -> str:
        """The heading of the browsable page."""
        return "Reports"

    def post(self, request: Request) -> Response:
        """Accept a prompt as work and answer with the job's id.

        Send an `Idempotency-Key` header: the same key and prompt always answer with the same job.
        Beside the `prompt`, `metadata` are labels of yours, and `expires_in_s` is how many seconds
        the job is worth a wait.
        """
        key = serializers.parse_key(request.headers.get("Idempotency-Key"))
        prompt, wishes = serializers.validate_body(parsing.body_of(request))
        user_id = user_id_of(request)
        return _accepted(acceptance.accept(user_id, key=key, prompt=prompt, wishes=wishes))

    def get(self, request: Request) -> Response:
        """Your jobs, newest first; `?status=`, `?created_after=` and `?created_before=` filter."""
        jobs: QuerySet[ReportJob] = ReportJob.objects.owned_by(user_id_of(request))
        if "status" in request.query_params:
            jobs = jobs.filter(status=serializers.validate_status(request.query_params["status"]))
        # From an instant on and up to another: one window after the other shows each job once.
        for name, lookup in CREATED.items():
            if name in request.query_params:
                moment = validate_instant(request.query_params[name], name=name)
                jobs = jobs.filter(**{lookup: moment})
        pages = HistoryPagination()
        page = pages.paginate_queryset(
            jobs.defer("prompt", "result_text", "openai_request"), request, view=self
        )
        response = pages.get_paginated_response([serializers.summary(job) for job in page or ()])
        response["Cache-Control"] = PRIVATE["Cache-Control"]
        return response


class ReportView(APIView):
    """One job."""

    def get_view_name(self) -> str:
        """The heading of the browsable page."""
        return "Report"

    def get(self, request: Request, job_id: str) -> Response:
        """The job as it is now. Poll again after `Retry-After` seconds until it has ended."""
        job = ReportJob.objects.access(user_id_of(request), job_id)
        if job.is_erased:
            raise Erased
        return _answer(request, job)

    def delete(self, request: Request, job_id: str) -> Response:
        """Erase the prompt and the text for good. The job's key stays used."""
        transitions.erase(ReportJob.objects.access(user_id_of(request), job_id))
        return Response(status=204)


class CancelView(APIView):
    """End a job early."""

    def get_view_name(self) -> str:
        """The heading of the browsable page."""
        return "Cancel"

    def post(self, request: Request, job_id: str) -> Response:
        """Cancel a job: free while it waits; once the model was called its reservation is kept."""
        transitions.cancel(ReportJob.objects.access(user_id_of(request), job_id))
        return Response(
            serializers.detail(ReportJob.objects.access(user_id_of(request), job_id)),
            headers=PRIVATE,
        )


class AgainView(APIView):
    """Ask the same again."""

    def get_view_name(self) -> str:
        """The heading of the browsable page."""
        return "Again"

    def post(self, request: Request, job_id: str) -> Response:
        """Accept the prompt of an ended job as a new job, which is linked to it.

        Send an `Idempotency-Key` to be able to repeat this; without one the server makes one.
        """
        user_id = user_id_of(request)
        sent = request.headers.get("Idempotency-Key")
        key = str(uuid4()) if sent is None else serializers.parse_key(sent)
        job = ReportJob.objects.access(user_id, job_id)
        if job.is_erased:
            raise Erased
        if not job.is_terminal:
            raise JobActive
        wishes = Wishes.again(job)
        response = _accepted(acceptance.accept(user_id, key=key, prompt=job.prompt, wishes=wishes))
        response["Idempotency-Key"] = key
        return response


def _accepted(accepted: Accepted) -> Response:
    headers = {
        "Location": reverse("report-detail", args=[accepted.job_id]),
        "Retry-After": str(QUICKEST_POLL_S),
        **accepted.envelope.headers(),
    }
    if accepted.was_replayed:
        headers["Idempotent-Replayed"] = "true"
    body = {"job_id": str(accepted.job_id), "status": accepted.status}
    return Response(body, status=202, headers=headers)


def _answer(request: Request, job: ReportJob) -> Response:
    fields = serializers.detail(job)
    headers = dict(PRIVATE)
    if not job.is_terminal:
        headers["Retry-After"] = str(poll_after_s(job))
    if request.accepted_renderer.format == JSONRenderer.format:
        etag = etag_of(fields)
        headers["ETag"] = etag
        if is_known(etag, request.headers.get("If-None-Match", "")):
            return Response(status=304, headers=headers)
    return Response(fields, headers=headers)


def poll_after_s(job: ReportJob) -> int:
    """How long a client should wait: a second at first, longer as the job ages."""
    age_s = (timezone.now() - job.created_at).total_seconds()
    return int(min(max(QUICKEST_POLL_S, age_s / 10), SLOWEST_POLL_S))


def etag_of(fields: dict[str, object]) -> str:
    """A strong entity tag."""
    return f'"{hashlib.blake2b(JSONRenderer().render(fields), digest_size=16).hexdigest()}"'


def is_known(etag: str, if_none_match: str) -> bool:
    """RFC 9110 section 13.1.2: a weak comparison, for a proxy may have weakened our tag."""
    known = parse_etags(if_none_match)
    return "*" in known or etag in [tag.removeprefix("W/") for tag in known]
