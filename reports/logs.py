"""Logging of exceptions without what they carry: messages may hold a prompt, a text or a key."""

from __future__ import annotations

import logging
import traceback

logger = logging.getLogger("reports")


def log_without_values(error: BaseException, what: str) -> None:
    """Log an exception by its type and its place in the code."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error("%s: %s\n%s", what, type(error).__name__, frames)
