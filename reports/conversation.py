"""What a model is asked where one prompt does not say it all: messages, as OpenAI's clients send.

Values alone: the row keeps one as JSON, the seam to the provider turns it into what goes out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

BETWEEN = "\n\n"
USER = "user"
ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """One message: `role` is user, assistant, system or developer."""

    role: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A request that was made in messages.

    `instructions` None: those that the service is set up with; `max_output_tokens` None: its limit.
    """

    messages: tuple[Message, ...] = field(repr=False)
    instructions: str | None = field(default=None, repr=False)
    max_output_tokens: int | None = None
    model: str = ""

    @classmethod
    def of(cls, kept: dict[str, Any] | None) -> Conversation | None:
        """The one that a row keeps. None: it was asked by a prompt alone, or its texts are gone."""
        if not kept:
            return None
        return cls(
            messages=tuple(Message(said["role"], said["text"]) for said in kept["input"]),
            instructions=kept["instructions"],
            max_output_tokens=kept["max_output_tokens"],
            model=kept["model"],
        )

    def kept(self) -> dict[str, Any]:
        """As a row keeps it; `characters` are for sums in the database."""
        return {
            "input": [{"role": said.role, "text": said.text} for said in self.messages],
            "instructions": self.instructions,
            "max_output_tokens": self.max_output_tokens,
            "model": self.model,
            "characters": len(self.text),
        }

    @property
    def prompt(self) -> str:
        """What its user said."""
        return BETWEEN.join(said.text for said in self.messages if said.role == USER)

    @property
    def text(self) -> str:
        """All of its texts, in order."""
        texts = [said.text for said in self.messages]
        return BETWEEN.join(texts if self.instructions is None else [self.instructions, *texts])

    @property
    def recital(self) -> str:
        """The same for people: who said what."""
        told = [f"{said.role}: {said.text}" for said in self.messages]
        if self.instructions is not None:
            told.insert(0, f"instructions: {self.instructions}")
        return BETWEEN.join(told)

    @property
    def identity(self) -> str:
        """What tells it from another under the same key, and from every prompt: they hold no NUL.

        The name of the model is the service's own choice, and may change before a retry.
        """
        kept = self.kept()
        told = [kept["input"], self.instructions, self.max_output_tokens]
        return "\0" + json.dumps(told, ensure_ascii=False, sort_keys=True)
