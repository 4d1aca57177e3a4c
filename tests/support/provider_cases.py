"""The odd answers of `tests/cases/provider_responses.json` as scripts for the stand-in."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.provider import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = Path(__file__).parents[1] / "cases" / "provider_responses.json"
REPEAT = re.compile(r"\$\{REPEAT:(.):(\d+)\}")
OVER_LIMIT = 8 * 1024 * 1024  # of a repeated body, more than this is sent as if it had no end


@dataclass(frozen=True, slots=True)
class Case:
    """One item, or one of its variants."""

    name: str
    protocol: str
    answers: list[Answer]
    expect: dict[str, Any]


def cases(timeout_s: float) -> list[Case]:
    """Read every item and variant; `T` in the file is the time limit."""
    return [case for item in json.loads(FILE.read_text()) for case in _variants(item, timeout_s)]


def _variants(item: dict[str, Any], timeout_s: float) -> Iterator[Case]:
    shapes = {"simple": ["prompt"], "openai": ["openai"], "any": ["prompt", "openai"]}
    changes: list[dict[str, Any]] = [{}]
    changes += [{"body": body} for body in item.get("variants", [])]
    changes += [{"status": status} for status in item.get("variants_status", [])]
    changes += [
        {"headers": item["headers"] | {"Retry-After": value}}
        for value in item.get("variants_header", [])
    ]
    for number, change in enumerate(changes):
        for protocol in shapes[item["shape"]]:
            changed = item | change
            following = [item | {"behaviour": "normal"} | more for more in item.get("sequence", [])]
            answers = [_answer(script, timeout_s) for script in (changed, *following)]
            yield Case(f"{item['id']}-{number}-{protocol}", protocol, answers, item["expect"])


def _answer(item: dict[str, Any], timeout_s: float) -> Answer:
    body, endless = _body(item)
    drip = None
    if item["behaviour"] == "drip":
        drip = (item["drip"]["bytes"], float(item["drip"]["every"].rstrip("T")) * timeout_s)
    wire = base64.b64decode(item["wire_base64"]) if "wire_base64" in item else None
    headers = {name: _filled(value) for name, value in item["headers"].items()}
    return Answer(
        body=body,
        status=item["status"],
        headers=headers,
        wire=wire,
        endless=endless,
        drip=drip,
        hang=item["behaviour"] == "hang",
        reset_after=item.get("reset_after"),
        keep_open=bool(item.get("keep_open") or item.get("close_idle_after_s")),
        close_idle_after_s=item.get("close_idle_after_s"),
    )


def _body(item: dict[str, Any]) -> tuple[bytes, bytes]:
    if "body_base64" in item:
        return base64.b64decode(item["body_base64"]), b""
    if "body_repeat" not in item:
        return item["body"].encode(), b""
    prefix, unit, times, suffix = (
        item["body_repeat"][part] for part in ("prefix", "unit", "times", "suffix")
    )
    if len(unit) * times > OVER_LIMIT:
        return prefix.encode(), (unit * (65536 // len(unit))).encode()
    return (prefix + unit * times + suffix).encode(), b""


def _filled(value: str) -> str:
    return REPEAT.sub(lambda found: found[1] * int(found[2]), value)
