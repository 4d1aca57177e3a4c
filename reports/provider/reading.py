"""How an answer's bytes are read, whatever the protocol: defensively, and once for all of them."""

from __future__ import annotations

import json
import math
from typing import TypeGuard

from reports.provider import wording
from reports.provider.outcome import Failure, Usage, invalid, refused

LARGEST_COUNT = 2**31 - 1
LONGEST_NUMBER = 19  # digits; more of them cost time to read and fit nowhere
LONGEST_REASON = 64

NO_TEXT = {
    "length": "The whole output limit was spent before the first word of an answer, on reasoning "
    "it seems. Raise INFERENCE_MAX_OUTPUT_TOKENS or ask for less.",
    "content_filter": "The provider's content filter held the answer back. Word the prompt "
    "differently and send it as a new job.",
    "refusal": "The model refused. Word the prompt differently and send it as a new job.",
    "tool_calls": "The model asked for a tool instead of answering, and there are none here.",
}


def an_object(status: int, body: bytes) -> dict[str, object] | Failure:
    """Decode the JSON object of a 200; anything else is the Failure that it means."""
    if status != 200:
        return refused(status, wording.of_refusal(status, body))
    try:
        # Always UTF-8 (RFC 8259 section 8.1), whatever the headers say, with or without a mark.
        answer = _decoder.decode(body.decode("utf-8-sig", errors="replace"))
    except (ValueError, RecursionError):
        return invalid("The provider answered 200 with something that is not JSON.")
    if not isinstance(answer, dict):
        return invalid("The provider answered 200 with JSON that is not an object.")
    return answer


def _number(digits: str) -> float:
    return int(digits) if len(digits) <= LONGEST_NUMBER else math.inf


_decoder = json.JSONDecoder(parse_int=_number)  # made once: some answers come in a thousand events


def no_text(body: bytes) -> Failure:
    """Build the failure of a 200 without a text, in the provider's words if it has some."""
    said = wording.message(body)
    return invalid("The provider answered 200 without a text" + (f": {said}" if said else "."))


def declined(said: dict[str, object], reason: str) -> Failure:
    """Build the failure of an answer whose text is empty, by the reason that it gives."""
    refusal = said.get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        return invalid(f"The model refused (word the prompt differently): {refusal}")
    return invalid(NO_TEXT.get(reason, "The provider answered 200 with an empty text."))


def first(choices: object) -> dict[str, object]:
    """Find the first choice; {} where there is none."""
    found = choices[0] if isinstance(choices, list) and choices else None
    return found if isinstance(found, dict) else {}


def joined(content: object) -> str:
    """Join the text parts of a content; thinking and tools are left out."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (p.get("text") for p in parts if isinstance(p, dict) and p.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))


def reason(value: object) -> str:
    """Read a word such as stop or length; "" where there is none."""
    return wording.storable(value)[:LONGEST_REASON] if isinstance(value, str) else ""


def usage(
    answer: dict[str, object],
    *,
    prompt: str = "prompt_tokens",
    completion: str = "completion_tokens",
) -> Usage | None:
    """Read both counts, or nothing: half a report, or an absurd one, is none."""
    reported = answer.get("usage")
    if not isinstance(reported, dict):
        return None
    asked, answered = reported.get(prompt), reported.get(completion)
    if _is_count(asked) and _is_count(answered):
        return Usage(asked, answered)
    return None


def _is_count(value: object) -> TypeGuard[int]:
    # `True` is an integer to Python and none to us.
    return type(value) is int and 0 <= value <= LARGEST_COUNT
