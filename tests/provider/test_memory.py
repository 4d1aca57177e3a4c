"""What a worker's memory does under answers without measure."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from reports.errors import ErrorCode
from tests.support.provider import Answer, Provider

MEASURE = """
import resource, sys
from reports.provider import ProviderConfig, complete

def growth_mib(url):
    config = ProviderConfig(
        url=url, key="", protocol="prompt", model="", system_prompt="", max_output_tokens=0,
        max_tokens_field="", timeout_s=20, max_response_bytes=2**20,
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(getattr(complete("", job_id="", config=config), "code", "succeeded"))
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024

growth_mib(sys.argv[1])  # what the libraries take on first use is not of interest
print(growth_mib(sys.argv[2]))
"""
BOMB = gzip.compress(bytes(200 * 1024 * 1024), 1)
CODES = {
    200: ErrorCode.PROVIDER_INVALID_RESPONSE,
    302: ErrorCode.PROVIDER_REJECTED,
    500: ErrorCode.PROVIDER_5XX,
}
CHUNKED = {"Transfer-Encoding": "chunked"}


@pytest.mark.parametrize(
    "answer",
    [
        Answer(BOMB, headers={"Content-Encoding": "gzip"}),
        Answer(gzip.compress(BOMB), headers={"Content-Encoding": "gzip, gzip"}),
        Answer(wire=b"HTTP/1.1 200 OK\r\n\r\n", endless=b"x" * 65536),
        Answer(b"", headers=CHUNKED, endless=b"4000\r\n" + b"x" * 0x4000 + b"\r\n"),
        Answer(b"-1\r\n", headers=CHUNKED, endless=b"x" * 65536),
        Answer(b"", headers=CHUNKED, endless=b"1\r\nx\r\n" * 5000, status=500),
        Answer(
            b"",
            headers=CHUNKED | {"Location": "http://127.0.0.1:1/"},
            endless=b"4000\r\n" + b"x" * 0x4000 + b"\r\n",
            status=302,
        ),
    ],
    ids=[
        "bomb",
        "bomb in a bomb",
        "endless",
        "chunks",
        "negative chunk",
        "endless error",
        "endless redirect",
    ],
)
def test_memory_stays_flat(answer, server):
    with Provider(answer) as huge:
        output = subprocess.run(
            [sys.executable, "-c", MEASURE, server.url, huge.url],
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
        ).stdout.split()

    assert output[:2] == ["succeeded", CODES[answer.status]]
    assert int(output[2]) < 16
