"""One message over the wire, within a wall clock, to an address that was looked at beforehand."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from reports.provider.retry_after import seconds
from webhooks import addresses, signing
from webhooks.addresses import Unfit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webhooks.addresses import Address, Target
    from webhooks.deliveries import Attempt

LONGEST_S = 15.0  # of an attempt: name look-up, connection, TLS, request, head of the answer
AGENT = "reports-webhooks/1.0"
UNREACHABLE = "The host could not be reached."
INSECURE = "No trusted TLS connection could be made."
TOO_LATE = "It did not answer in time."
NO_ANSWER = "It closed the connection without an answer that is HTTP."


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of an attempt, in words that its owner may read."""

    words: str
    http_status: int | None = None
    retry_after_s: float | None = None

    @property
    def is_taken(self) -> bool:
        """Whether the receiver has it: 2xx, and nothing else."""
        return self.http_status is not None and 200 <= self.http_status < 300


def send(attempt: Attempt) -> Sent:
    """Make one attempt; whatever happens on the wire is the return value."""
    if attempt.why_not:
        return Sent(attempt.why_not)
    try:
        signed = signing.headers(
            attempt.seeds, webhook_id=attempt.webhook_id, at=attempt.at, body=attempt.body
        )
    except signing.KeyGone:
        return Sent("Its secret is lost with an old SECRET_KEY: make a new one.")
    headers = {"Content-Type": "application/json", "User-Agent": AGENT, **signed}
    return post(attempt.url, attempt.body.encode(), headers, within_s=LONGEST_S)


def post(url: str, body: bytes, headers: dict[str, str], *, within_s: float) -> Sent:
    """POST once. No proxy, no redirect; of the answer only the status and its headers are read."""
    wire = _Wire(time.monotonic() + within_s)
    try:
        target = addresses.parse(url)
        found = addresses.resolve(target, within_s=within_s)
    except Unfit:
        return Sent(UNREACHABLE)
    alarm = threading.Timer(wire.seconds_left(), wire.cut)
    alarm.daemon = True
    alarm.start()
    connection = _connection(target, found, wire)
    try:
        headers = {**headers, "Connection": "close"}
        # Otherwise urllib3 reads the whole body at once, of any size.
        connection.request("POST", target.path, body, headers, preload_content=False)
        answer = connection.getresponse()
        if wire.is_late:  # a head that is cut off reads like one that is over
            return Sent(TOO_LATE)
        return _told(answer.status, answer.headers.get("Retry-After"))
    except (OSError, HTTPException, HTTPError, ValueError) as error:
        return Sent(_words(error, wire))
    finally:
        alarm.cancel()
        connection.close()
        wire.close()


class _Wire:
    """The socket under a connection, which another thread can cut when time is up."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.is_late = False
        self.is_connected = False
        self._lock = threading.Lock()
        self._handle: socket.socket | None = None

    def seconds_left(self) -> float:
        """Until the deadline, and never less than nothing."""
        return max(0.0, self.deadline - time.monotonic())

    def connect(self, found: Sequence[Address]) -> socket.socket:
        """Connect to the first of these that lets us. Raises OSError if none does."""
        failed = OSError("no address")
        for left, (family, kind, protocol, _, where) in zip(
            range(len(found), 0, -1), found, strict=True
        ):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(max(0.01, self.seconds_left() / left))
                sock.connect(where)
                self._hold(sock)
            except OSError as error:
                sock.close()
                failed = error
            else:
                sock.settimeout(self.seconds_left() + 1)  # the alarm is first
                self.is_connected = True
                return sock
        raise failed

    def _hold(self, sock: socket.socket) -> None:
        # A handle of its own: TLS takes the socket object away during the handshake.
        with self._lock:
            if self.is_late:
                raise TimeoutError
            self._handle = sock.dup()

    def cut(self) -> None:
        """End the connection under whoever waits for it."""
        with self._lock:
            self.is_late = True
            if self._handle is not None:
                try:
                    self._handle.shutdown(socket.SHUT_RDWR)
                except OSError:
                    return  # it is closed already

    def close(self) -> None:
        """Give the handle back."""
        with self._lock:
            if self._handle is not None:
                self._handle.close()
                self._handle = None


def _connection(target: Target, found: Sequence[Address], wire: _Wire) -> HTTPConnection:
    """A connection to the addresses that were looked at; its name is checked and sent as ever."""

    class Pinned(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return wire.connect(found)

    class PinnedTls(Pinned, HTTPSConnection):
        pass

    timeout: Any = wire.seconds_left() + 1
    if target.is_tls:
        return PinnedTls(target.host, target.port, timeout=timeout, ssl_context=trust())
    return Pinned(target.host, target.port, timeout=timeout)


@cache
def trust() -> ssl.SSLContext:
    """The system's authorities (or SSL_CERT_FILE's) and those that requests brings along."""
    context = ssl.create_default_context()
    context.load_verify_locations(DEFAULT_CA_BUNDLE_PATH)
    return context


def _told(status: int, retry_after: str | None) -> Sent:
    try:
        phrase = f" {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = ""
    if 300 <= status < 400:
        phrase += "; redirects are not followed"
    return Sent(f"It answered {status}{phrase}.", status, seconds(retry_after))


def _words(error: Exception, wire: _Wire) -> str:
    if wire.is_late or isinstance(error, TimeoutError):
        return TOO_LATE
    if not wire.is_connected:
        return UNREACHABLE
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
        return INSECURE
    return NO_ANSWER
