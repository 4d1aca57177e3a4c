"""What goes over the wire, what may come back over it, and what never leaves the seam."""

from __future__ import annotations

import dataclasses
import gzip
import json
import logging
import re
import socket
import ssl
import zlib

import pytest

from reports.errors import ErrorCode
from reports.provider import pooling, sockets
from tests.provider.asking import CONFIG, HELLO, KEY, ask, assert_fails
from tests.support.provider import Answer, Provider
from tests.support.waiting import until


def test_the_request_carries_what_the_contract_says(server):
    outcome = ask(server.url, "Grüße, 漢字 😀\n")

    call = server.calls[0]
    assert outcome == HELLO
    assert call.body.decode() == json.dumps({"prompt": "Grüße, 漢字 😀\n"}, ensure_ascii=False)
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert call.headers["idempotency-key"] == "job-1"
    assert call.headers["content-type"] == "application/json"
    assert call.headers["accept-encoding"] == "gzip, deflate"


def test_no_key_sends_no_authorization(server):
    ask(server.url, key="")

    assert "authorization" not in server.calls[0].headers


def test_neither_netrc_nor_proxy_nor_the_url_replaces_the_key(server, monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")

    outcome = ask(server.url.replace("//", "//user:word@"))

    assert outcome == HELLO
    assert server.calls[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_cookie_is_not_carried_to_the_next_call(server):
    server.script(Answer(headers={"Set-Cookie": "session=other-user; Path=/"}))

    ask(server.url)
    ask(server.url)

    assert ["cookie" in call.headers for call in server.calls] == [False, False]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_nor_its_body_read_to_the_end(status, server):
    with Provider() as elsewhere:
        headers = {"Location": elsewhere.url, "Content-Length": "1000000000"}
        server.script(Answer(status=status, headers=headers, endless=b"x" * 65536))

        assert_fails(ask(server.url), ErrorCode.PROVIDER_REJECTED, status)

        assert (len(server.calls), elsewhere.calls) == (1, [])


def test_localhost_is_reached_where_only_ipv4_listens(server):
    assert ask(server.url.replace("127.0.0.1", "localhost")) == HELLO


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:1/", "connected"),
        ("http://nowhere.invalid/", "host name"),
        ("http://" + "a" * 64 + ".example/", "host name"),
    ],
)
def test_who_cannot_be_reached_is_unreachable(url, said):
    outcome = ask(url)

    assert_fails(outcome, ErrorCode.PROVIDER_UNREACHABLE, 503)
    assert said in outcome.detail


@pytest.mark.parametrize("answer", [Answer(reset_after=0), Answer(wire=b"", keep_open=False)])
def test_a_connection_that_ends_without_an_answer_is_unreachable(answer, server):
    server.script(answer)

    assert_fails(ask(server.url), ErrorCode.PROVIDER_UNREACHABLE, 503)

    assert len(server.calls) == 1


def test_a_certificate_that_nobody_vouches_for_is_unreachable(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Provider(tls=context) as server:
        outcome = ask(server.url)

        assert server.calls == []
    assert_fails(outcome, ErrorCode.PROVIDER_UNREACHABLE, 503)
    assert "TLS" in outcome.detail


def test_a_certificate_of_another_name_is_unreachable(tls_server, monkeypatch):
    where = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", tls_server.port))
    monkeypatch.setattr(sockets, "_look_up", lambda *_, **__: [where])

    outcome = ask(tls_server.url.replace("127.0.0.1", "other.example"))

    assert_fails(outcome, ErrorCode.PROVIDER_UNREACHABLE, 503)
    assert tls_server.calls == []


@pytest.mark.parametrize("status", [204, 302, 404, 429, 500, 503])
@pytest.mark.parametrize(
    "answer",
    [
        Answer(body=b"{", headers={"Content-Length": "100"}, keep_open=False),
        Answer(body=b"{", headers={"Content-Length": "100"}, reset_after=1),
        Answer(body=b"ZZ\r\n", headers={"Transfer-Encoding": "chunked"}),
        Answer(body=b"no gzip", headers={"Content-Encoding": "gzip"}),
        Answer(headers={f"X-Pad-{number}": "0" for number in range(150)}),
    ],
    ids=["cut", "reset", "bad chunk", "bad gzip", "headers"],
)
def test_a_status_other_than_200_stands_whatever_its_body_does(answer, status, server):
    server.script(dataclasses.replace(answer, status=status))

    outcome = ask(server.url)

    code = ErrorCode.PROVIDER_5XX if status >= 500 else ErrorCode.PROVIDER_REJECTED
    assert_fails(outcome, code, status)


def in_one_chunk(body):
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


HELLO_BODY = b'{"text": "hello"}'


@pytest.mark.parametrize("spare", [0, 1])
@pytest.mark.parametrize(
    "answer",
    [
        Answer(HELLO_BODY),
        Answer(in_one_chunk(HELLO_BODY), headers={"Transfer-Encoding": "chunked"}),
        Answer(gzip.compress(HELLO_BODY), headers={"Content-Encoding": "gzip"}),
    ],
    ids=["declared", "chunked", "gzip"],
)
def test_the_limit_counts_bytes_of_the_body(answer, spare, server):
    server.script(answer)

    outcome = ask(server.url, max_response_bytes=len(HELLO_BODY) - spare)

    if spare:
        assert_fails(outcome, ErrorCode.PROVIDER_INVALID_RESPONSE, 502)
        assert "INFERENCE_MAX_RESPONSE_BYTES" in outcome.detail
    else:
        assert outcome == HELLO


@pytest.mark.parametrize("coding", ["gzip", "deflate", "identity"])
def test_codings_that_were_asked_for_are_read(coding, server):
    raw = b'{"text": "hello"}'
    body = {"gzip": gzip.compress(raw), "identity": raw}.get(coding) or zlib.compress(raw)
    server.script(Answer(body, headers={"Content-Encoding": coding}))

    assert ask(server.url) == HELLO


def test_a_fresh_connection_is_used_again(server):
    ask(server.url)
    ask(server.url)

    assert [call.connection for call in server.calls] == [1, 1]


def test_an_idle_connection_is_not_trusted_with_a_request(server, monkeypatch):
    ask(server.url)
    monkeypatch.setattr(pooling, "FRESH_S", 0.0)  # it is older than that by now
    ask(server.url)

    assert [call.connection for call in server.calls] == [1, 2]
    until(lambda: server.open_connections <= 1)


def test_a_request_that_went_out_is_never_sent_again(server):
    ask(server.url)
    server.script(Answer(reset_after=0))
    outcome = ask(server.url)

    assert_fails(outcome, ErrorCode.PROVIDER_UNREACHABLE, 503)
    assert [call.connection for call in server.calls] == [1]


def test_neither_key_nor_prompt_nor_query_is_logged_or_shown(server, caplog):
    caplog.set_level(logging.DEBUG)
    server.script(
        Answer.of(
            {"error": {"message": f"bad key {KEY} at /x?key=CANARY for SECRET PROMPT"}}, status=401
        ),
        Answer(wire=b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n", keep_open=False),
        Answer(reset_after=0),
    )

    outcomes = [ask(server.url + "?key=CANARY", "SECRET PROMPT") for _ in range(3)]

    seen = (
        caplog.text + repr(outcomes) + repr(dataclasses.replace(CONFIG, url="http://h/?k=CANARY"))
    )
    assert not re.search(f"{KEY}|CANARY|SECRET PROMPT", seen)
    assert len(server.calls) == 3


def test_a_key_that_no_header_carries_is_refused_without_being_shown():
    with pytest.raises(ValueError, match="header") as caught:
        dataclasses.replace(CONFIG, key="sk-…secret")

    assert "secret" not in str(caught.value)
