"""What a POST to /v1/responses asks for: read strictly, with a sentence for what cannot be had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings

from reports.conversation import Conversation, Message
from reports.errors import InvalidRequest
from reports.serializers import LONGEST_PROMPT
from reports.wishes import UNSTORABLE, Wishes, validate_expires_in_s, validate_metadata
from responses import objects
from responses.refusals import ModelNotFound, UnsupportedParameter

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST_WISH = 10_000_000  # of INFERENCE_MAX_OUTPUT_TOKENS too
ROLES = ("user", "assistant", "system", "developer")
PARTS = ("input_text", "output_text")
# The parameters that are read; each other one may say only what is done anyway.
READ = frozenset(
    {"background", "expires_in_s", "input", "instructions"}
    | {"max_output_tokens", "metadata", "model", "store", "stream"}
)
NEUTRAL: dict[str, list[object]] = {
    "context_management": [[]],
    "include": [[]],
    "parallel_tool_calls": [True, False],
    "reasoning": [{}, {"effort": None}, {"effort": None, "summary": None}],
    "service_tier": ["auto", "default"],
    "temperature": [1],
    "text": [{}, {"format": {"type": "text"}}, {"format": {"type": "text"}, "verbosity": "medium"}],
    "tool_choice": ["auto", "none"],
    "tools": [[]],
    "top_logprobs": [0],
    "top_p": [1],
    "truncation": ["disabled"],
}
# What changes no answer: names for somebody else's statistics and caches.
HINTS = frozenset({"prompt_cache_key", "safety_identifier", "user"})
NO_CONNECTIONS = (
    "This service holds no connections while a model thinks. Pass background=True, then poll "
    "GET /v1/responses/{id}, or read GET /v1/responses/{id}?stream=true."
)
NO_STREAM_HERE = (
    "A stream is read apart from its request here: create without stream, then "
    "GET /v1/responses/{id}?stream=true."
)
ALWAYS_STORED = "What runs in the background is stored. DELETE /v1/responses/{id} erases it."


def wishes_in(body: object) -> Wishes:
    """The request, with its conversation. Raises InvalidRequest or UnsupportedParameter."""
    if not isinstance(body, dict):
        raise InvalidRequest(body="The body must be a JSON object.")
    for name, value in body.items():
        if value is not None and name not in READ:
            _check_neutral(name, value)
    _check_manner(body)
    return Wishes(
        metadata=validate_metadata(body.get("metadata")),
        expires_in_s=validate_expires_in_s(body.get("expires_in_s")),
        conversation=_whole(
            Conversation(
                model=_model(body.get("model")),
                messages=tuple(_messages(body.get("input"))),
                instructions=_instructions(body.get("instructions")),
                max_output_tokens=_limit(body.get("max_output_tokens")),
            )
        ),
    )


def longest_answer() -> int:
    """The largest `max_output_tokens`. 0: this service cannot limit an answer."""
    if settings.INFERENCE_PROTOCOL == "prompt":
        return 0
    return settings.INFERENCE_MAX_OUTPUT_TOKENS or LARGEST_WISH


def _check_neutral(name: str, value: object) -> None:
    is_hint = name in HINTS and isinstance(value, str)
    if not is_hint and not any(_is(value, one) for one in NEUTRAL.get(name, ())):
        raise UnsupportedParameter(name)


def _is(value: object, other: object) -> bool:
    """Whether both are the same to JSON; Python takes `True` for 1."""
    return value == other and isinstance(value, bool) is isinstance(other, bool)


def _check_manner(body: dict[str, Any]) -> None:
    for name in ("background", "stream", "store"):
        if not isinstance(body.get(name), bool | None):
            raise InvalidRequest(**{name: "It must be true or false."})
    if body.get("stream"):
        raise UnsupportedParameter("stream", NO_STREAM_HERE)
    if not body.get("background"):
        raise UnsupportedParameter("background", NO_CONNECTIONS)
    if body.get("store") is False:
        raise UnsupportedParameter("store", ALWAYS_STORED)


def _model(value: object) -> str:
    known = objects.model()
    if value is None or value == known:
        return known
    if not isinstance(value, str):
        raise InvalidRequest(model="The model must be a string.")
    raise ModelNotFound(known)


def _instructions(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise InvalidRequest(instructions="The instructions must be a string.")


def _limit(value: object) -> int | None:
    if value is None:
        return None
    # JSON knows one kind of number: 64.0 is 64 there.
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidRequest(max_output_tokens="It must be a whole number.")
    most = longest_answer()
    if not most:
        raise UnsupportedParameter(
            "max_output_tokens", "The model behind this service takes no limit. Leave it out."
        )
    if not 1 <= value <= most or value != int(value):
        raise InvalidRequest(max_output_tokens=f"It must be a whole number from 1 to {most}.")
    return int(value)


def _messages(value: object) -> Iterator[Message]:
    if isinstance(value, str):
        yield Message("user", value)
        return
    if not isinstance(value, list) or not value:
        raise InvalidRequest(input="The input must be a text, or a list of messages.")
    for place, item in enumerate(value):
        yield _message(item, f"input[{place}]")


def _message(item: object, where: str) -> Message:
    if not isinstance(item, dict):
        raise InvalidRequest(**{where: "A message is an object with a role and a content."})
    if item.get("type", "message") != "message":
        raise UnsupportedParameter(f"{where}.type", "Messages are the only items taken here.")
    if item.get("role") not in ROLES:
        raise InvalidRequest(**{f"{where}.role": f"The role is one of {', '.join(ROLES)}."})
    content = item.get("content")
    if isinstance(content, str):
        return Message(item["role"], content)
    if not isinstance(content, list) or not content:
        raise InvalidRequest(**{f"{where}.content": "It must be a text, or a list of parts."})
    texts = [_text(part, f"{where}.content[{place}]") for place, part in enumerate(content)]
    return Message(item["role"], "\n".join(texts))


def _text(part: object, where: str) -> str:
    if not isinstance(part, dict):
        raise InvalidRequest(**{where: "A part is an object with a type and a text."})
    if part.get("type") not in PARTS:
        raise UnsupportedParameter(f"{where}.type", "Texts are the only parts taken here.")
    text = part.get("text")
    if not isinstance(text, str):
        raise InvalidRequest(**{f"{where}.text": "The text must be a string."})
    return text


def _whole(asked: Conversation) -> Conversation:
    if len(asked.text) > LONGEST_PROMPT:
        raise InvalidRequest(
            input=f"Its texts have {len(asked.text)} characters in all, with the instructions and "
            f"blank lines between; {LONGEST_PROMPT} is the limit."
        )
    if not asked.prompt.strip():
        raise InvalidRequest(input="There is no text of a user in it. Write what you want to know.")
    if UNSTORABLE.search(asked.text):
        raise InvalidRequest(
            input="A text holds a NUL or half of a surrogate pair, which no text can."
        )
    return asked
