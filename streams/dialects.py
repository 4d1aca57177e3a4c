"""What all who watch have in common, and what each API that streams says in its own way.

A dialect turns the row of a job and its growing text into events. It keeps nothing: how far a
client has come is a value that the client sends back, so that any process goes on at any event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reports.models import ReportJob

Seen = TypeVar("Seen")  # how far a client has come
Said = TypeVar("Said")  # what there is to tell of a state


@dataclass(frozen=True, slots=True)
class State(Generic[Said]):
    """A job's state: the word for it, what is told of it, and whether it is the last."""

    word: str
    said: Said = field(repr=False)
    is_last: bool


class Dialect(Protocol[Seen, Said]):
    """How one kind of client is told what becomes of a job."""

    def say(self, job: ReportJob) -> Said:
        """What there is to tell of a job as it is now: made once, for all who watch it."""

    def lacking(self, seen: Seen, state: State[Said], text: str) -> Iterator[tuple[Seen, bytes]]:
        """What a client lacks that has seen so much, and how much it has seen after each piece.

        `text` is what there is of a text that is being written, which may be nothing.
        """


AnyDialect = Dialect[Any, Any]
AnyState = State[Any]
