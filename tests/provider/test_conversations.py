"""What was asked in messages, as each protocol sends it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from reports.conversation import Conversation, Message
from reports.provider import complete
from reports.provider.protocols import PROTOCOLS
from tests.provider.asking import CONFIG
from tests.support.provider import Answer, Provider

SAID = (
    Message("developer", "no rhymes"),
    Message("user", "why?"),
    Message("assistant", "because"),
    Message("system", "now rhyme"),
    Message("user", "why that?"),
)
ASKED = Conversation(messages=SAID)
LIMITED = dataclasses.replace(CONFIG, system_prompt="be kind", max_output_tokens=64)


def build(protocol: str, asked: Conversation = ASKED, **changes: Any) -> dict[str, Any]:
    """The body that goes out."""
    return PROTOCOLS[protocol].build(asked, dataclasses.replace(LIMITED, **changes))


def test_chat_has_one_system_message_in_front_and_the_others_where_they_were():
    assert build("openai")["messages"] == [
        {"role": "system", "content": "be kind\n\nno rhymes"},
        {"role": "user", "content": "why?"},
        {"role": "assistant", "content": "because"},
        {"role": "system", "content": "now rhyme"},
        {"role": "user", "content": "why that?"},
    ]


def test_messages_has_what_the_system_says_apart():
    body = build("anthropic")

    assert body["system"] == "be kind\n\nno rhymes\n\nnow rhyme"
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


def test_a_bare_prompt_is_all_texts_in_order():
    asked = dataclasses.replace(ASKED, instructions="be brief")

    texts = ["be brief", "no rhymes", "why?", "because", "now rhyme", "why that?"]
    assert build("prompt", asked) == {"prompt": "\n\n".join(texts)}


@pytest.mark.parametrize(("instructions", "sent"), [(None, "be kind"), ("be rude", "be rude")])
def test_instructions_stand_in_the_place_of_the_configured_ones(
    instructions: str | None, sent: str
):
    asked = Conversation(messages=(Message("user", "why?"),), instructions=instructions)

    assert build("openai", asked)["messages"][0] == {"role": "system", "content": sent}
    assert build("anthropic", asked)["system"] == sent


def test_empty_instructions_are_none():
    asked = Conversation(messages=(Message("user", "why?"),), instructions="")

    assert build("openai", asked)["messages"] == [{"role": "user", "content": "why?"}]
    assert "system" not in build("anthropic", asked)


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("wished", "configured", "sent"), [(None, 64, 64), (16, 64, 16), (65, 64, 64), (16, 0, 16)]
)
def test_a_limit_of_its_own_is_sent_and_never_one_above_the_configured(
    protocol: str, wished: int | None, configured: int, sent: int
):
    asked = dataclasses.replace(ASKED, max_output_tokens=wished)

    assert build(protocol, asked, max_output_tokens=configured)["max_tokens"] == sent


def test_what_goes_out_is_the_conversation_and_not_the_prompt():
    with Provider(Answer.of({"choices": [{"message": {"content": "hello"}}]})) as provider:
        config = dataclasses.replace(CONFIG, protocol="openai", url=provider.url)
        complete("the page's words", job_id="job-1", config=config, asked=ASKED)
        (call,) = provider.calls

    assert [message["content"] for message in call.json["messages"]] == [said.text for said in SAID]


def test_no_text_of_a_conversation_comes_back_in_a_failure():
    secret = "a secret of more than twenty-four characters"
    asked = Conversation(messages=(Message("system", secret), Message("user", "why?")))
    with Provider(Answer.of({"error": {"message": f"bad: {secret}"}}, status=400)) as provider:
        config = dataclasses.replace(CONFIG, protocol="openai", url=provider.url)
        outcome = complete("why?", job_id="job-1", config=config, asked=asked)

    assert secret not in getattr(outcome, "detail", secret)


def test_no_text_is_in_what_python_shows_of_it():
    asked = dataclasses.replace(ASKED, instructions="be brief")

    assert not {"rhyme", "why", "brief"} & set(repr(asked).split())
    assert "why" not in repr(SAID[1])


def test_a_conversation_is_read_as_it_was_kept():
    asked = dataclasses.replace(ASKED, instructions="i", max_output_tokens=3, model="m")

    assert Conversation.of(asked.kept()) == asked
    assert Conversation.of({}) is Conversation.of(None) is None
