"""Servers that the tests of the seam ask."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import ExitStack

import pytest

from reports.provider import pooling
from tests.provider.asking import count_threads
from tests.support import certificates
from tests.support.provider import Provider
from tests.support.waiting import until


@pytest.fixture
def server():
    with Provider() as running:
        yield running


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """Of 127.0.0.1, with its key in the same file."""
    return certificates.make(tmp_path_factory.mktemp("tls") / "loopback.pem")


@pytest.fixture
def tls_server(monkeypatch, certificate):
    """A server whose certificate this process trusts for the length of the test."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    pooling._engine.cache_clear()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Provider(tls=context) as running:
        yield running
    pooling._engine.cache_clear()


@pytest.fixture
def mute_port():
    """A port that lets clients connect and then says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=4) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def full_port():
    """A port whose queue is full, so that who connects is left without a word."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        where = listener.getsockname()
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(where)
        yield where[1]


@pytest.fixture
def slow_names(monkeypatch):
    """Look-ups of names hang until this is set."""
    answered = threading.Event()
    look_up = socket.getaddrinfo

    def hang(*args, **options):
        if options.get("flags") != socket.AI_NUMERICHOST:
            answered.wait(30)
        return look_up(*args, **options)

    # There is no slow name server to be had on loopback.
    monkeypatch.setattr(socket, "getaddrinfo", hang)
    yield answered
    answered.set()
    until(lambda: count_threads("provider-lookup") == 0)
