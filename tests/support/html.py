"""What a browser makes of a page, as far as tests without one need it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.expect import Answer

CELLS = {"td", "th"}  # which a reader sees apart
Attributes = dict[str, str | None]


@dataclass(slots=True)
class Page:
    """A parsed page: its tags in order, its words, and what its forms would send."""

    tags: list[tuple[str, Attributes]] = field(default_factory=list)
    words: str = ""
    fields: dict[str, str] = field(default_factory=dict)

    def attributes(self, element_id: str) -> Attributes:
        """Of the one element with this id."""
        found = [attributes for _, attributes in self.tags if attributes.get("id") == element_id]
        assert len(found) == 1, found
        return found[0]

    def has(self, element_id: str) -> bool:
        """Whether an element has this id."""
        return any(attributes.get("id") == element_id for _, attributes in self.tags)

    def links(self, start: str = "") -> list[str]:
        """Where its links lead, those that begin so."""
        found = [attributes.get("href") or "" for tag, attributes in self.tags if tag == "a"]
        return [href for href in found if href.startswith(start)]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self.textarea = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.page.tags.append((tag, attributes))
        name = attributes.get("name")
        if tag == "input" and name:
            self.page.fields[name] = attributes.get("value") or ""
        if tag == "textarea" and name:
            self.page.fields[name] = ""
            self.textarea = name

    def handle_endtag(self, tag: str) -> None:
        if tag in CELLS:
            self.page.words += " "
        if tag == "textarea":
            text = self.page.fields[self.textarea]
            # HTML's rule: a line end right after the tag is not part of the text.
            self.page.fields[self.textarea] = text.removeprefix("\n")
            self.textarea = ""

    def handle_data(self, data: str) -> None:
        if self.textarea:
            self.page.fields[self.textarea] += data
        else:
            self.page.words += data


def read(response: Answer) -> Page:
    """Parse an answer."""
    return read_text(response.content.decode())


def read_text(source: str) -> Page:
    """Parse a page, or a part of one."""
    reader = _Reader()
    reader.feed(source)
    reader.close()
    reader.page.words = " ".join(reader.page.words.split())
    return reader.page
