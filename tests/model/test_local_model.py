"""One job through a real language model: nothing in this path is ours to make up."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import openai
import pytest
import requests
from django.contrib.auth import get_user_model

from access.models import Token
from budgets.models import InferenceBudget
from tests.support.waiting import until
from tools import local_model, valkey

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.processes import Processes

pytestmark = [
    pytest.mark.model,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not local_model.is_installed(), reason="run `make model` first"),
]
LIMIT = 24
ENDS = {"response.completed", "response.incomplete"}


@pytest.fixture
def model(processes: Processes, tmp_path: Path) -> dict[str, str]:
    """The real server of `MODEL=local make up`, as the variables that lead to it."""
    port = str(valkey.free_port())
    weights = tmp_path / "model.gguf"
    server = processes.run(
        "model",
        [sys.executable, "-m", "tools.local_model", "--port", port, "--weights", str(weights)],
    )
    processes.wait(server, lambda: f"serving {local_model.NAME}" in server.said())
    return {
        "INFERENCE_URL": f"http://127.0.0.1:{port}/v1/chat/completions",
        "INFERENCE_MODEL": local_model.NAME,
        "INFERENCE_MAX_OUTPUT_TOKENS": str(LIMIT),
        # What is asked is whether it answers, not how fast on a busy machine.
        "INFERENCE_TIMEOUT_S": "200",
    }


def test_a_job_carries_what_the_model_said(processes: Processes, model: dict[str, str]):
    user = get_user_model().objects.create_user("ada")
    token = Token.objects.create(user=user)[1]
    address = processes.web(**model)
    processes.worker(**model)
    client = requests.Session()
    client.headers["Authorization"] = f"Bearer {token}"

    accepted = client.post(
        f"{address}/reports",
        json={"prompt": "The three primary colours are red,"},
        headers={"Idempotency-Key": "real-1"},
    )
    assert accepted.status_code == 202
    path = accepted.headers["Location"]
    job = until(
        lambda: client.get(f"{address}{path}").json(),
        lambda job: job["status"] in {"succeeded", "failed"},
        within_s=220,
    )

    assert (job["status"], job["http_status"]) == ("succeeded", 200)
    assert job["text"].strip()
    assert job["finish_reason"] in {"stop", "length"}
    assert 0 < job["usage"]["completion_tokens"] <= LIMIT
    assert job["usage"]["prompt_tokens"] > 0
    assert InferenceBudget.objects.get(user=user).spent_tokens == sum(job["usage"].values())


def test_the_openai_sdk_gets_what_the_model_said(processes: Processes, model: dict[str, str]):
    user = get_user_model().objects.create_user("ada")
    token = Token.objects.create(user=user)[1]
    port = str(valkey.free_port())
    processes.events(EVENTS_PORT=port, **model)
    address = processes.web(EVENTS_PORT=port, **model)
    processes.worker(**model)

    with openai.OpenAI(api_key=token, base_url=f"{address}/v1") as client:
        created = client.responses.create(
            model=client.models.list().data[0].id,
            instructions="Go on with the list.",
            input=[{"role": "user", "content": "The three primary colours are red,"}],
            max_output_tokens=LIMIT // 2,
            background=True,
        )
        # Its connection is lost after each event, and it goes on behind it.
        seen: list[Any] = []
        while not seen or seen[-1].type not in ENDS:
            behind: Any = {"starting_after": seen[-1].sequence_number} if seen else {}
            with client.responses.retrieve(created.id, stream=True, **behind) as stream:
                seen.append(next(iter(stream)))
        response = client.responses.retrieve(created.id)

    parts = [event.delta for event in seen if event.type == "response.output_text.delta"]
    assert "".join(parts) == response.output_text
    assert response.status in {"completed", "incomplete"}
    assert response.output_text.strip()
    assert response.usage is not None
    assert 0 < response.usage.output_tokens <= LIMIT // 2
    assert InferenceBudget.objects.get(user=user).spent_tokens == response.usage.total_tokens
