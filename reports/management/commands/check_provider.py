"""`manage.py check_provider`: make one tiny call and say in plain words what works and what not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

from django.core.management.base import BaseCommand, CommandError

from reports import provider, runner
from reports.errors import ErrorCode
from reports.provider import Completion, Failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reports.provider import ProviderConfig

PROMPT = "Reply with the single word: ready"
HINTS = {
    ErrorCode.PROVIDER_UNREACHABLE: "Is it running, and are host and port of INFERENCE_URL right?",
    ErrorCode.PROVIDER_TIMEOUT: "A first call may load the model: try again, or raise "
    "INFERENCE_TIMEOUT_S.",
    ErrorCode.PROVIDER_INVALID_RESPONSE: "Does INFERENCE_PROTOCOL fit what answers there?",
    ErrorCode.PROVIDER_5XX: "Look at the provider's own log.",
}
REJECTED = {
    400: "Look at INFERENCE_MODEL; newer OpenAI models want "
    "INFERENCE_MAX_TOKENS_FIELD=max_completion_tokens.",
    401: "Look at INFERENCE_KEY.",
    403: "Look at INFERENCE_KEY.",
    404: "Look at the path of INFERENCE_URL and at INFERENCE_MODEL.",
    429: "It works, and is limiting you now: try again later.",
}


class Command(BaseCommand):
    """Call the provider once, outside any job and any budget."""

    help = "Make one tiny call to the provider and say what works and what does not."

    def handle(self, *args: Any, **options: Any) -> None:
        """Raise CommandError, with a hint, unless a text came back."""
        config = runner.config()
        if not config.url:
            raise CommandError("INFERENCE_URL is not set, so there is nobody to ask.")
        self.stdout.write(_question(config))
        began = time.monotonic()
        outcome = provider.complete(PROMPT, job_id=f"check-{uuid4()}", config=config)
        took_s = time.monotonic() - began
        if isinstance(outcome, Failure):
            raise CommandError(_complaint(outcome))
        for line in _findings(outcome, took_s):
            self.stdout.write(line)


def _question(config: ProviderConfig) -> str:
    parts = urlsplit(config.url)
    place = f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"
    model = f" for the model {config.model}" if config.protocol != "prompt" else ""
    key = "with a key" if config.key else "without a key"
    return f"Asking {place}{model}, protocol {config.protocol}, {key}, {config.timeout_s:g} s."


def _complaint(failure: Failure) -> str:
    if failure.code is ErrorCode.PROVIDER_REJECTED:
        hint = REJECTED.get(failure.http_status, "")
    else:
        hint = HINTS.get(failure.code, "")
    return f"{failure.detail} {hint}".strip()


def _findings(completion: Completion, took_s: float) -> Iterator[str]:
    yield f"It answered in {took_s:.2f} s with {len(completion.text)} characters of text."
    if completion.usage is None:
        yield "It reports no usage: jobs will be charged by estimate."
    else:
        yield (
            f"It reports usage: {completion.usage.prompt_tokens} tokens of prompt, "
            f"{completion.usage.completion_tokens} of completion."
        )
    if completion.finish_reason:
        yield f"It says why it stopped: {completion.finish_reason}."
    else:
        yield "It does not say why it stopped: a text that was cut off will not be marked."
    yield "Everything that a job needs works."
