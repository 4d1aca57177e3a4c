"""The load: clients that POST, double, cancel and look, and remember every answer they got."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import requests

if TYPE_CHECKING:
    from collections.abc import Sequence

CLIENTS = 8
ANSWER_S = 8.0
PAUSE_S = 0.3
LISTENED_S = 2.0
RANKS = {"queued": 0, "running": 1, "succeeded": 2, "failed": 2}
SECRET_WORD = "prompt-that-no-log-may-know"  # noqa: S105  # looked for in logs, and no password
TERMINAL = {"succeeded", "failed"}
# What prompts ask the rehearsal provider for, in per mille; the rest is answered at once.
WISHES = {
    "slow:0.4": 100,
    "slow:1.5": 60,
    "503": 50,
    "429": 20,
    "reset": 20,
    "junk": 20,
    "empty": 10,
    "drip": 8,
    "hang": 12,
}


@dataclass(frozen=True, slots=True)
class Order:
    """One thing that a user wants once: sent as often as it takes to get an answer."""

    user: int
    key: str
    prompt: str


@dataclass(slots=True)
class Answers:
    """What the clients were told; the product is held to it."""

    jobs: dict[tuple[int, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    refused: set[tuple[int, str]] = field(default_factory=set)
    ended: dict[str, dict[str, Any]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    unexpected: list[str] = field(default_factory=list)
    recent: list[tuple[int, str]] = field(default_factory=list)


class Load:
    """Clients on threads of their own, from `start` until `stop`."""

    def __init__(self, addresses: Sequence[str], tokens: Sequence[str], seed: int) -> None:
        self.answers = Answers()
        self._addresses = addresses
        self._tokens = tokens
        self._lock = threading.Lock()
        self._orders: list[Order] = []
        self._is_over = threading.Event()
        self._give_up_at = float("inf")
        self._clients = [
            threading.Thread(target=self._work, args=(random.Random(f"{seed}-{number}"),))  # noqa: S311  # a seed must repeat it
            for number in range(CLIENTS)
        ]

    def start(self) -> None:
        """Begin."""
        for client in self._clients:
            client.start()

    def stop(self, *, within_s: float) -> None:
        """Order nothing more; return once every order under way has its answer."""
        self._give_up_at = time.monotonic() + within_s
        self._is_over.set()
        for client in self._clients:
            client.join()

    @property
    def accepted(self) -> int:
        """How many jobs there are by the clients' count."""
        with self._lock:
            return len(self.answers.jobs)

    def some_jobs(self, most: int) -> list[str]:
        """Ids of jobs accepted lately."""
        with self._lock:
            return [job_id for _, job_id in self.answers.recent[-most:]]

    def _work(self, dice: random.Random) -> None:
        with requests.Session() as session:
            while not self._is_over.is_set():
                action = dice.choices(
                    (
                        *(self._order, self._double, self._again, self._reuse),
                        *(self._cancel, self._look, self._listen),
                    ),
                    weights=(70, 7, 8, 1, 3, 11, 2),
                )[0]
                action(dice, session)

    def _order(self, dice: random.Random, session: requests.Session) -> None:
        self._deliver(self._new(dice), dice, session)

    def _double(self, dice: random.Random, session: requests.Session) -> None:
        order = self._new(dice)
        # A dice of its own: what one copy meets must not change what the other does next.
        copy = random.Random(dice.random())  # noqa: S311
        with requests.Session() as other:
            twin = threading.Thread(target=self._deliver, args=(order, copy, other))
            twin.start()
            self._deliver(order, dice, session)
            twin.join()

    def _again(self, dice: random.Random, session: requests.Session) -> None:
        if order := self._earlier(dice):
            self._deliver(order, dice, session)

    def _reuse(self, dice: random.Random, session: requests.Session) -> None:
        order = self._earlier(dice)
        if order and (order.user, order.key) in self.answers.jobs:
            other = Order(order.user, order.key, f"{order.prompt} but another")
            self._deliver(other, dice, session, expected=422)

    def _new(self, dice: random.Random) -> Order:
        wishes = [*WISHES, ""]
        weights = [*WISHES.values(), 1000 - sum(WISHES.values())]
        wish = dice.choices(wishes, weights)[0]
        marker = f"[[rehearse:{wish}]] " if wish else ""
        prompt = marker + SECRET_WORD + "x" * dice.randrange(200)
        order = Order(dice.randrange(len(self._tokens)), f"key-{dice.getrandbits(64):016x}", prompt)
        with self._lock:
            self._orders.append(order)
        return order

    def _earlier(self, dice: random.Random) -> Order | None:
        with self._lock:
            return dice.choice(self._orders) if self._orders else None

    def _deliver(
        self,
        order: Order,
        dice: random.Random,
        session: requests.Session,
        *,
        expected: int = 202,
    ) -> None:
        """Send until there is an answer: a client that got none does not know whether it was."""
        headers = {"Idempotency-Key": order.key}
        while time.monotonic() < self._give_up_at:
            body = {"prompt": order.prompt}
            answer = self._ask(
                "POST", "/reports", order.user, dice, session, json=body, headers=headers
            )
            if answer is not None and self._note(order, answer, expected):
                return
            self._is_over.wait(dice.random() * PAUSE_S)
        with self._lock:
            self.answers.counts["never answered"] += 1

    def _note(self, order: Order, answer: requests.Response, expected: int) -> bool:
        """Write an answer down; False: it was none, or not the last word."""
        name = order.user, order.key
        with self._lock:
            if answer.status_code == expected == 202:
                job_id = answer.json()["job_id"]
                if "Idempotent-Replayed" in answer.headers:
                    self.answers.counts["replayed"] += 1
                self.answers.jobs[name].add(job_id)
                self.answers.recent.append((order.user, job_id))
            elif answer.status_code == expected == 422:
                self.answers.counts["key reused: 422"] += 1
            elif answer.status_code == 429:
                self.answers.refused.add(name)
                self.answers.counts[f"refused: {answer.json()['error']}"] += 1
            else:
                self._unexpected("POST", answer)
        return True

    def _cancel(self, dice: random.Random, session: requests.Session) -> None:
        user, job_id = self._recent(dice)
        if not job_id:
            return
        answer = self._ask("POST", f"/reports/{job_id}/cancel", user, dice, session)
        if answer is None:
            return
        with self._lock:
            if answer.status_code == 200:
                self.answers.counts["cancelled"] += 1
            elif answer.status_code != 409:
                self._unexpected("cancel", answer)

    def _look(self, dice: random.Random, session: requests.Session) -> None:
        user, job_id = self._recent(dice)
        if not job_id:
            return
        answer = self._ask("GET", f"/reports/{job_id}", user, dice, session)
        if answer is None:
            return
        with self._lock:
            self.answers.counts["looked at"] += 1
            if answer.status_code != 200:
                self._unexpected("GET", answer)
                return
            job = answer.json()
            if job["status"] in TERMINAL:
                self.answers.ended.setdefault(job_id, job)

    def _listen(self, dice: random.Random, session: requests.Session) -> None:
        """Watch a job for a while; what is told may never go back."""
        user, job_id = self._recent(dice)
        path = f"/reports/{job_id}/events"
        answer = self._ask("GET", path, user, dice, session, stream=True) if job_id else None
        if answer is None:
            return
        until = time.monotonic() + LISTENED_S
        told = []
        word = "listened to"
        try:
            with answer:
                for line in answer.iter_lines(chunk_size=1):
                    if line.startswith(b'data: {"job_id"'):
                        told.append(json.loads(line.removeprefix(b"data: ")))
                    if time.monotonic() > until:
                        break
        except requests.RequestException:
            word = "streams lost"
        with self._lock:
            self.answers.counts[word] += 1
            if answer.status_code != 200:
                self._unexpected("events", answer)
            ranks = [RANKS[job["status"]] for job in told]
            if ranks != sorted(set(ranks)):
                self.answers.unexpected.append(f"events of {job_id} went back: {ranks}")
            if told and told[-1]["status"] in TERMINAL:
                self.answers.ended.setdefault(job_id, told[-1])

    def _recent(self, dice: random.Random) -> tuple[int, str]:
        with self._lock:
            return dice.choice(self.answers.recent[-300:]) if self.answers.recent else (0, "")

    def _ask(
        self, method: str, path: str, user: int, dice: random.Random, session: Any, **rest: Any
    ) -> requests.Response | None:
        """One request to one of the webs; None: no answer, or one that says come back."""
        headers = {"Authorization": f"Bearer {self._tokens[user]}", **rest.pop("headers", {})}
        url = f"{dice.choice(self._addresses)}{path}"
        began = time.monotonic()
        try:
            answer: requests.Response = session.request(
                method, url, headers=headers, timeout=ANSWER_S, **rest
            )
        except requests.RequestException:
            word, answer = "answers lost", None  # type: ignore[assignment]
        else:
            word = "answers" if answer.status_code != 503 else "503"
        with self._lock:
            self.answers.counts[word] += 1
            if time.monotonic() - began > 2 and word == "answers":
                self.answers.counts["answers after more than 2 s"] += 1
        return answer if word == "answers" else None

    def _unexpected(self, what: str, answer: requests.Response) -> None:
        self.answers.unexpected.append(f"{what}: {answer.status_code} {answer.text[:300]}")
