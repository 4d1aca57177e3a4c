"""Why a job failed and why a request is refused: every code, in the contract's order."""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping


class ErrorCode(StrEnum):
    """Why a job ended as failed."""

    PROVIDER_5XX = "provider_5xx"  # the provider answered 5xx
    PROVIDER_REJECTED = "provider_rejected"  # the provider answered anything else but 200
    PROVIDER_TIMEOUT = "provider_timeout"  # the whole call outlasted INFERENCE_TIMEOUT_S
    PROVIDER_UNREACHABLE = "provider_unreachable"  # no status line was read
    PROVIDER_INVALID_RESPONSE = "provider_invalid_response"  # a 200 that is not the expected shape
    WORKER_LOST = "worker_lost"  # the lease ran out: its worker died
    QUEUE_EXPIRED = "queue_expired"  # still queued after QUEUE_TTL_S
    CANCELLED = "cancelled"  # its owner or an admin cancelled it
    INTERNAL_ERROR = "internal_error"  # our own code raised after the claim


class Refusal(Exception):
    """A request that is answered with an error; the class carries what programs test.

    `members` are extension members of the problem document (RFC 9457 section 3.2).
    """

    status: ClassVar[int]
    code: ClassVar[str]
    detail: ClassVar[str]
    type: ClassVar[str] = "about:blank"

    def __init__(
        self,
        detail: str | None = None,
        *,
        members: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.text = detail or type(self).detail
        self.members = dict(members or {})
        self.headers = dict(headers or {})
        super().__init__(self.code)

    def document(self) -> dict[str, object]:
        """The problem document of RFC 9457. Beside `about:blank` its title is the status phrase."""
        return {
            "type": self.type,
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.text,
            "error": self.code,
            **self.members,
        }


class BadRequest(Refusal):
    """A request that means nothing here, such as one for a foreign host."""

    status = 400
    code = "bad_request"
    detail = "The request cannot be understood; look at its Host header and its path."


class KeyMissing(Refusal):
    """No Idempotency-Key, or an empty one."""

    status = 400
    code = "idempotency_key_missing"
    detail = (
        "Send an Idempotency-Key header: a value of your own, new for each report and the same for "
        "each retry of it. A UUID is a good choice."
    )


class KeyInvalid(Refusal):
    """An Idempotency-Key that does not fit."""

    status = 400
    code = "idempotency_key_invalid"
    detail = "An Idempotency-Key is 1 to 255 printable ASCII characters."


class InvalidRequest(Refusal):
    """A body that does not fit; `errors` names each field."""

    status = 400
    code = "invalid_request"
    detail = "The request does not fit; see errors."

    def __init__(self, **errors: str) -> None:
        super().__init__(members={"errors": {field: [text] for field, text in errors.items()}})


class NotAuthenticated(Refusal):
    """No credentials, or credentials that are not good."""

    status = 401
    code = "not_authenticated"
    detail = "Send Authorization: Bearer <token> with a valid token, or sign in."


class CsrfFailed(Refusal):
    """A session request without its CSRF token."""

    status = 403
    code = "csrf_failed"
    detail = "The CSRF token is missing or wrong. Reload the page and try again."


class PermissionDenied(Refusal):
    """Authenticated, and not allowed."""

    status = 403
    code = "permission_denied"
    detail = "You may not do this."


class NotFound(Refusal):
    """No such thing, or somebody else's: the same answer for both."""

    status = 404
    code = "not_found"
    detail = "There is nothing here."


class MethodNotAllowed(Refusal):
    """The resource does not know this method."""

    status = 405
    code = "method_not_allowed"
    detail = "This resource does not support that method; see the Allow header."


class NotAcceptable(Refusal):
    """Nothing we can send is among what the client accepts."""

    status = 406
    code = "not_acceptable"
    detail = "Answers are application/json; ask for that in the Accept header, or leave it out."


class BodyTimeout(Refusal):
    """The body did not arrive in time."""

    status = 408
    code = "body_timeout"
    detail = "The request body did not arrive in time. Nothing was accepted; send it again."


class JobActive(Refusal):
    """A job that is not terminal cannot be erased."""

    status = 409
    code = "job_active"
    detail = "This job has not ended yet. Cancel it first, or wait for its end."


class JobFinished(Refusal):
    """A job that ended otherwise cannot be cancelled."""

    status = 409
    code = "job_finished"
    detail = "This job has already ended, so it cannot be cancelled."


class TooManyWebhooks(Refusal):
    """The user already has as many webhooks as a page can show."""

    status = 409
    code = "too_many_webhooks"
    detail = "You have as many webhooks as one user can. Delete one that you do not need."


class WebhookOff(Refusal):
    """A webhook that is switched off gets nothing."""

    status = 409
    code = "webhook_off"
    detail = "This webhook is switched off. Switch it on first."


class DeliveryActive(Refusal):
    """A delivery with attempts to come is not sent again."""

    status = 409
    code = "delivery_active"
    detail = "This delivery has not ended yet: its next attempt comes by itself."


class Erased(Refusal):
    """The texts of this job were erased; the row stays."""

    status = 410
    code = "erased"
    detail = "The prompt and the text of this job were erased. Its key stays used."


class TooLarge(Refusal):
    """A body over the limit."""

    status = 413
    code = "too_large"
    detail = "The request body is over 131072 bytes (128 KiB)."


class UnsupportedMediaType(Refusal):
    """A body that is not plain JSON."""

    status = 415
    code = "unsupported_media_type"
    detail = "Send the body as uncompressed application/json in UTF-8."


class KeyReused(Refusal):
    """The key already belongs to a job with another prompt."""

    status = 422
    code = "idempotency_key_reused"
    detail = (
        "This Idempotency-Key already belongs to a job with another prompt. "
        "Use a new key for a new prompt."
    )


class ExceedsDailyBudget(Refusal):
    """This one reservation is larger than the whole daily allowance."""

    status = 422
    code = "exceeds_daily_budget"
    detail = "This job would reserve more tokens than the whole daily allowance."


class BudgetExhausted(Refusal):
    """What is left of the day is too small."""

    status = 429
    code = "budget_exhausted"
    detail = "The rest of today's token budget is too small for this job."
    # A registered problem type of the IETF RateLimit draft.
    type = "https://iana.org/assignments/http-problem-types#quota-exceeded"


class TooManyActiveJobs(Refusal):
    """The user already has as many queued or running jobs as allowed."""

    status = 429
    code = "too_many_active_jobs"
    detail = "You have too many jobs queued or running. Try again when one has ended."


class TooManyAttempts(Refusal):
    """Many bad tokens came from this address."""

    status = 429
    code = "too_many_attempts"
    detail = "Too many requests with bad tokens came from your address. Look at your token."


class TooManyStreams(Refusal):
    """The user already has as many event streams open as allowed."""

    status = 429
    code = "too_many_streams"
    detail = "You have too many event streams open. Close some, or poll the jobs instead."


class Unavailable(Refusal):
    """The database cannot be reached."""

    status = 503
    code = "unavailable"
    detail = "The service cannot reach its database now. Send the same request again, same key."


class ServerError(Refusal):
    """Our own fault; logged with its traceback."""

    status = 500
    code = "internal_error"
    detail = "Something broke on our side and has been logged. To retry with the same key is safe."
