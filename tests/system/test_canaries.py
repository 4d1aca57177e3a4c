"""A canary hunt: whatever users and operators entrust to the product is told nowhere else.

Real processes at LOG_LEVEL=DEBUG accept, run, fail, crash and refuse; then everything that they
wrote is searched.
"""

from __future__ import annotations

import base64
import binascii
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
import redis
import requests

from access.models import Token
from tests.support import collector as collectors
from tests.support.provider import Answer
from tests.support.waiting import until
from tests.system.parts import SOON_S, Caller
from tools import valkey

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tests.support.clients import Api
    from tests.support.collector import Collector
    from tests.support.processes import Process, Processes
    from tests.support.provider import Provider

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]
PROMPT = "canary-prompt"
INSTRUCTIONS = "canary-instructions"
ANSWER = "canary-answer"
KEY = "canary-idempotency-key"
PASSWORD = "canary-password"
SECRETS = {
    "INFERENCE_KEY": "canary-inference-key",
    "SECRET_KEY": "canary-secret-key-" + "x" * 50,
}
URL_KEY = "canary-url-key"
# The seam breaks with everything in its message, as a bug there would.
BROKEN_WORKER = """
from reports import provider
def complete(prompt, **how):
    raise ValueError(f"{prompt} {how}")
provider.complete = complete
from reports_project.celery import app
app.worker_main("worker --pool threads --concurrency 1 --queues jobs".split())
"""
BROKEN_WEB = """
from reports_project.asgi import application
from reports import acceptance
def accept(user_id, **how):
    raise ValueError(f"{user_id} {how}")
acceptance.accept = accept
"""
BASE64 = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")


def broken_web(crew: Processes) -> tuple[Process, str]:
    """A web process whose accept breaks, not waited for; and its address."""
    (crew.directory / "broken_web.py").write_text(BROKEN_WEB)
    port = str(valkey.free_port())
    words = ["granian", "broken_web:application", "--interface", "asginl", "--port", port]
    process = crew.run("broken-web", ["python", "-m", *words], PYTHONPATH=str(crew.directory))
    return process, f"http://127.0.0.1:{port}"


@pytest.fixture
def collector() -> Generator[Collector]:
    """Where the processes send their spans."""
    with collectors.running() as taking:
        yield taking


def is_up(address: str) -> bool:
    """Whether a web process answers there."""
    try:
        return requests.get(f"{address}/healthz", timeout=2).ok
    except requests.RequestException:
        return False


def sign_in(address: str, username: str) -> requests.Response:
    """The form of the page, with the password."""
    session = requests.Session()
    page = session.get(f"{address}/login/", timeout=SOON_S)
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
    assert found is not None
    form = {"csrfmiddlewaretoken": found[1], "username": username, "password": PASSWORD}
    headers = {"Referer": address}
    return session.post(f"{address}/login/", form, headers=headers, timeout=SOON_S)


def refusals(caller: Caller) -> Iterator[requests.Response]:
    """Requests that are answered with an error, all of which carry something."""
    yield caller.post(f"{PROMPT} another", key=KEY)
    yield caller.post(f"{PROMPT}\x00", key="one")
    yield caller.post(PROMPT, key=f"{KEY}\u00e9")
    yield caller.ask(
        "POST", "/reports", data=f'{{"prompt": "{PROMPT}', headers={"Idempotency-Key": KEY}
    )
    yield caller.ask("GET", f"/reports/{PROMPT}?prompt={PROMPT}")
    yield caller.ask("GET", f"/{PROMPT}")
    yield caller.ask("BREW", f"/reports?status={PROMPT}")
    yield Caller(caller.address, "canary-token").post(PROMPT)
    yield response_to(caller, tools=[PROMPT])
    yield response_to(caller, model=PROMPT)
    yield response_to(caller, input=[{"role": PROMPT, "content": PROMPT}])
    yield response_to(caller, input=[{"type": PROMPT}])
    yield response_to(caller, metadata={"name": [PROMPT]})


def response_to(caller: Caller, **members: object) -> requests.Response:
    """POST /v1/responses, with something in every text."""
    body = {"input": PROMPT, "instructions": INSTRUCTIONS, "background": True, **members}
    return caller.ask("POST", "/v1/responses", json=body, headers={"Idempotency-Key": f"{KEY}-v1"})


def kept_by(broker: redis.Redis) -> str:
    """Every key and value of the broker."""
    texts: list[Any] = []
    for key in broker.scan_iter():
        match broker.type(key):
            case b"string":
                value: Any = broker.get(key)
            case b"list":
                value = broker.lrange(key, 0, -1)
            case b"hash":
                value = broker.hgetall(key)
            case b"set":
                value = broker.smembers(key)
            case b"zset":
                value = broker.zrange(key, 0, -1)
            case other:
                raise AssertionError(other)
        texts += [key, value]
    return repr(texts)


def unveiled(text: str) -> str:
    """The text, and what Base64 hides in it."""
    hidden = []
    for piece in BASE64.findall(text):
        with suppress(binascii.Error):
            hidden.append(base64.b64decode(piece + "=" * (-len(piece) % 4)).decode("latin-1"))
    return "\n".join([text, *hidden])


def test_what_is_entrusted_to_the_product_is_told_nowhere(
    crew: Processes,
    stand_in: Provider,
    ada: Api,
    own_broker: valkey.Valkey,
    collector: Collector,
):
    ada.user.set_password(PASSWORD)
    ada.user.save()
    url = f"{stand_in.url}?key={URL_KEY}"
    crew.environment |= {**SECRETS, "INFERENCE_URL": url, "REDIS_URL": own_broker.url}
    crew.environment |= {"LOG_LEVEL": "DEBUG", "LOG_FORMAT": "json"}
    crew.environment |= {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    broker = redis.Redis.from_url(own_broker.url)
    crew.start("beat")
    broken_process, broken_address = broken_web(crew)
    address = crew.web()
    caller = Caller(address, ada.token)
    echo = f'{{"error": {{"message": "{PROMPT} {SECRETS["INFERENCE_KEY"]} {url}"}}}}'.encode()
    stand_in.script(
        Answer.of({"text": ANSWER}),
        Answer(echo, status=500),
        Answer(echo, status=400),
        Answer(echo),
    )

    job_ids = [caller.post(PROMPT, key=KEY).json()["job_id"]]
    job_ids += [caller.post(PROMPT, key=f"{KEY}-{n}").json()["job_id"] for n in range(3)]
    until(lambda: broker.llen("jobs"), lambda length: length == 4, within_s=SOON_S)
    waiting = kept_by(broker)
    worker = crew.worker()
    ends = [caller.ended(job_id)["status"] for job_id in job_ids]
    bodies = [answer.text for answer in refusals(caller)]
    signed_in = [sign_in(address, name) for name in ("nobody", "ada")]
    crew.wait(broken_process, lambda: is_up(broken_address))
    crash = Caller(broken_address, ada.token).post(PROMPT, key=f"{KEY}-crash")
    crash_of_response = response_to(Caller(broken_address, ada.token))
    assert worker.terminate() == 0
    broken_worker = crew.run("broken-worker", ["python", "-c", BROKEN_WORKER])
    crew.wait(broken_worker, lambda: " ready." in broken_worker.said())
    broken = caller.ended(caller.post(PROMPT, key=f"{KEY}-broken").json()["job_id"])
    response_id = response_to(caller).json()["id"]
    broken_response = caller.ended(str(UUID(response_id.removeprefix("resp_"))))
    trace = until(lambda: collector.of(UUID(job_ids[0])), lambda spans: len(spans) == 4)
    metrics = requests.get(f"{address}/metrics", timeout=SOON_S).text

    assert sorted(ends) == ["failed", "failed", "failed", "succeeded"]
    assert caller_text(stand_in) == [PROMPT] * 4
    assert broken["error_code"] == "internal_error"
    assert broken_response["error_code"] == "internal_error"
    assert (crash.status_code, crash_of_response.status_code) == (500, 500)
    assert [answer.status_code for answer in signed_in] == [200, 200]
    assert "ValueError" in broken_worker.said()
    assert "ValueError" in broken_process.said()
    said = {process.log.name: process.said() for process in crew.started}
    told = {**said, "metrics": metrics, "broker": waiting + kept_by(broker)}
    told |= {
        f"answer {number}": body
        for number, body in enumerate([*bodies, crash.text, crash_of_response.text])
    }
    told["tokens"] = repr(list(Token.objects.values()))
    # The worker has ended, and what it counted is told by the web process.
    assert 'reports_provider_seconds_count{outcome="succeeded"} 1.0' in metrics
    assert 'reports_ends_total{code="",status="succeeded"} 1.0' in metrics
    told["traces"] = b"".join(collector.raw).decode("latin-1")
    assert job_ids[0] in unveiled(waiting)
    roles = {name: span.role for name, span in trace.items()}
    assert roles == {"accept": "web", "publish": "web", "claim": "worker", "call": "worker"}
    canaries = ("canary", ada.token, ada.token[8:24])
    texts = {name: unveiled(text) for name, text in told.items()}
    assert [
        (name, canary) for name, text in texts.items() for canary in canaries if canary in text
    ] == []


def caller_text(stand_in: Provider) -> list[str]:
    """The prompts that the provider got."""
    return [call.json["prompt"] for call in stand_in.calls]
