"""Every item of the shared list of odd answers, with what the seam makes of it."""

from __future__ import annotations

import time

import pytest

from reports.errors import ErrorCode
from reports.provider import Completion
from tests.provider.asking import ask, assert_fails
from tests.support.provider_cases import cases

T = 0.6  # the time limit where it is to be reached, in seconds

# What the shared file leaves open, decided once. Its codes for an answer of the wrong shape have
# several names; ours is the contract's.
DECIDED = {
    "P013": None,  # only the total is NaN, and it is not used
    "P019": None,
    "P020": ErrorCode.PROVIDER_INVALID_RESPONSE,  # over the limit
    "P033": ErrorCode.PROVIDER_INVALID_RESPONSE,
    "P034": None,
    "P043": ErrorCode.PROVIDER_REJECTED,  # contract section 2: 204 is "anything else but 200"
    "P048": None,
    "P049": None,
    "P050": ErrorCode.PROVIDER_INVALID_RESPONSE,  # JSON between systems is UTF-8
    "P051": None,
    "P053": None,
    "P055": None,
    "P066": ErrorCode.PROVIDER_REJECTED,
    "P071": ErrorCode.PROVIDER_REJECTED,
    "P080": ErrorCode.PROVIDER_5XX,
    "P083-0": ErrorCode.PROVIDER_INVALID_RESPONSE,  # 999
    "P083-1": ErrorCode.PROVIDER_INVALID_RESPONSE,  # 600
    "P083-2": ErrorCode.PROVIDER_REJECTED,  # 299
    "P083-3": ErrorCode.PROVIDER_INVALID_RESPONSE,  # 199: an interim answer, and none after it
    "P083-4": ErrorCode.PROVIDER_REJECTED,  # 418
    "P084": ErrorCode.PROVIDER_5XX,
    "P085": ErrorCode.PROVIDER_5XX,
    "P107": ErrorCode.PROVIDER_INVALID_RESPONSE,
    "P110": ErrorCode.PROVIDER_INVALID_RESPONSE,
    "P111": ErrorCode.PROVIDER_INVALID_RESPONSE,
    "P119": ErrorCode.PROVIDER_INVALID_RESPONSE,
    "P121": ErrorCode.PROVIDER_INVALID_RESPONSE,
    "P122": ErrorCode.PROVIDER_INVALID_RESPONSE,  # http.client reads 100 header lines
    "P123": ErrorCode.PROVIDER_INVALID_RESPONSE,  # and 64 kB of each
}


def expected_code(case):
    name, number, _ = case.name.split("-")
    if name in DECIDED or f"{name}-{number}" in DECIDED:
        return DECIDED.get(f"{name}-{number}", DECIDED.get(name))
    allowed = case.expect["error_code"]
    if not isinstance(allowed, list):
        return allowed
    known = [code for code in allowed if code in set(ErrorCode)]
    assert len(known) == 1, f"{name} must be decided"
    return known[0]


@pytest.mark.parametrize("case", cases(T), ids=lambda case: case.name)
def test_every_shared_case_ends_as_decided(case, server):
    limit_s = T if "within" in case.expect else 10
    server.script(*case.answers)

    began = time.monotonic()
    outcome = ask(server.url, protocol=case.protocol, timeout_s=limit_s)

    assert time.monotonic() - began < limit_s + 1
    assert len(server.calls) == 1
    code = expected_code(case)
    if code is None:
        assert isinstance(outcome, Completion), outcome
        assert outcome.text == case.expect.get("text_if_ok", outcome.text) != ""
        charged = case.expect["charged"]
        charges = charged if isinstance(charged, list) else [charged]
        used = outcome.usage
        assert (used.prompt_tokens + used.completion_tokens if used else "estimate") in charges
    else:
        own = {ErrorCode.PROVIDER_INVALID_RESPONSE: 502, ErrorCode.PROVIDER_TIMEOUT: 504}
        assert_fails(outcome, code, own.get(code, case.answers[0].status))
