"""How the tests of the seam ask, and what they expect of a failure."""

from __future__ import annotations

import dataclasses
import json
import re
import threading

from reports import provider
from reports.provider import Completion, Failure, ProviderConfig
from reports.provider.protocols import PROTOCOLS

KEY = "sk-canary-0123456789"
HELLO = Completion("hello")
CONFIG = ProviderConfig(
    url="",
    key=KEY,
    protocol="prompt",
    model="m",
    system_prompt="",
    max_output_tokens=0,
    max_tokens_field="max_tokens",
    timeout_s=10,
    max_response_bytes=1024 * 1024,
)


def ask(url, prompt="a prompt", *, call=None, **changes):
    config = dataclasses.replace(CONFIG, url=url, **changes)
    return provider.complete(prompt, job_id="job-1", config=config, call=call)


def read(protocol, value, *, status=200):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return PROTOCOLS[protocol].read(status, body)


def count_threads(name):
    return sum(thread.name == name for thread in threading.enumerate())


def assert_fails(outcome, code, http_status):
    assert isinstance(outcome, Failure), outcome
    assert (outcome.code, outcome.http_status) == (code, http_status), outcome
    assert 0 < len(outcome.detail) <= 500
    assert KEY not in outcome.detail
    assert not re.search("[<>\x00-\x1f]", outcome.detail)
