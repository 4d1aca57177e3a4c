"""Streams up to their first events: who asks, for which job, and where it stands.

What comes after is the event loop's (`application`), which finds an Opening in the environ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.http import HttpResponse
from rest_framework.views import APIView

from budgets.api import user_id_of
from reports.errors import Erased, InvalidRequest
from reports.models import ReportJob
from reports.parsing import JSON, Negotiation
from responses import api as responses
from streams import crowd, frames, marks, rights
from streams.dialects import State
from streams.openai import NO_TEXT, NOTHING, OPENAI
from streams.ours import OURS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from django.http import HttpResponseBase
    from rest_framework.renderers import BaseRenderer
    from rest_framework.request import Request

    from streams.dialects import AnyDialect
    from streams.rights import Right

# In the environ: None where somebody can keep a stream open, who is told of it here.
OPENING = "reports.opening"
TRUTHS = ("true", "false")
NUMBER = re.compile(r"[0-9]{1,10}")
HEADERS = {
    "Cache-Control": "private, no-store",
    "X-Accel-Buffering": "no",  # nginx would keep events until it has some kilobytes of them
}


@dataclass(frozen=True, slots=True)
class Opening:
    """A stream that may go on: of which job, by what right, and what its client has seen."""

    job_id: UUID
    right: Right
    dialect: AnyDialect
    word: str  # for the state that the job had just now
    seen: object  # in that dialect

    @property
    def topic(self) -> tuple[UUID, AnyDialect]:
        """What it watches."""
        return self.job_id, self.dialect


class Streaming(Negotiation):
    """Events for whoever accepts them; what goes wrong is told in JSON all the same."""

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        """The JSON renderer. Raises NotAcceptable if the client takes neither."""
        ours = list(renderers)
        if frames.MEDIA_TYPE in request.headers.get("Accept", "").lower():
            return ours[0], JSON
        super().select_renderer(request, ours, format_suffix)
        return ours[0], JSON


class EventsView(APIView):
    """What becomes of one job, as it happens."""

    content_negotiation_class = Streaming

    def get(self, request: Request, job_id: str) -> HttpResponse:
        """The first part of the stream: the present state, unless the client has seen it.

        204, after which no client comes back, to who has seen the job's end.
        """
        job = ReportJob.objects.access(user_id_of(request), job_id)
        if job.is_erased:
            raise Erased
        seen = marks.read(request.headers.get("Last-Event-ID"))
        if seen.state != marks.state_of(job):
            seen = marks.Mark()
        elif job.is_terminal:
            return HttpResponse(status=204, headers=HEADERS)
        return begin(request, job, OURS, seen, before=frames.RETRY)


class ResponseView(responses.ResponseView):
    """One response, and its events."""

    content_negotiation_class = Streaming

    def get(self, request: Request, response_id: str) -> HttpResponseBase:
        """The response as it is now. Poll again after `Retry-After` seconds until it has ended.

        With `stream=true` its events as they happen, behind the number `starting_after`.
        """
        asked = request.query_params
        if (wants := asked.get("stream", "false")).lower() not in TRUTHS:
            raise InvalidRequest(stream="It is true or false.")
        after = asked.get("starting_after", "0")
        if not NUMBER.fullmatch(after) or int(after) > NO_TEXT:
            raise InvalidRequest(starting_after="It is the sequence_number of an event.")
        if wants.lower() == "true":
            job = responses.access(request, response_id)
            return begin(request, job, OPENAI, int(asked.get("starting_after", NOTHING)))
        return super().get(request, response_id)


def begin(
    request: Request, job: ReportJob, dialect: AnyDialect, seen: object, *, before: bytes = b""
) -> HttpResponse:
    """What a client lacks now; where it can be kept open, the stream of a job that has not ended.

    Raises TooManyStreams, or Unavailable when this process is full.
    """
    state = State(marks.state_of(job), dialect.say(job), job.is_terminal)
    pieces = [before]
    for has_seen, piece in dialect.lacking(seen, state, ""):
        seen = has_seen
        pieces.append(piece)
    if OPENING in request.META and request.method == "GET" and not job.is_terminal:
        right = rights.of(request)
        crowd.enter(right.user_id)
        request.META[OPENING] = Opening(job.pk, right, dialect, state.word, seen)
    content = b"".join(pieces)
    return HttpResponse(content, content_type=frames.CONTENT_TYPE, headers=HEADERS)
