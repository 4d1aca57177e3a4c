"""The process's one pooled session, whose connections know the call that they are made for."""

from __future__ import annotations

import functools
import http.client
import logging
import os
import queue
import ssl
import threading
import time
from contextlib import contextmanager
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING, Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import NewConnectionError

from reports.provider import sockets
from reports.provider.calls import Call, Phase, Watchdog

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

# Servers close idle connections on their own, and a POST that meets the closing is lost: nobody can
# know whether it was seen, so it may not be sent again.
FRESH_S = 1.0
INTERIM = frozenset(range(100, 200)) - {101}

_first_use = threading.Lock()
_here = threading.local()


@contextmanager
def session_for(call: Call) -> Iterator[requests.Session]:
    """Lend the session to one call, which is kept to its deadline inside the block."""
    with _first_use:
        engine = _engine(os.getpid())
    with engine.watchdog.watching(call):
        # urllib3 makes connections out of sight; here they find the call that they are for.
        _here.call = call
        try:
            yield engine.session
        finally:
            call.let_go()
            del _here.call


def _call() -> Call:
    call: Call = _here.call
    return call


@functools.cache
def _engine(_pid: int) -> _Engine:
    # By process: after a fork, two would read each other's answers from the same connections.
    return _Engine()


class _Engine:
    def __init__(self) -> None:
        self.watchdog = Watchdog()
        self.session = _Session()
        self.session.trust_env = False  # no proxies and no .netrc, which would replace our key
        # One user's call must not carry what another's was told to remember.
        self.session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        # Size 0 is no limit: there are never more connections than calls at once.
        adapter = _Adapter(pool_maxsize=0)
        self.session.mount("http://", adapter)
        self.session.mount("https://", adapter)
        for name in ("connection", "connectionpool"):
            # They log whole URLs, and a URL may carry a key in its query.
            logging.getLogger(f"urllib3.{name}").setLevel(logging.ERROR)


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> None:
        # Otherwise requests reads a redirect's body, of any size, even when told not to follow.
        del resp


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        # The system's authorities (or SSL_CERT_FILE's) and those that requests brings along.
        trust = ssl.create_default_context()
        trust.load_verify_locations(DEFAULT_CA_BUNDLE_PATH)
        super().init_poolmanager(*args, ssl_context=trust, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}

    def cert_verify(self, *args: Any) -> None:
        # Not as requests does it, which reads every authority again for each connection; the
        # context above, which all share, demands a certificate and checks its name.
        del args


class _Response(http.client.HTTPResponse):
    def _read_status(self) -> tuple[str, int, str]:
        call = _call()
        while True:
            try:
                line: tuple[str, int, str] = super()._read_status()  # type: ignore[misc]
            except http.client.RemoteDisconnected:
                raise
            except http.client.HTTPException:
                call.status = 0
                raise
            call.status = line[1]
            if call.status not in INTERIM:
                return line
            # RFC 9110 section 15.2: any of them may come first; http.client knows only 100.
            http.client.parse_headers(self.fp)

    def _read_next_chunk_size(self) -> int:
        size: int = super()._read_next_chunk_size()  # type: ignore[misc]
        if size < 0:  # Python reads "-1" as a size, and then everything that ever comes
            raise ValueError("negative chunk size")
        return size


class _Connection(HTTPConnection):
    response_class = _Response
    idle_since = 0.0

    def _new_conn(self) -> socket.socket:
        call = _call()
        try:
            sock = sockets.connect(self._dns_host, self.port, call=call)
        except OSError as error:
            # As it is, a reset or a broken pipe would be taken for one after the connecting.
            raise NewConnectionError(self, "not connected") from error
        call.phase = Phase.WAITING
        return sock

    def request(self, *args: Any, **kwargs: Any) -> None:
        call = _call()
        if self.sock is not None:
            call.hold(sockets.stop(self.sock))
            call.phase = Phase.WAITING
        super().request(*args, **kwargs)


class _TlsConnection(_Connection, HTTPSConnection):
    _handle: socket.socket | None = None

    def connect(self) -> None:
        try:
            super().connect()
        finally:
            if self._handle is not None:
                self._handle.close()

    def _new_conn(self) -> socket.socket:
        sock = super()._new_conn()
        call = _call()
        call.phase = Phase.SECURING
        # TLS takes the socket object away during the handshake; a second handle can still end it.
        self._handle = sock.dup()
        call.hold(sockets.stop(self._handle))
        return sock


class _IdleConnections(queue.LifoQueue[Any]):
    # The newest first, and none that was idle for longer than FRESH_S.

    def _put(self, item: _Connection) -> None:
        _call().let_go()  # from here on the connection may be another call's
        item.idle_since = time.monotonic()
        super()._put(item)
        self._retire()

    def _get(self) -> _Connection | None:
        self._retire()
        connection: _Connection | None = super()._get() if self._qsize() else None
        return connection

    def _retire(self) -> None:
        while self.queue and self.queue[0].idle_since < time.monotonic() - FRESH_S:
            self.queue.pop(0).close()


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection
    QueueCls = _IdleConnections


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TlsConnection
    QueueCls = _IdleConnections
