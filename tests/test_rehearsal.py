"""`manage.py rehearsal_provider`: each fault as the seam meets it, its book, and its end."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from reports import provider
from reports.errors import ErrorCode
from reports.provider import Completion, Failure, Usage
from reports.rehearsal import FAULTS
from tests.provider.asking import CONFIG
from tests.support.waiting import until

ROOT = Path(__file__).parents[1]
ENVIRONMENT = os.environ | {"DEBUG": "1"}


def start(*words):
    command = [sys.executable, "manage.py", "rehearsal_provider", *map(str, words)]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def url_of(process):
    line = process.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:\d+", line)
    assert found, line + process.stderr.read()
    return found[0]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    return tmp_path_factory.mktemp("rehearsal") / "calls.jsonl"


@pytest.fixture(scope="module")
def url(book):
    with start("--port", 0, "--call-log", book) as process:
        yield url_of(process)
        process.terminate()
        assert process.communicate(timeout=10) == ("", "")
        assert process.returncode == 0


def ask(base, prompt="a prompt", *, job_id="job-1", path="/complete", **changes):
    protocol = "openai" if path.endswith("/chat/completions") else "prompt"
    config = replace(CONFIG, url=base + path, protocol=protocol, **changes)
    return provider.complete(prompt, job_id=job_id, config=config)


@pytest.mark.parametrize(("path", "reason"), [("/complete", ""), ("/v1/chat/completions", "stop")])
def test_the_answer_says_that_it_is_a_rehearsal(url, path, reason):
    outcome = ask(url, "x" * 40, path=path)

    assert isinstance(outcome, Completion)
    assert "rehearsal" in outcome.text
    assert "40 characters" in outcome.text
    assert outcome.finish_reason == reason
    assert outcome.usage == Usage(10, len(outcome.text) // 4)


@pytest.mark.parametrize("path", ["/complete", "/v1/chat/completions"])
@pytest.mark.parametrize(
    ("fault", "code", "http_status"),
    [
        ("503", ErrorCode.PROVIDER_5XX, 503),
        ("429", ErrorCode.PROVIDER_REJECTED, 429),
        ("reset", ErrorCode.PROVIDER_UNREACHABLE, 503),
        ("junk", ErrorCode.PROVIDER_INVALID_RESPONSE, 502),
        ("empty", ErrorCode.PROVIDER_INVALID_RESPONSE, 502),
        ("huge", ErrorCode.PROVIDER_INVALID_RESPONSE, 502),
        ("hang", ErrorCode.PROVIDER_TIMEOUT, 504),
        ("drip", ErrorCode.PROVIDER_TIMEOUT, 504),
        ("slow:60", ErrorCode.PROVIDER_TIMEOUT, 504),
        ("unheard", ErrorCode.PROVIDER_REJECTED, 400),
    ],
)
def test_a_prompt_gets_the_fault_that_it_asks_for(url, path, fault, code, http_status):
    is_timed = code is ErrorCode.PROVIDER_TIMEOUT

    outcome = ask(
        url, f"please [[rehearse:{fault}]] now", path=path, timeout_s=0.5 if is_timed else 10
    )

    assert isinstance(outcome, Failure)
    assert (outcome.code, outcome.http_status) == (code, http_status)


def test_a_fault_that_is_unheard_of_is_answered_with_those_there_are(url):
    outcome = ask(url, "[[rehearse:unheard]]")

    assert isinstance(outcome, Failure)
    assert ", ".join(FAULTS) in outcome.detail


def test_a_slow_answer_comes_after_its_time(url):
    began = time.monotonic()

    outcome = ask(url, "[[rehearse:slow:0.4]]")

    assert isinstance(outcome, Completion)
    assert time.monotonic() - began >= 0.4


def test_the_book_holds_one_line_for_each_request_before_its_answer(url, book):
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(ask, url, "[[rehearse:hang]] Grüße", job_id="job-book", timeout_s=2)
        lines = until(
            lambda: [line for line in book.read_text().splitlines() if "job-book" in line]
        )
        assert not hanging.done()

    (line,) = [json.loads(line) for line in lines]
    assert line == {
        "job_id": "job-book",
        "at": pytest.approx(time.time(), abs=30),
        "fault": "hang",
        "prompt_sha256": hashlib.sha256("[[rehearse:hang]] Grüße".encode()).hexdigest(),
    }
    assert "Grüße" not in book.read_text()


def test_it_holds_many_calls_at_once(url, book):
    with ThreadPoolExecutor(200) as pool:
        began = time.monotonic()
        outcomes = [
            pool.submit(ask, url, "[[rehearse:slow:2]]", job_id=f"many-{number}", timeout_s=30)
            for number in range(200)
        ]
        texts = {outcome.result().text for outcome in outcomes}

    assert len(texts) == 1
    assert time.monotonic() - began < 20  # one after another they would take 400 s
    assert book.read_text().count("many-") == 200


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_with_calls_open(number, tmp_path):
    book = tmp_path / "calls.jsonl"
    with start("--port", 0, "--latency", 60, "--call-log", book) as process:
        base = url_of(process)
        with ThreadPoolExecutor(2) as pool:
            calls = [pool.submit(ask, base, word) for word in ("hello", "[[rehearse:hang]]")]
            until(lambda: len(book.read_text().splitlines()) == 2)
            process.send_signal(number)
            assert process.communicate(timeout=10) == ("", "")
            codes = [call.result().code for call in calls]

    assert process.returncode == 0
    assert codes == [ErrorCode.PROVIDER_UNREACHABLE] * 2


def test_a_port_that_is_taken_is_one_line_and_exit_1(url):
    with start("--port", url.rpartition(":")[2]) as process:
        _, said = process.communicate(timeout=30)

    assert process.returncode == 1
    assert "already in use" in said
    assert len(said.splitlines()) == 1
