"""One POST under a wall clock and a byte limit; knows bytes, clock and socket, and no protocol."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import requests
import urllib3

from reports.errors import ErrorCode
from reports.provider.calls import Call, Phase
from reports.provider.growing import MEDIA_TYPE
from reports.provider.outcome import Failure, failure, invalid
from reports.provider.pooling import session_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reports.provider.growing import Taking

ERROR_BODY_BYTES = 64 * 1024  # of a refusal only its message matters
CHUNK_BYTES = 64 * 1024
# Of a stream what is kept is limited, which is the text; around each word of it comes this much.
WRAPPING = 64

UNREACHABLE = {
    Phase.RESOLVING: "The provider's host name could not be found.",
    Phase.CONNECTING: "The provider could not be connected to.",
    Phase.SECURING: "No trusted TLS connection to the provider could be made.",
    Phase.WAITING: "The provider closed the connection without an answer.",
}
# Before these are over, not a byte of the request has left.
UNSENT = frozenset({Phase.RESOLVING, Phase.CONNECTING, Phase.SECURING})


@dataclass(frozen=True, slots=True)
class Answer:
    """What the provider sent; the body of a refusal is empty if it could not be read.

    It is empty too where it came in events and was taken as they came.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    was_taken: bool = False


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    call: Call,
    max_bytes: int,
    taking: Taking,
) -> Answer | Failure:
    """Send one request, once; whatever happens on the wire is the return value."""
    try:
        with session_for(call) as session:
            answer = _exchange(
                session, url, body, headers, call=call, max_bytes=max_bytes, taking=taking
            )
            call.finish()
            return answer
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        return _conclude(call, error)


class _TooLarge(urllib3.exceptions.HTTPError):
    pass


def _exchange(
    session: requests.Session,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    call: Call,
    max_bytes: int,
    taking: Taking,
) -> Answer:
    def set_headers(request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers.update(headers)
        return request

    with session.post(
        url,
        data=body,
        auth=set_headers,  # so that they win over a user and password in the URL
        stream=True,
        allow_redirects=False,
        timeout=call.seconds_left + 1,  # the watchdog is first, unless it died
    ) as response:
        call.phase = Phase.READING
        if response.status_code == 200 and _is_stream(response):
            _take(response.raw, max_bytes, taking)
            return Answer(200, response.headers, b"", was_taken=True)
        limit = max_bytes if response.status_code == 200 else ERROR_BODY_BYTES
        return Answer(response.status_code, response.headers, _read(response.raw, limit))


def _read(raw: urllib3.response.BaseHTTPResponse, limit: int) -> bytes:
    declared = 0 if "Content-Encoding" in raw.headers else raw.length_remaining or 0
    if declared > limit:
        raise _TooLarge
    body = bytearray()
    # Decoded piece by piece: a few bytes on the wire may stand for gigabytes.
    while piece := raw.read(min(CHUNK_BYTES, limit + 1 - len(body)), decode_content=True):
        body += piece
        if len(body) > limit:
            raise _TooLarge
    return bytes(body)


def _is_stream(response: requests.Response) -> bool:
    kind = response.headers.get("Content-Type", "").partition(";")[0]
    return kind.strip().lower() == MEDIA_TYPE


def _take(raw: urllib3.response.BaseHTTPResponse, limit: int, taking: Taking) -> None:
    """Read a stream as it comes, to its end or to the provider's own complaint."""
    size = 0
    while taking.growing.failure is None:
        piece = raw.read1(CHUNK_BYTES, decode_content=True)
        if not piece:
            return
        size += len(piece)
        taking.feed(piece)
        if taking.size > limit or size > WRAPPING * limit:
            raise _TooLarge


def _conclude(call: Call, error: Exception) -> Answer | Failure:
    if not call.seconds_left:
        call.expire()  # whoever noticed it first
    if call.status is not None and 200 < call.status <= 599:
        return Answer(call.status, {}, b"")  # the status line has said it all
    if call.stopped_by is ErrorCode.PROVIDER_TIMEOUT:
        detail = f"The time limit was reached while {call.phase}."
        return failure(ErrorCode.PROVIDER_TIMEOUT, detail)
    if call.stopped_by is not None:
        return failure(call.stopped_by, f"The worker was stopped while {call.phase}.")
    if call.status is None:
        unreachable = failure(ErrorCode.PROVIDER_UNREACHABLE, UNREACHABLE[call.phase])
        is_unsent = call.phase in UNSENT
        return dataclasses.replace(unreachable, retry_after_s=0) if is_unsent else unreachable
    if call.status != 200:
        return invalid("The provider answered with something that is not HTTP.")
    return invalid(_broken(error))


def _broken(error: Exception) -> str:
    if isinstance(error, _TooLarge):
        return "The provider's answer is larger than INFERENCE_MAX_RESPONSE_BYTES allows."
    if isinstance(error, urllib3.exceptions.DecodeError):
        return "The provider's answer could not be decompressed."
    return "The provider's answer was cut short or malformed."
