"""How much a request and a run cost the database: every statement, in order."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from reports import runner
from tests.support.provider import Answer
from tests.support.rows import give_budget, job_in, row
from tests.support.statements import recorded
from tests.support.threads import begin

if TYPE_CHECKING:
    from tests.support.clients import Api
    from tests.support.provider import Provider

pytestmark = pytest.mark.django_db(transaction=True)
AUTHENTICATION = "SELECT access_token"
JOBS = "reports_reportjob"
BUDGETS = "budgets_inferencebudget"


@pytest.mark.parametrize("has_row", [True, False])
def test_an_accept_is_one_write_beside_its_authentication(ada: Api, *, has_row: bool):
    if has_row:
        give_budget(ada.user)

    with recorded() as statements:
        response = ada.post("hello")

    assert response.status_code == 202
    assert statements == [AUTHENTICATION, *together(f"INSERT {JOBS}", f"INSERT {BUDGETS}")]


def test_a_replay_is_an_insert_that_writes_nothing_and_a_select(ada: Api):
    ada.post("hello")

    with recorded() as statements:
        response = ada.post("hello")

    assert response.headers["Idempotent-Replayed"] == "true"
    tried = together(f"INSERT {JOBS}", f"INSERT {BUDGETS}", undone_after=1)
    assert statements == [AUTHENTICATION, *tried, f"SELECT {JOBS}"]


def test_a_refusal_for_budget_undoes_its_insert_and_reads_why(ada: Api):
    give_budget(ada.user, daily_tokens=10, spent_tokens=10)

    with recorded() as statements:
        response = ada.post("hello")

    assert response.status_code == 429
    tried = together(f"INSERT {JOBS}", f"INSERT {BUDGETS}", undone_after=2)
    why = f"SELECT {BUDGETS}"
    if connection.vendor == "sqlite":
        tried.insert(-1, why)  # before the transaction ends
        assert statements == [AUTHENTICATION, *tried]
    else:
        assert statements == [AUTHENTICATION, *tried, why]


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no log")
def test_a_statement_that_fails_holds_no_prompt_for_the_log_of_the_database(ada: Api):
    give_budget(ada.user, daily_tokens=10, spent_tokens=10)

    with CaptureQueriesContext(connection) as captured:
        response = ada.post("nobody else's business")

    assert response.status_code == 429
    (failed,) = [query["sql"] for query in captured if "WITH job AS" in str(query["sql"])]
    assert "$1" in str(failed)
    assert "business" not in str(failed)


@pytest.mark.parametrize("status", ["queued", "running", "succeeded", "failed"])
def test_a_poll_is_authentication_and_one_select(ada: Api, status: str):
    job = job_in(status, user=ada.user)

    with recorded() as statements:
        response = ada.get(f"/reports/{job.pk}")

    assert response.status_code == 200
    assert statements == [AUTHENTICATION, f"SELECT {JOBS}"]


def test_a_poll_of_a_known_state_costs_the_same(ada: Api):
    job = job_in("running", user=ada.user)
    etag = ada.get(f"/reports/{job.pk}").headers["ETag"]

    with recorded() as statements:
        response = ada.get(f"/reports/{job.pk}", If_None_Match=etag)

    assert response.status_code == 304
    assert statements == [AUTHENTICATION, f"SELECT {JOBS}"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/reports/01890a5d-ac96-774b-bcce-b302099a8057", [AUTHENTICATION, f"SELECT {JOBS}"]),
        ("/reports/none", [AUTHENTICATION]),
        ("/reports", [AUTHENTICATION, f"SELECT {JOBS}"]),
        ("/budget", [AUTHENTICATION, f"SELECT {BUDGETS}"]),
    ],
)
def test_other_reads_are_one_select_at_most(ada: Api, path: str, expected: list[str]):
    job_in("succeeded", user=ada.user)

    with recorded() as statements:
        ada.get(path)

    assert statements == expected


def test_a_request_without_credentials_asks_nothing(ada: Api):
    with recorded() as statements:
        response = ada.request("POST", "/reports", headers={"Authorization": ""})

    assert response.status_code == 401
    assert statements == []


def test_a_refused_prompt_costs_its_authentication_only(ada: Api):
    with recorded() as statements:
        response = ada.post(" ")

    assert response.status_code == 400
    assert statements == [AUTHENTICATION]


@pytest.mark.parametrize(
    ("answer", "status"), [(Answer(), "succeeded"), (Answer(status=503), "failed")]
)
def test_a_run_is_a_claim_and_an_ending(ada: Api, provider: Provider, answer: Answer, status: str):
    provider.script(answer)
    job = job_in("queued", user=ada.user)

    with recorded() as statements:
        runner.run(job.pk)

    assert row(job)["status"] == status
    assert len(provider.calls) == 1
    ending = together(f"UPDATE {JOBS}", f"UPDATE {BUDGETS}")
    assert statements == [f"UPDATE {JOBS}", *ending]


@pytest.mark.parametrize("status", ["running", "succeeded", "failed"])
def test_a_message_that_comes_twice_is_one_statement_and_no_call(
    ada: Api, provider: Provider, status: str
):
    job = job_in(status, user=ada.user)

    with recorded() as statements:
        runner.run(job.pk)

    assert statements == [f"UPDATE {JOBS}"]
    assert provider.calls == []


def test_no_connection_is_held_while_the_provider_thinks(ada: Api, provider: Provider):
    job = job_in("queued", user=ada.user)
    provider.hold()
    connections.close_all()

    with ThreadPoolExecutor() as pool:
        run = begin(pool, lambda: runner.run(job.pk))
        provider.wait_for_calls(1)
        held = connections_held()
        provider.release()
        run.result(10)

    assert held == 0
    assert row(job)["status"] == "succeeded"


def together(*writes: str, undone_after: int = 0) -> list[str]:
    """Two writes, both or none: one statement on PostgreSQL, a transaction on SQLite."""
    if connection.vendor == "postgresql":
        return [" + ".join(writes)]
    if undone_after:
        return ["BEGIN", *writes[:undone_after], "ROLLBACK"]
    return ["BEGIN", *writes, "COMMIT"]


def connections_held() -> int:
    """How many connections of this process are in use: out of their pool, or an open file."""
    if connection.vendor == "sqlite":
        name = connection.settings_dict["NAME"]
        return sum(file.path == name for file in psutil.Process().open_files())
    statistics: dict[str, Any] = connection.pool.get_stats()  # type: ignore[attr-defined]
    return int(statistics["pool_size"] - statistics["pool_available"])
