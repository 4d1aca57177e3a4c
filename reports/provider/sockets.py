"""From a host name to a connected socket inside the call's deadline."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from reports.provider.calls import Phase, Stopped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.provider.calls import Call

Address = tuple[int, int, int, str, tuple[Any, ...]]  # as getaddrinfo returns it

# Nothing can interrupt getaddrinfo, so a look-up that hangs keeps a thread: this many at most.
_lookups = threading.BoundedSemaphore(32)


def connect(host: str, port: int, *, call: Call) -> socket.socket:
    """Connect to the first address of the host that lets us; raises OSError if none does."""
    call.phase = Phase.RESOLVING
    addresses = _resolve(host, port, call)
    call.phase = Phase.CONNECTING
    failed = OSError("no address")
    for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
        try:
            # An address that does not answer leaves time for those after it; the last one is
            # ended by the watchdog, and its second more is there for a watchdog that died.
            share_s = call.seconds_left / left
            return _open(address, call, within_s=share_s if left > 1 else share_s + 1)
        except Stopped:
            raise
        except OSError as error:
            failed = error
    raise failed


def stop(sock: socket.socket) -> partial[None]:
    """Return what ends a connection under the thread that waits for it."""
    # Not `sock.shutdown`: that of a TLS socket also throws its TLS state away under the reader.
    return partial(socket.socket.shutdown, sock, socket.SHUT_RDWR)


def _open(address: Address, call: Call, *, within_s: float) -> socket.socket:
    family, kind, protocol, _, where = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(within_s)
        call.hold(stop(sock))
        sock.connect(where)
        sock.settimeout(call.seconds_left + 1)
    except BaseException:
        sock.close()
        raise
    return sock


def _resolve(host: str, port: int, call: Call) -> Sequence[Address]:
    with suppress(OSError):  # a name rather than a number
        return _look_up(host, port, flags=socket.AI_NUMERICHOST)
    if not _lookups.acquire(timeout=call.seconds_left):
        raise Stopped
    found: Future[Sequence[Address]] = Future()
    threading.Thread(
        target=_deliver, args=(found, host, port), name="provider-lookup", daemon=True
    ).start()
    call.hold(found.cancel)
    try:
        return found.result()
    except CancelledError:
        raise Stopped from None


def _deliver(found: Future[Sequence[Address]], host: str, port: int) -> None:
    try:
        addresses = _look_up(host, port)
    except OSError as error:
        with suppress(InvalidStateError):  # nobody waits any more
            found.set_exception(error)
    else:
        with suppress(InvalidStateError):
            found.set_result(addresses)
    finally:
        _lookups.release()


def _look_up(host: str, port: int, *, flags: int = 0) -> Sequence[Address]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError as error:  # a label that no host name can have
        raise socket.gaierror(socket.EAI_NONAME, "not a host name") from error
