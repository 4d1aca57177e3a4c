"""The form of a log line: JSON for machines, or words for a person at a terminal.

Neither writes what an exception carries, since that may be a prompt, a text or a key; nor what a
library hangs on its records, such as a request with its query string.
"""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING, Any

from pythonjsonlogger.json import JsonFormatter

from telemetry import context

if TYPE_CHECKING:
    from types import TracebackType

    from pythonjsonlogger.core import LogData

    ExcInfo = (
        tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    )

FORMS = {"json": "telemetry.lines.Json", "pretty": "telemetry.lines.Pretty"}
OURS = ("budgets", "openapi", "reports", "reports_project", "telemetry", "celery")
FIRST = ("at", "level", "logger", "message")
LAST = ("exception",)
# What our own lines may say beside their message.
FIELDS = ("event", "code", "wait_s", "method", "route", "status", "took_ms", "bytes")


def configuration(form: str, level: str) -> dict[str, Any]:
    """Django's LOGGING. DEBUG is for our own loggers and Celery's.

    Others stay at INFO: what libraries say below it holds whole URLs and SQL with its values.
    """
    others = "INFO" if level == "DEBUG" else level
    silent: dict[str, Any] = {"level": "CRITICAL"}
    quiet: dict[str, Any] = {"level": "WARNING"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": FORMS[form]}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": others},
        "loggers": {
            **{name: {"level": level} for name in OURS},
            # Django's own handlers would print every line a second time, and mail tracebacks.
            "django": {"handlers": [], "level": others},
            # `access` has a line for each request, without its path: anything may stand there.
            "django.request": silent,
            "django.security": silent,
            # One line a transition is ours to write; theirs would say it twice more.
            "celery.app.trace": quiet,
            "celery.worker.strategy": quiet,
            "celery.beat": quiet,
            # Four lines about every sign-in that went well.
            "axes": quiet,
        },
    }


class WithoutValues(logging.Formatter):
    """Writes the exception of any record, ours or a library's, by its type and place alone."""

    def formatException(self, ei: ExcInfo) -> str:  # noqa: N802  # the name is logging's
        """Tell the frames and the type; the chain of causes is left out with their messages."""
        return described(ei)

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the frames of an exception below it."""
        return super().format(cleansed(record))


class Pretty(WithoutValues):
    """For a person: time, level, logger, message, and whose request it was."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's
        """The line, with the ids that its message does not name behind it."""
        line = super().formatMessage(record)
        ids = ("request", context.request_id.get()), ("job", context.job_id.get())
        missing = [f"{name} {text}" for name, text in ids if text and text not in line]
        return f"{line} ({', '.join(missing)})" if missing else line


class Json(WithoutValues, JsonFormatter):
    """For machines: one object a line, the same names in web and worker."""

    def __init__(self) -> None:
        JsonFormatter.__init__(
            self,
            ["levelname", "name", "message"],
            timestamp="at",
            rename_fields={"levelname": "level", "name": "logger", "exc_info": "exception"},
        )

    def process_log_record(self, log_data: LogData) -> LogData:
        """Keep what is known to be harmless, and say which request and job it is about."""
        kept = {name: log_data[name] for name in (*FIRST, *FIELDS, *LAST) if name in log_data}
        for name, variable in (("request_id", context.request_id), ("job_id", context.job_id)):
            if text := log_data.get(name) or variable.get():
                kept[name] = str(text)
        return kept


def described(ei: ExcInfo) -> str:
    """The frames of an exception and its type."""
    kind, _, trace = ei
    name = kind.__name__ if kind else "no exception"
    return f"{''.join(traceback.format_tb(trace))}{name}"


def cleansed(record: logging.LogRecord) -> logging.LogRecord:
    """Celery puts the text of a task's exception into the message: its type says enough."""
    if isinstance(record.args, dict) and "exc" in record.args:
        kind = record.exc_info[0] if record.exc_info else None
        record.args = {**record.args, "exc": kind.__name__ if kind else "", "traceback": ""}
    return record
