"""Words for a failure that its owner may read: the provider's message without what is secret."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LONGEST_MESSAGE = 200
LONGEST_DETAIL = 500
LONGEST_EXAMINED = 4000
REMOVED = "[removed]"
SHORTEST_SECRET = 4  # a shorter value of a query is a version or a switch
TELLING = 6  # this many characters of a key in a row betray that a word is made of it
ECHO = 24  # this many characters of the prompt in a row are an echo and no accident

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
CONTROLS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
MARKUP = re.compile(r"<[^<>]*>|[<>]")
BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[^\s\"',;]+")
KEY_LIKE = re.compile(r"\b(?:sk|pk|gsk|hf|xai)[-_][\w*.…-]{4,}")
USER_INFO = re.compile(r"(\w+://)[^\s/@]*@")
QUERY = re.compile(r"\?[^\s\"'<>?]*=[^\s\"'<>]*")

ADVICE = {
    401: "it does not accept INFERENCE_KEY",
    403: "it does not let INFERENCE_KEY do this",
    404: "it does not know this path or model",
    408: "it gave up waiting",
    413: "the prompt is too long for it",
    429: "it is limiting the rate of requests",
    503: "it is overloaded or starting",
    529: "it is overloaded",
}


def storable(text: str) -> str:
    """Replace what no UTF-8 column holds: NUL and lone surrogates."""
    return UNSTORABLE.sub("\ufffd", text)


def of_refusal(status: int, body: bytes) -> str:
    """Say what an answer other than 200 means, with the provider's own message if it has one."""
    said = "redirects are not followed" if 300 <= status <= 399 else message(body).rstrip(".")
    advice = f" ({ADVICE[status]})" if status in ADVICE else ""
    return f"The provider answered {_named(status)}{advice}" + (f": {said}." if said else ".")


def message(body: bytes) -> str:
    """Find the provider's own message in the body of an answer; "" if there is none for people."""
    text = body.decode(errors="replace").strip()
    try:
        found = next(_messages(json.loads(text)), "")
    except (ValueError, RecursionError):
        found = "" if text.startswith(("<", "{", "[")) else text
    return found[:LONGEST_EXAMINED]


def safe(detail: str, *, key: str, url: str, prompt: str) -> str:
    """Make a detail fit for its readers: one short line without secrets, markup and prompt."""
    start, colon, said = detail.partition(": ")
    if _echoes(said, prompt):
        return start + "."
    said = CONTROLS.sub(" ", storable(MARKUP.sub("", said)))
    said = KEY_LIKE.sub(REMOVED, USER_INFO.sub(r"\1", QUERY.sub("", said)))
    said = BEARER.sub(rf"\1 {REMOVED}", said)
    said = " ".join(_without(said.split(), list(_secrets(key, url))))
    if len(said) > LONGEST_MESSAGE:
        said = said[: LONGEST_MESSAGE - 1].rstrip() + "…"
    return (start + colon + said)[:LONGEST_DETAIL]


def _named(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _messages(value: object) -> Iterator[str]:
    # {"error": {"message"}} of OpenAI, vLLM, llama.cpp and Anthropic; {"error": "text"} of Ollama;
    # {"detail": [{"msg"}]} of FastAPI.
    if isinstance(value, str) and value.strip():
        yield value.strip()
    elif isinstance(value, list):
        for item in value:
            yield from _messages(item)
    elif isinstance(value, dict):
        for name in ("error", "message", "msg", "detail"):
            yield from _messages(value.get(name))


def _secrets(key: str, url: str) -> Iterator[str]:
    parts = urlsplit(url)
    for secret in (key, parts.password, *(value for _, value in parse_qsl(parts.query))):
        if secret and len(secret) >= SHORTEST_SECRET:
            yield secret
            yield quote(secret, safe="")


def _without(words: Iterable[str], secrets: list[str]) -> Iterator[str]:
    for word in words:
        yield REMOVED if any(_betrays(word, secret) for secret in secrets) else word


def _betrays(word: str, secret: str) -> bool:
    size = min(len(secret), TELLING)
    return any(secret[at : at + size] in word for at in range(len(secret) - size + 1))


def _echoes(said: str, prompt: str) -> bool:
    said, prompt = " ".join(said.split()), " ".join(prompt.split())
    if len(prompt) < SHORTEST_SECRET:
        return False
    if len(prompt) < ECHO:
        return re.search(rf"(?<!\w){re.escape(prompt)}(?!\w)", said) is not None
    return any(said[at : at + ECHO] in prompt for at in range(len(said) - ECHO + 1))
