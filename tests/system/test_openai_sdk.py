"""OpenAI's own SDK, unmodified, as a client of the running product."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import openai
import pytest
import requests

from reports.models import ReportJob
from tests.support.provider import Answer
from tests.support.rows import give_budget
from tests.support.waiting import until
from tests.system.parts import SOON_S

if TYPE_CHECKING:
    from collections.abc import Generator

    from openai.types.responses import Response

    from tests.support.clients import Api
    from tests.support.processes import Processes
    from tests.support.provider import Provider

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(120),
    pytest.mark.django_db(transaction=True),
]
CHAT = {"INFERENCE_PROTOCOL": "openai", "INFERENCE_MODEL": "small"}
COUNTED = {"prompt_tokens": 5, "completion_tokens": 7}
ENDED = {"completed", "incomplete", "failed", "cancelled"}


class Cutting(ThreadingHTTPServer):
    """A way to the product that loses the first answers: each was given, and nobody read it."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), Passing)
        self.upstream = upstream
        self.cuts = 0
        self.seen: list[str] = []  # method and path of each request
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class Passing(BaseHTTPRequestHandler):
    """One request, passed on."""

    server: Cutting
    protocol_version = "HTTP/1.1"

    def pass_on(self) -> None:
        """Ask upstream, then answer or hang up."""
        self.server.seen.append(f"{self.command} {self.path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        named = {n: v for n, v in self.headers.items() if n.lower() not in {"host", "connection"}}
        answer = requests.request(
            self.command,
            self.server.upstream + self.path,
            data=body,
            headers=named,
            timeout=SOON_S,
        )
        self.close_connection = True
        if self.server.cuts > 0:
            self.server.cuts -= 1
            return
        self.send_response(answer.status_code)
        for name, value in answer.headers.items():
            if name.lower() not in {"content-length", "connection", "server", "date"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    do_GET = do_POST = do_DELETE = pass_on  # noqa: N815  # the names that http.server calls

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(shared: Processes) -> str:
    """The product, with a worker."""
    shared.worker(**CHAT)
    return shared.web(**CHAT)


@pytest.fixture
def way(address: str) -> Generator[Cutting]:
    """A way to it that can lose answers, and counts requests."""
    with Cutting(address) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def client(address: str, ada: Api, stand_in: Provider) -> Generator[openai.OpenAI]:
    """The stock client, set up as anybody would."""
    stand_in.script(said("It is so."))
    with openai.OpenAI(api_key=ada.token, base_url=f"{address}/v1") as made:
        yield made


def said(text: str, reason: str = "stop") -> Answer:
    """A chat server's answer."""
    choice = {"message": {"content": text}, "finish_reason": reason}
    return Answer.of({"choices": [choice], "usage": COUNTED})


def ended(client: openai.OpenAI, response: Response) -> Response:
    """The response once it has ended, polled as OpenAI's documentation shows it."""
    return until(
        lambda: client.responses.retrieve(response.id),
        lambda seen: seen.status in ENDED,
        within_s=SOON_S,
    )


def test_a_response_is_created_polled_and_completed(client: openai.OpenAI, stand_in: Provider):
    created = client.responses.create(
        model="small",
        input=[
            {"role": "developer", "content": "no rhymes"},
            {"role": "user", "content": [{"type": "input_text", "text": "why?"}]},
        ],
        instructions="be kind",
        max_output_tokens=64,
        metadata={"order": "17"},
        background=True,
    )
    completed = ended(client, created)

    assert (created.object, created.status, created.background) == ("response", "queued", True)
    assert (completed.status, completed.output_text) == ("completed", "It is so.")
    assert completed.metadata == {"order": "17"}
    assert completed.usage is not None
    assert completed.usage.total_tokens == 12
    (call,) = stand_in.calls
    assert call.json["model"] == "small"
    assert call.json["max_tokens"] == 64
    assert call.json["messages"] == [
        {"role": "system", "content": "be kind\n\nno rhymes"},
        {"role": "user", "content": "why?"},
    ]


def test_what_a_model_said_goes_into_the_next_request(client: openai.OpenAI, stand_in: Provider):
    first = ended(client, client.responses.create(input="why?", background=True))

    talk: list[Any] = [{"role": "user", "content": "why?"}]
    talk += [item.model_dump() for item in first.output]
    talk += [{"role": "user", "content": "and that?"}]
    ended(client, client.responses.create(input=talk, background=True))

    assert [message["content"] for message in stand_in.calls[-1].json["messages"]] == [
        *("why?", "It is so.", "and that?")
    ]


def test_a_text_that_was_cut_is_incomplete_and_a_failure_says_why(
    client: openai.OpenAI, stand_in: Provider
):
    stand_in.script(said("It is", reason="length"), Answer(status=503))

    cut = ended(client, client.responses.create(input="why?", background=True))
    failed = ended(client, client.responses.create(input="why?", background=True))

    assert (cut.status, cut.output_text) == ("incomplete", "It is")
    assert cut.incomplete_details is not None
    assert cut.incomplete_details.reason == "max_output_tokens"
    assert failed.error is not None
    assert (failed.status, failed.error.code) == ("failed", "server_error")
    assert "503" in failed.error.message


def test_a_response_is_cancelled_and_stays_so(client: openai.OpenAI, stand_in: Provider):
    stand_in.hold()
    created = client.responses.create(input="why?", background=True)
    stand_in.wait_for_calls(1)

    cancelled = client.responses.cancel(created.id)

    assert cancelled.status == "cancelled"
    stand_in.release()
    assert client.responses.cancel(created.id).status == "cancelled"
    assert client.responses.retrieve(created.id).output == []


def test_a_deleted_response_is_not_found(client: openai.OpenAI):
    created = ended(client, client.responses.create(input="why?", background=True))

    client.responses.delete(created.id)

    with pytest.raises(openai.NotFoundError) as refused:
        client.responses.retrieve(created.id)
    assert refused.value.code == "not_found"


def test_the_input_is_listed_over_pages(client: openai.OpenAI):
    texts = ["one", "two", "three"]
    talk: list[Any] = [{"role": "user", "content": text} for text in texts]
    created = client.responses.create(input=talk, background=True)

    items = list(client.responses.input_items.list(created.id, limit=2, order="asc"))

    ended(client, created)
    assert [item.content[0].text for item in items] == texts  # type: ignore[union-attr, index]


def test_the_one_model_is_listed_and_found(client: openai.OpenAI):
    (model,) = client.models.list()

    assert (model.id, client.models.retrieve("small")) == ("small", model)
    with pytest.raises(openai.NotFoundError) as refused:
        client.models.retrieve("gpt-6-astra")
    assert refused.value.code == "model_not_found"


def test_each_refusal_is_raised_as_its_class_and_no_refusal_is_tried_again(
    client: openai.OpenAI, way: Cutting, ada: Api
):
    asking = client.with_options(base_url=way.url, max_retries=2)
    done = ended(client, client.responses.create(input="why?", background=True))
    key = {"Idempotency-Key": "key-1"}
    ended(client, client.responses.create(input="why?", background=True, extra_headers=key))

    with pytest.raises(openai.BadRequestError) as waits:
        asking.responses.create(input="why?")
    with pytest.raises(openai.BadRequestError) as tools:
        asking.responses.create(input="why?", background=True, temperature=0.2)
    with pytest.raises(openai.NotFoundError) as model:
        asking.responses.create(input="why?", background=True, model="gpt-6-astra")
    with pytest.raises(openai.AuthenticationError) as token:
        asking.with_options(api_key="sk-wrong").models.list()
    with pytest.raises(openai.ConflictError) as late:
        asking.responses.cancel(done.id)
    with pytest.raises(openai.UnprocessableEntityError) as reused:
        asking.responses.create(input="why not?", background=True, extra_headers=key)
    give_budget(ada.user, daily_tokens=2000, spent_tokens=2000)
    with pytest.raises(openai.RateLimitError) as spent:
        asking.responses.create(input="why?", background=True)

    refused = [waits, tools, model, token, late, reused, spent]
    assert [found.value.code for found in refused] == [
        *("unsupported_parameter", "unsupported_parameter", "model_not_found", "invalid_api_key"),
        *("job_finished", "idempotency_key_reused", "budget_exhausted"),
    ]
    assert [found.value.param for found in refused[:3]] == ["background", "temperature", "model"]
    assert spent.value.type == "insufficient_quota"
    assert len(way.seen) == len(refused)


def test_a_retry_of_the_sdk_with_a_key_is_no_second_call(
    client: openai.OpenAI, way: Cutting, stand_in: Provider
):
    way.cuts = 2

    created = client.with_options(base_url=way.url, max_retries=2).responses.create(
        input="why?", background=True, extra_headers={"Idempotency-Key": "order-17"}
    )

    assert way.seen == ["POST /v1/responses"] * 3
    assert ended(client, created).output_text == "It is so."
    assert ReportJob.objects.get().idempotency_key == "order-17"
    assert len(stand_in.calls) == 1


def test_a_retry_without_a_key_is_another_request_whose_key_is_told(
    client: openai.OpenAI, way: Cutting
):
    way.cuts = 1

    answer = client.with_options(base_url=way.url).responses.with_raw_response.create(
        input="why?", background=True
    )

    keys = set(ReportJob.objects.values_list("idempotency_key", flat=True))
    assert len(keys) == 2
    assert answer.headers["Idempotency-Key"] in keys
    for job in ReportJob.objects.all():
        ended(client, client.responses.retrieve(f"resp_{job.pk.hex}"))
