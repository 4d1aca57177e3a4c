"""The deadline and the abort of a call, whatever it is waiting for."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from reports import provider
from reports.errors import ErrorCode
from reports.provider import Call, sockets
from tests.provider.asking import HELLO, ask, assert_fails, count_threads
from tests.support.provider import Answer
from tests.support.waiting import until

T = 1.0  # the time limit where it is to be reached, in seconds


def assert_times_out(url, **changes):
    began = time.monotonic()
    outcome = ask(url, timeout_s=T, **changes)
    assert T <= time.monotonic() - began < T + 1
    assert_fails(outcome, ErrorCode.PROVIDER_TIMEOUT, 504)
    return outcome


INTERIM = b"HTTP/1.1 102 Processing\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(hang=True),
        Answer(drip=(1, 0.05), drips_head=True, headers={"X-Pad": "x" * 500}),
        Answer(wire=b"", endless=INTERIM, drip=(1, 0.05)),
        Answer(wire=b"H", endless=b"T", drip=(1, 0.05)),
        Answer(body=b"", headers={"Content-Length": "999"}, endless=b" ", drip=(1, 0.05)),
        Answer(wire=b"HTTP/1.1 200 OK\r\n\r\n", endless=b" ", drip=(1, 0.05)),
        Answer(
            body=b"",
            headers={"Transfer-Encoding": "chunked"},
            endless=b"1\r\n \r\n",
            drip=(1, 0.05),
        ),
    ],
    ids=["hang", "head", "interim", "status line", "length", "no length", "chunks"],
)
@pytest.mark.parametrize("kind", ["server", "tls_server"])
def test_whatever_drips_meets_the_deadline(answer, kind, request):
    server = request.getfixturevalue(kind)
    server.script(answer)

    assert_times_out(server.url)

    assert len(server.calls) <= 1  # none: a machine so busy that the time was up before the sending
    until(lambda: server.open_connections == 0)


def test_a_tls_handshake_that_hangs_meets_the_deadline(mute_port):
    outcome = assert_times_out(f"https://127.0.0.1:{mute_port}/")

    assert "TLS" in outcome.detail


def test_a_connection_that_is_not_accepted_meets_the_deadline(full_port):
    outcome = assert_times_out(f"http://127.0.0.1:{full_port}/")

    assert "connecting" in outcome.detail


def test_a_name_server_that_hangs_meets_the_deadline(slow_names):
    outcome = assert_times_out("http://localhost:9/")

    assert "host name" in outcome.detail


def test_hanging_look_ups_take_no_more_threads_than_allowed(slow_names):
    with ThreadPoolExecutor(50) as pool:
        outcomes = [pool.submit(ask, "http://localhost:9/", timeout_s=T) for _ in range(50)]
        until(lambda: count_threads("provider-lookup") >= 32)
        codes = {outcome.result().code for outcome in outcomes}
        alive = count_threads("provider-lookup")

    assert codes == {ErrorCode.PROVIDER_TIMEOUT}
    assert alive == 32


@pytest.mark.parametrize("kind", ["refuses", "says nothing"])
def test_a_name_whose_first_address_is_dead_is_reached_by_the_second(
    kind, server, full_port, monkeypatch
):
    dead = 1 if kind == "refuses" else full_port
    addresses = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
        for port in (dead, server.port)
    ]
    monkeypatch.setattr(sockets, "_look_up", lambda *_, **__: addresses)

    assert ask(server.url.replace("127.0.0.1", "two.example"), timeout_s=3) == HELLO


def test_a_status_other_than_200_stands_when_its_body_takes_too_long(server):
    server.script(Answer(b"{", status=503, headers={"Content-Length": "100"}))

    outcome = ask(server.url, timeout_s=1.5)

    assert_fails(outcome, ErrorCode.PROVIDER_5XX, 503)


def test_a_hundred_calls_at_once_share_one_watchdog(server):
    ask(server.url)
    before = count_threads("provider-deadlines")
    server.hold()
    with ThreadPoolExecutor(100) as pool:
        outcomes = [pool.submit(ask, server.url) for _ in range(100)]
        server.wait_for_calls(101)
        during = count_threads("provider-deadlines")
        server.release()
        assert {outcome.result() for outcome in outcomes} == {HELLO}

    assert before == during >= 1
    assert len(server.calls) == 101


def aborted(url, call, *, when):
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(ask, url, call=call)
        when()
        call.abort()
        return outcome.result(timeout=2)


def test_an_abort_ends_a_call_that_waits_for_its_answer(server):
    server.hold()
    call = Call("job-1", time.monotonic() + 30)

    outcome = aborted(server.url, call, when=lambda: server.wait_for_calls(1))

    assert_fails(outcome, ErrorCode.WORKER_LOST, 500)


def test_an_abort_ends_a_look_up(slow_names):
    call = Call("job-1", time.monotonic() + 30)

    outcome = aborted(
        "http://localhost:9/", call, when=lambda: until(lambda: call._stop is not None)
    )

    assert_fails(outcome, ErrorCode.WORKER_LOST, 500)


def test_an_abort_ends_a_tls_handshake(mute_port):
    call = Call("job-1", time.monotonic() + 30)
    url = f"https://127.0.0.1:{mute_port}/"

    outcome = aborted(
        url, call, when=lambda: until(lambda: call.phase is provider.calls.Phase.SECURING)
    )

    assert_fails(outcome, ErrorCode.WORKER_LOST, 500)


def test_a_call_that_was_aborted_before_sends_nothing(server):
    call = Call("job-1", time.monotonic() + 30)
    call.abort()

    assert_fails(ask(server.url, call=call), ErrorCode.WORKER_LOST, 500)

    assert server.calls == []


def test_an_abort_after_the_end_touches_no_later_call(server):
    first = Call("job-1", time.monotonic() + 30)
    ask(server.url, call=first)
    server.hold()
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(ask, server.url)
        server.wait_for_calls(2)
        first.abort()
        server.release()
        assert second.result() == HELLO

    assert [call.connection for call in server.calls] == [1, 1]
