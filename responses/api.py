"""The HTTP API for OpenAI's clients: parse, call one function, render."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from django.urls import reverse
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.views import APIView

from budgets.api import user_id_of
from reports import acceptance, ids, parsing, serializers, transitions
from reports.api import PRIVATE, etag_of, is_known, poll_after_s
from reports.errors import Erased, NotFound
from reports.models import ReportJob
from responses import asking, objects, paging
from responses.refusals import ModelNotFound

if TYPE_CHECKING:
    from django.http import HttpResponseBase
    from rest_framework.request import Request


class ResponseListView(APIView):
    """Ask the model as OpenAI's clients do, in the background."""

    def get_view_name(self) -> str:
        """The heading of the browsable page."""
        return "Responses"

    def post(self, request: Request) -> Response:
        """Accept a request with `background: true` as work, and answer with its Response object.

        Send an `Idempotency-Key` header to be able to repeat it; without one the server makes one.
        """
        user_id = user_id_of(request)
        sent = request.headers.get("Idempotency-Key")
        key = str(uuid4()) if sent is None else serializers.parse_key(sent)
        wishes = asking.wishes_in(parsing.body_of(request))
        prompt = wishes.conversation.prompt if wishes.conversation else ""
        accepted = acceptance.accept(user_id, key=key, prompt=prompt, wishes=wishes)
        job = ReportJob.objects.access(user_id, str(accepted.job_id))
        headers = {
            **PRIVATE,
            "Location": reverse("response-detail", args=[ids.response_id(job.pk)]),
            "Idempotency-Key": key,
            **accepted.envelope.headers(),
        }
        if accepted.was_replayed:
            headers["Idempotent-Replayed"] = "true"
        return _told(job, headers)


class ResponseView(APIView):
    """One response."""

    def get_view_name(self) -> str:
        """The heading of the browsable page."""
        return "Response"

    def get(self, request: Request, response_id: str) -> HttpResponseBase:
        """The response as it is now. Poll again after `Retry-After` seconds until it has ended."""
        job = access(request, response_id)
        fields = objects.response_of(job)
        headers = {**PRIVATE, **_pace(job)}
        if request.accepted_renderer.format == JSONRenderer.format:
            headers["ETag"] = etag_of(fields)
            if is_known(headers["ETag"], request.headers.get("If-None-Match", "")):
                return Response(status=304, headers=headers)
        return Response(fields, headers=headers)

    def delete(self, request: Request, response_id: str) -> Response:
        """Erase the texts of an ended response for good; it is not found any more."""
        job = access(request, response_id)
        transitions.erase(job)
        return Response(
            {"id": ids.response_id(job.pk), "object": "response", "deleted": True},
            headers=PRIVATE,
        )


class ResponseCancelView(APIView):
    """End a response early."""

    def get_view_name(self) -> str:
        """The heading of the browsable page."""
        return "Cancel"

    def post(self, request: Request, response_id: str) -> Response:
        """Cancel it: free while it waits; once the model was called its reservation is kept."""
        transitions.cancel(access(request, response_id))
        return _told(access(request, response_id), PRIVATE)


class InputItemsView(APIView):
    """What a response was asked."""

    def get_view_name(self) -> str:
        """The heading of the browsable page."""
        return "Input items"

    def get(self, request: Request, response_id: str) -> Response:
        """The messages of its input, the newest first; `order`, `limit` and `after` choose."""
        fields = paging.page_of(
            objects.items_of(access(request, response_id)), request.query_params
        )
        return Response(fields, headers=PRIVATE)


class ModelListView(APIView):
    """The models that can be asked: one."""

    def get_view_name(self) -> str:
        """The heading of the browsable page."""
        return "Models"

    def get(self, request: Request) -> Response:
        """The one model that is served here."""
        return Response({"object": "list", "data": [objects.model_object()]}, headers=PRIVATE)


class ModelView(APIView):
    """One model."""

    def get_view_name(self) -> str:
        """The heading of the browsable page."""
        return "Model"

    def get(self, request: Request, model: str) -> Response:
        """The model of this name."""
        if model != objects.model():
            raise ModelNotFound(objects.model())
        return Response(objects.model_object(), headers=PRIVATE)


def access(request: Request, response_id: str) -> ReportJob:
    """One's own job by the id of its response. Raises NotFound for all else, and once erased."""
    job_id = ids.job_of_response(response_id)
    user_id = user_id_of(request)
    if job_id is not None:
        job = ReportJob.objects.access(user_id, str(job_id))
        if not job.is_erased:
            return job
    raise NotFound


def _told(job: ReportJob, headers: dict[str, str]) -> Response:
    if job.is_erased:  # the replay of a request whose response was deleted
        raise Erased
    return Response(objects.response_of(job), headers={**headers, **_pace(job)})


def _pace(job: ReportJob) -> dict[str, str]:
    return {} if job.is_terminal else {"Retry-After": str(poll_after_s(job))}
