"""Logging of exceptions without what they carry: messages may hold a prompt, a text or a key."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    ExcInfo = (
        tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    )

logger = logging.getLogger("reports")


class WithoutValues(logging.Formatter):
    """Writes the exception of any record, ours or a library's, by its type and place alone."""

    def formatException(self, ei: ExcInfo) -> str:  # noqa: N802  # the name is logging's
        """Tell the frames and the type; the chain of causes is left out with their messages."""
        kind, _, trace = ei
        name = kind.__name__ if kind else "no exception"
        return f"{''.join(traceback.format_tb(trace))}{name}"


def log_without_values(error: BaseException, what: str) -> None:
    """Log an exception by its type and its place in the code."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error("%s: %s\n%s", what, type(error).__name__, frames)
