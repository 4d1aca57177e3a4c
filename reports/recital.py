"""What the rehearsal provider says, in the forms of both protocols: whole, or as events."""

from __future__ import annotations

import json
import re
import time

END = "data: [DONE]\n\n"


def whole(prompt: str, *, is_chat: bool) -> str:
    """The body of an answer that comes at once."""
    text = _text(prompt)
    if not is_chat:
        return json.dumps({"text": text, "usage": _usage(prompt, text)})
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps(_chat("chat.completion", choice, _usage(prompt, text)))


def events(prompt: str, *, is_chat: bool) -> list[str]:
    """The same word by word, and what comes behind the last."""
    text = _text(prompt)
    told: list[dict[str, object]] = []
    words = re.findall(r"\S+\s*", text)
    if is_chat:
        for word in words:
            choice = {"index": 0, "delta": {"content": word}, "finish_reason": None}
            told.append(_chat("chat.completion.chunk", choice, None))
        last = {"index": 0, "delta": {}, "finish_reason": "stop"}
        told.append(_chat("chat.completion.chunk", last, _usage(prompt, text)))
    else:
        told += [{"text": word} for word in words]
        told.append({"finish_reason": "stop", "usage": _usage(prompt, text)})
    return [*(f"data: {json.dumps(value)}\n\n" for value in told), END]


def _text(prompt: str) -> str:
    return (
        "This is a rehearsal: no model has read your prompt and nothing was generated. "
        f"The prompt arrived in full, {len(prompt)} characters long."
    )


def _usage(prompt: str, text: str) -> dict[str, int]:
    return {"prompt_tokens": max(1, len(prompt) // 4), "completion_tokens": len(text) // 4}


def _chat(kind: str, choice: dict[str, object], usage: dict[str, int] | None) -> dict[str, object]:
    return {
        "id": "chatcmpl-rehearsal",
        "object": kind,
        "created": int(time.time()),
        "model": "rehearsal",
        "choices": [choice],
        "usage": usage and usage | {"total_tokens": sum(usage.values())},
    }
