"""The odd requests of `http_requests.json` on a raw socket, against a real web process."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from itertools import count, cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from budgets.models import InferenceBudget
from reports.models import ReportJob
from tests.support import raw_http
from tests.support.clients import Api
from tests.support.rows import job_in
from tests.support.threads import together
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from tests.support.processes import Process, Processes
    from tests.support.raw_http import Answer

pytestmark = [pytest.mark.system, pytest.mark.django_db(transaction=True)]
FILE = Path(__file__).parents[1] / "cases" / "http_requests.json"
ITEMS: dict[str, dict[str, Any]] = {item["id"]: item for item in json.loads(FILE.read_text())}
REPEAT = re.compile(rb"\$\{REPEAT:(.):(\d+)\}")
SAY_MORE = {"then", "repeat", "setup", "note", "behaviour"}
_keys = count(1)


@dataclass(frozen=True, slots=True)
class Scene:
    """A web process, two users and what the placeholders stand for."""

    web: Process
    address: str
    ada: Api
    bob: Api
    fillings: dict[str, str]

    def fill(self, raw: bytes) -> bytes:
        """Put the values in the place of the placeholders."""
        for name, value in self.fillings.items():
            raw = raw.replace(b"${%s}" % name.encode(), value.encode())
        return REPEAT.sub(lambda found: found[1] * int(found[2]), raw)

    def bytes_of(self, item: dict[str, Any]) -> bytes:
        """One item as it goes over the wire."""
        if "raw_base64" in item:
            return self.fill(base64.b64decode(item["raw_base64"]))
        return raw_http.request(
            item.get("method_override", item["method"]),
            self.fill(item["path"].encode()).decode(),
            [(name.encode(), self.fill(_raw(text))) for name, text in item["headers"]],
            self.fill(_body(item)),
            host=self.fillings["HOST"],
        )

    def send(self, item: dict[str, Any], **changes: Any) -> Answer:
        """Send one item, with these of its fields changed."""
        answer = raw_http.send(self.address, self.bytes_of(item | changes))
        assert_is_program_speech(answer)
        return answer

    def send_key(self, item: dict[str, Any], key: str) -> Answer:
        """Send one item under another key."""
        headers = [
            [name, key if name.lower() == "idempotency-key" else text]
            for name, text in item["headers"]
        ]
        return self.send(item, headers=headers)


def _raw(text: str | dict[str, str]) -> bytes:
    return base64.b64decode(text["base64"]) if isinstance(text, dict) else text.encode()


def _body(item: dict[str, Any]) -> bytes:
    if "body_base64" in item:
        return base64.b64decode(item["body_base64"])
    if "body_repeat" in item:
        parts = item["body_repeat"]
        text: str = parts["prefix"] + parts["unit"] * parts["times"] + parts["suffix"]
        return text.encode()
    return str(item["body"]).encode()


def assert_is_program_speech(answer: Answer) -> None:
    """No fault of ours, no page for people: JSON, or nothing where the server spoke for itself."""
    assert answer.status_code < 500, answer
    assert b"<html" not in answer.content.lower()
    if answer.content:
        kind = "application/problem+json" if answer.status_code >= 400 else "application/json"
        assert answer.headers["content-type"] == kind
        json.loads(answer.content)


def assert_books_balance(api: Api) -> None:
    """No reservation without a job, no job without its reservation."""
    jobs = ReportJob.objects.owned_by(api.user_id).filter(status__in=["queued", "running"])
    budget = InferenceBudget.objects.filter(user=api.user).first()
    reserved = sum(job.token_estimate for job in jobs)
    assert (budget.spent_tokens if budget else 0) == reserved
    assert (budget.active_jobs if budget else 0) == len(jobs)


def job_id(answer: Answer) -> str:
    """Of an accepted job."""
    assert answer.status_code == 202, answer
    return str(json.loads(answer.content)["job_id"])


def rows_of(scene: Scene) -> list[str]:
    """The ids of Ada's jobs beside the one that is there from the start."""
    jobs = ReportJob.objects.owned_by(scene.ada.user_id).exclude(pk=scene.fillings["JOB_A"])
    return [str(job.pk) for job in jobs]


@pytest.fixture(scope="module")
def web(shared: Processes) -> tuple[Process, str]:
    """One process with one thread: whoever takes its place is noticed."""
    address = shared.web(WEB_THREADS="1", WEB_CONCURRENCY="1")
    return shared.started[-1], address


@pytest.fixture
def scene(transactional_db: None, ada: Api, bob: Api, web: tuple[Process, str]) -> Scene:
    """Both users, and one who was deactivated."""
    process, address = web
    inactive = Api.of_new("inactive")
    inactive.user.is_active = False
    inactive.user.save()
    fillings = {
        "KEY": f"key-{next(_keys)}",
        "RUN": f"run-{next(_keys)}",
        "HOST": address.removeprefix("http://"),
        "TOKEN_A": ada.token,
        "TOKEN_B": bob.token,
        "TOKEN_INACTIVE": inactive.token,
        "SESSION_A": ada.browser().cookies["sessionid"].value,
        "JOB_A": str(job_in("queued", user=ada.user).pk),
    }
    return Scene(process, address, ada, bob, fillings)


def one_job(scene: Scene, item: dict[str, Any], answers: list[Answer]) -> None:
    """All that were accepted have the same job, and it is the only row."""
    accepted = {job_id(answer) for answer in answers if answer.status_code == 202}
    assert list(accepted) == rows_of(scene)


def the_first_stays(scene: Scene, item: dict[str, Any], answers: list[Answer]) -> None:
    """The job that was there before is the only one, unchanged."""
    [row] = ReportJob.objects.filter(pk__in=rows_of(scene))
    assert (row.status, row.prompt) == ("queued", "hello")


def no_job(scene: Scene, item: dict[str, Any], answers: list[Answer]) -> None:
    """Nothing was made."""
    assert rows_of(scene) == []


def same_again(scene: Scene, item: dict[str, Any], answers: list[Answer]) -> None:
    """The same request gets the same status and the same job."""
    again = scene.send(item)
    assert again.status_code == answers[0].status_code
    if again.status_code == 202:
        one_job(scene, item, [*answers, again])


def same_under_bare_key(scene: Scene, item: dict[str, Any], answers: list[Answer]) -> None:
    """Blanks around a key are no part of it."""
    one_job(scene, item, [*answers, scene.send_key(item, "${KEY}")])


def other_case_is_another_key(scene: Scene, item: dict[str, Any], answers: list[Answer]) -> None:
    """Two jobs."""
    other = scene.send_key(item, "aBC-${RUN}")
    assert {job_id(answers[0]), job_id(other)} == set(rows_of(scene))
    assert job_id(answers[0]) != job_id(other)


def shown_as_text(scene: Scene, item: dict[str, Any], answers: list[Answer]) -> None:
    """The page, the list and the admin show a prompt and never run it."""
    scene.ada.user.is_staff = scene.ada.user.is_superuser = True
    scene.ada.user.save()
    cookie = [["Cookie", "sessionid=${SESSION_A}"], ["Accept", "text/html"]]
    own = job_id(answers[0])
    for path in ("/", f"/jobs/{own}/", f"/admin/reports/reportjob/{own}/change/"):
        page = {"method": "GET", "path": path, "headers": cookie, "body": ""}
        answer = raw_http.send(scene.address, scene.bytes_of(page))
        assert answer.status_code == 200, answer
        assert b"<script>alert(1)" not in answer.content
        if not path.startswith("/admin/"):  # which shows texts only when it is asked to
            assert b"&lt;script&gt;alert(1)" in answer.content
            assert b"{{7*7}}" in answer.content


def no_trace(scene: Scene, item: dict[str, Any], answers: list[Answer]) -> None:
    """Whoever hung up left nothing, and no traceback; the next one is served."""
    one_job(scene, item, [scene.send(ITEMS["H036"])])
    assert "Traceback" not in scene.web.said()


def at_most_one_answer(scene: Scene, item: dict[str, Any], answers: list[Answer]) -> None:
    """What follows the request on the connection is not taken for another."""
    assert answers[0].how_many == 1


def own_jobs_only(scene: Scene, item: dict[str, Any], answers: list[Answer]) -> None:
    """The list."""
    listed = [job["job_id"] for job in json.loads(answers[0].content)["results"]]
    assert listed == [scene.fillings["JOB_A"]]


THEN: dict[str, Callable[[Scene, dict[str, Any], list[Answer]], None]] = {
    "H023": same_under_bare_key,
    "H027": same_again,
    "H035": other_case_is_another_key,
    "H036": same_again,
    "H037": the_first_stays,
    "H038": the_first_stays,
    "H040": one_job,
    "H042": one_job,
    "H093": shown_as_text,
    "H108": no_job,
    "H109": no_trace,
    "H111": at_most_one_answer,
    "H123": no_job,
    "G022": no_job,
    "G023": own_jobs_only,
}


def test_everything_that_an_item_asks_for_beyond_its_status_is_checked():
    assert {name for name, item in ITEMS.items() if SAY_MORE & item.keys()} == set(THEN)
    assert {item.get("behaviour") for item in ITEMS.values()} == {None, "abort"}
    setups = {item["setup"] for item in ITEMS.values() if "setup" in item}
    assert setups == {'first send {"prompt":"hello"} with the same key'}


@pytest.mark.parametrize("name", ITEMS)
def test_an_odd_request_is_answered_as_expected(scene: Scene, name: str):
    item = ITEMS[name]
    if "setup" in item:
        assert scene.send(item, body='{"prompt":"hello"}').status_code == 202

    answers = ask(scene, item)

    statuses = {answer.status_code for answer in answers}
    assert statuses <= set(item["expect_status"]), (statuses, answers)
    if name in THEN:
        THEN[name](scene, item, answers)
    if 202 not in statuses and "setup" not in item and name != "H109":
        assert rows_of(scene) == []
    assert_books_balance(scene.ada)
    assert_books_balance(scene.bob)


def ask(scene: Scene, item: dict[str, Any]) -> list[Answer]:
    """Send an item as it wants to be sent: once, many times at once, in variants, or in part."""
    if item.get("behaviour") == "abort":
        with raw_http.connect(scene.address) as connection:
            connection.sendall(scene.bytes_of(item))
        return []
    if "parallel" in item:
        bodies = cycle([item["body"], item.get("alternate_body", item["body"])])
        copies = [body for body, _ in zip(bodies, range(item["parallel"]), strict=False)]
        told = together(lambda body: scene.send(item, body=body), copies)
        assert [problem for problem in told if isinstance(problem, Exception)] == []
        return [answer for answer in told if not isinstance(answer, Exception)]
    variants = [{"method": method} for method in item.get("variants_method", [])]
    return [scene.send(item, **changes) for changes in [{}, *variants]]


def test_parallel_copies_are_one_message(scene: Scene, broker: redis.Redis):
    answers = ask(scene, ITEMS["H040"])

    assert len(answers) == 20
    one_job(scene, ITEMS["H040"], answers)
    until(lambda: broker.llen("jobs"), lambda length: length == 1)


def test_what_is_not_yours_does_not_exist_byte_for_byte(scene: Scene):
    foreign, unknown = scene.send(ITEMS["G002"]), scene.send(ITEMS["G003"])
    malformed = [scene.send(ITEMS[name]) for name in ("G009", "G010", "G016", "G020")]

    assert foreign.status_code == 404
    assert {answer.steady for answer in (foreign, unknown, *malformed)} == {foreign.steady}


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json; charset*=utf-8''utf-8", 202),
        ("application/json; charset*=utf-8'en'utf-8", 202),
        ("application/json; charset*=bogus-8''utf-8", 415),
        ("application/json; charset*=utf-16''utf-16", 202),
        ("application/json; charset*=iso-8859-1''iso-8859-1", 202),
        ("application/json; charset*0=utf-; charset*1=8", 202),
        ("application/json; charset*=utf-8''%FF%FE", 202),
        ("application/json; charset*=''", 202),
        ("application/json; charset*=%", 202),
    ],
)
def test_an_extended_charset_breaks_nothing(scene: Scene, content_type: str, status: int):
    """RFC 2231's way to write a parameter; where it is no charset at all, JSON is UTF-8."""
    headers = [
        [name, content_type if name == "Content-Type" else text]
        for name, text in ITEMS["H036"]["headers"]
    ]

    assert scene.send(ITEMS["H036"], headers=headers).status_code == status


@pytest.mark.parametrize("size", [128 * 1024 + 1, 1024 * 1024])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_over_the_limit_is_too_large(scene: Scene, size: int, *, is_chunked: bool):
    body = b'{"prompt":"' + b"x" * (size - 13) + b'"}'
    headers = list(ITEMS["H036"]["headers"])
    sent = body
    if is_chunked:
        headers.append(["Transfer-Encoding", "chunked"])
        sent = raw_http.chunked(body)

    answer = scene.send(ITEMS["H036"], headers=headers, body=sent.decode())

    assert answer.status_code == 413
    assert json.loads(answer.content)["error"] == "too_large"
    assert rows_of(scene) == []
    assert_books_balance(scene.ada)


def test_clients_that_send_byte_by_byte_take_nobodys_place(scene: Scene):
    whole = scene.bytes_of(ITEMS["H036"])
    head, _, body = whole.partition(b"\r\n\r\n")
    slow = [raw_http.connect(scene.address) for _ in range(60)]
    for connection in slow:
        connection.sendall(head + b"\r\n\r\n" + body[:1])

    for at in range(1, 6):
        for connection in slow:
            connection.sendall(body[at : at + 1])
        assert scene.send_key(ITEMS["H036"], f"quick-{at}").status_code == 202
    slow[0].sendall(body[6:])
    answered = raw_http.read(slow[0])
    for connection in slow:
        connection.close()

    assert answered.status_code == 202
    assert len(rows_of(scene)) == 6
    assert_books_balance(scene.ada)
    assert "Traceback" not in scene.web.said()


def test_without_a_database_every_request_is_unavailable(scene: Scene, shared: Processes):
    address = shared.web(DATABASE_URL="postgres://nobody@127.0.0.1:1/none")

    for name in ("H036", "G001"):
        answer = raw_http.send(address, scene.bytes_of(ITEMS[name]))
        assert answer.status_code == 503
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["retry-after"] == "2"
        assert json.loads(answer.content)["error"] == "unavailable"
