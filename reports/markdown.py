"""A model's Markdown as HTML that can do nothing: no script, no form, no image, nothing loaded.

What would take too long to read, or is nested beyond sense, is not read: see `render`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

LONGEST = 100_000  # characters; a reader in Python takes a second for a few hundred thousand
PATIENCE_S = 1.0  # of this thread's own time
DEEPEST = 40  # lists in quotes in lists
FIRST_HEADING = 3  # the page has two levels of its own above a text
ALIGNMENTS = {"text-align:right": "right", "text-align:center": "center"}

CLEANER = nh3.Cleaner(
    tags={
        *(
            "p",
            "br",
            "hr",
            "h3",
            "h4",
            "h5",
            "h6",
            "strong",
            "em",
            "s",
            "code",
            "pre",
            "blockquote",
        ),
        *("ul", "ol", "li", "a", "div", "table", "thead", "tbody", "tr", "th", "td"),
    },
    attributes={"a": {"href", "title"}, "ol": {"start"}},
    allowed_classes={"th": set(ALIGNMENTS.values()), "td": set(ALIGNMENTS.values())},
    # What may scroll sideways must be within reach of a keyboard.
    set_tag_attribute_values={
        "div": {"class": "wide", "role": "group", "aria-label": "Table", "tabindex": "0"},
        "pre": {"tabindex": "0"},
    },
    url_schemes={"http", "https", "mailto"},
    url_relative="deny",
    link_rel="noopener nofollow",
)


class TooMuch(Exception):
    """A text that takes too long to read, or is nested too deeply."""


def render(text: str) -> SafeString | None:
    """Clean HTML. None: it would take too long, or show nothing; escape the text instead."""
    if len(text) > LONGEST:
        return None
    try:
        html: str = READER.render(text, {"until_s": time.thread_time() + PATIENCE_S})
    except (TooMuch, RecursionError):
        return None
    clean = CLEANER.clean(html)
    return mark_safe(clean) if clean.strip() else None  # noqa: S308  # that is what it is for


def _look_at_the_clock(state: StateBlock | StateInline, *_: object) -> bool:
    """A rule that fits nowhere, and is asked at every step."""
    if time.thread_time() > state.env["until_s"]:
        raise TooMuch
    return False


def _fit_into_the_page(state: StateCore) -> None:
    """Put headings below the page's own, without gaps, and alignments into classes."""
    above = FIRST_HEADING - 1
    for token in state.tokens:
        if token.type == "heading_open":
            above = min(FIRST_HEADING - 1 + int(token.tag[1]), above + 1, 6)
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{above}"
        elif token.type in {"th_open", "td_open"} and token.attrs:
            token.attrs = {"class": ALIGNMENTS.get(str(token.attrs["style"]), "")}


def _refuse_depth(state: StateCore) -> None:
    """Raise TooMuch for nesting at which the reader would drop what is inside."""
    _measure(state.tokens)
    for token in state.tokens:
        _measure(token.children or ())


def _measure(tokens: Iterable[Token]) -> None:
    depth = 0
    for token in tokens:
        depth += token.nesting
        if depth > DEEPEST:
            raise TooMuch


def _reader() -> MarkdownIt:
    # A line's end stays one: a poem, or a model that knows no Markdown, loses nothing.
    reader = MarkdownIt("js-default", {"html": False, "breaks": True, "maxNesting": 2 * DEEPEST})
    # Without its rule an image is a link with an exclamation mark before it. Definitions of
    # references would swallow lines such as `[Alice]: Hello!`.
    reader.disable(["image", "html_block", "html_inline", "reference"])
    reader.inline.ruler.before("text", "clock", _look_at_the_clock)
    reader.block.ruler.before("table", "clock", _look_at_the_clock)
    reader.core.ruler.push("fit", _fit_into_the_page)
    reader.core.ruler.push("depth", _refuse_depth)
    reader.add_render_rule("table_open", lambda *_: "<div><table>")
    reader.add_render_rule("table_close", lambda *_: "</table></div>")
    return reader


READER = _reader()
