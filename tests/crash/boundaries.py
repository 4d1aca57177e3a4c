"""Where a process can die: before and after each statement, each end of a transaction, each byte.

They are found by hooks under the product's feet, so a new statement or call in it is one more
boundary without anybody naming it.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
from collections import defaultdict
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

AFTER = "after"
HAND_OVER = "hand over a job id"
LONGEST_LABEL = 72
# Commands to the broker that change nothing there; a client sends many of them as it connects.
HARMLESS = frozenset(("AUTH", "CLIENT", "HELLO", "INFO", "LLEN", "PING", "SELECT", "SMEMBERS"))
# It tells what nobody relies on, and in pieces that differ from run to run.
UNHEEDED = "hints"


class Boundary(NamedTuple):
    """One boundary: the n-th that a thread comes to. Threads meet theirs in a fixed order."""

    thread: str
    n: int
    label: str

    @property
    def is_after(self) -> bool:
        """Whether it lies behind something, rather than before it."""
        return self.label.startswith(AFTER)


class Recorder:
    """Tells of each boundary as it is reached; at the chosen one the process dies."""

    def __init__(self, tell: Callable[[Boundary], None], kill_at: Boundary | None) -> None:
        self._tell = tell
        self._kill_at = kill_at
        self._lock = threading.Lock()
        self._labels: defaultdict[str, list[str]] = defaultdict(list)

    def reach(self, label: str) -> None:
        """Take note of a boundary, and die there if it is the one."""
        thread = threading.current_thread().name
        if thread == UNHEEDED:
            return
        with self._lock:
            boundary = Boundary(thread, len(self._labels[thread]), label)
            self._labels[thread].append(label)
            self._tell(boundary)
            if boundary == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    def has_reached(self, thread: str, label: str) -> bool:
        """Whether a thread has come to a boundary of this label."""
        return label in self._labels[thread]

    @contextmanager
    def around(self, label: str) -> Iterator[None]:
        """Two boundaries: before and after what happens in the block, also when it fails."""
        self.reach(f"before {label}")
        try:
            yield
        finally:
            self.reach(f"{AFTER} {label}")


def watch(recorder: Recorder) -> None:
    """Hook this process, for good: it is a child that ends after its one scenario."""
    _watch_statements(recorder)
    _watch_transactions(recorder)
    _watch_sockets(recorder)
    _watch_hand_overs(recorder)


def _watch_statements(recorder: Recorder) -> None:
    def around(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        with recorder.around(" ".join(str(sql).split())[:LONGEST_LABEL]):
            return execute(sql, params, many, context)

    def hook(connection: Any, **_: Any) -> None:
        if around not in connection.execute_wrappers:
            connection.execute_wrappers.append(around)

    connection_created.connect(hook, weak=False)  # of any thread, also one that is started later


def _watch_transactions(recorder: Recorder) -> None:
    for name, label in (("_commit", "COMMIT"), ("_rollback", "ROLLBACK")):
        _wrap(BaseDatabaseWrapper, name, lambda *_, label=label: recorder.around(label))


def _watch_sockets(recorder: Recorder) -> None:
    """Whatever goes through Python's sockets: the broker and the provider, not libpq.

    An answer may come in any number of pieces, so only the first read after a write counts.
    """
    names = {urlsplit(settings.INFERENCE_URL).port: "provider"}
    names[urlsplit(settings.REDIS_URL).port] = "broker"
    names[urlsplit(os.environ["CRASH_RECEIVER"]).port] = "receiver"
    asked: WeakKeyDictionary[socket.socket, str] = WeakKeyDictionary()

    @contextmanager
    def connecting(_: socket.socket, address: Any, *__: Any) -> Iterator[None]:
        with recorder.around(f"connect to {names.get(address[1], address)}"):
            yield

    @contextmanager
    def sending(sock: socket.socket, data: Any, *_: Any) -> Iterator[None]:
        name = names.get(_port(sock), "a socket")
        words = bytes(data[:64]).split(b"\r\n") if name == "broker" else []
        command = words[2].decode() if len(words) > 2 else ""
        if command in HARMLESS:
            yield
            return
        asked[sock] = f"{command} {name}".strip()
        with recorder.around(f"send {command} to {name}".replace("  ", " ")):
            yield

    @contextmanager
    def receiving(sock: socket.socket, *_: Any) -> Iterator[None]:
        label = asked.pop(sock, None)
        with recorder.around(f"receive from {label}") if label else nullcontext():
            yield

    _wrap(socket.socket, "connect", connecting)
    for name in ("send", "sendall"):
        _wrap(socket.socket, name, sending)
    for name in ("recv", "recv_into"):
        _wrap(socket.socket, name, receiving)


def _watch_hand_overs(recorder: Recorder) -> None:
    """A job id that one thread leaves to another: a promise that lives in memory only."""

    def putting(_: queue.Queue[Any], item: Any, *__: Any) -> AbstractContextManager[None]:
        return recorder.around(HAND_OVER) if isinstance(item, UUID) else nullcontext()

    _wrap(queue.Queue, "put", putting)


def _port(sock: socket.socket) -> int | None:
    try:
        name = sock.getpeername()
    except OSError:  # the other side has left
        return None
    return name[1] if isinstance(name, tuple) else None


def _wrap(owner: type, name: str, around: Callable[..., Any]) -> None:
    original = getattr(owner, name)

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        with around(self, *args):
            return original(self, *args, **kwargs)

    setattr(owner, name, wrapper)
