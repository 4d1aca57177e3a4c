"""A webhook's receiver that fails now and then, and whether everything was told in the end."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.chaos.stack import Stack

# Of first attempts; the second one comes after five seconds and is taken.
REFUSED = 0.3
# Each ending of a user who listens, with what was made of it.
TOLD = """
SELECT j.id::text, j.status, d.id::text, d.state
  FROM reports_reportjob j
  LEFT JOIN webhooks_webhookdelivery d ON d.job_id = j.id
 WHERE j.user_id IN (SELECT user_id FROM webhooks_webhookendpoint)
"""
OPEN = "SELECT count(*) FROM webhooks_webhookdelivery WHERE state IN ('pending', 'running')"
HURRY = """
UPDATE webhooks_webhookdelivery SET next_try_at = STATEMENT_TIMESTAMP()
 WHERE state = %s AND next_try_at > STATEMENT_TIMESTAMP()
"""
# In development a receiver may be on this machine, and only there.
VARIABLES = {"DEBUG": "1"}
MAKE = """
from webhooks import signing
from webhooks.models import WebhookEndpoint
for user_id in {user_ids}:
    WebhookEndpoint.objects.create(user_id=user_id, url="{url}", seed=signing.new_seed())
"""


class Receiver:
    """Takes messages and remembers about which job each was."""

    def __init__(self, seed: int) -> None:
        self.came: Counter[str] = Counter()
        self.about: dict[str, str] = {}
        self._dice = random.Random(seed)  # noqa: S311  # a seed must repeat it
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(receiver.take(self.headers["webhook-id"], body))
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}/"

    def take(self, message_id: str, body: bytes) -> int:
        """Note a message, and answer it."""
        with self._lock:
            self.came[message_id] += 1
            self.about[message_id] = json.loads(body)["data"]["job_id"]
            is_refused = self.came[message_id] == 1 and self._dice.random() < REFUSED
        return 500 if is_refused else 204

    def subscribe(self, stack: Stack, user_ids: Sequence[int]) -> None:
        """Let these users' endings be told here."""
        code = MAKE.format(user_ids=list(user_ids), url=self.url)
        said, _ = (command := stack.manage("shell", "-c", code)).communicate()
        if command.returncode:
            raise RuntimeError(said)


def end_leases(stack: Stack) -> None:
    """Let nobody wait for a worker that is dead: at worst a message comes twice."""
    _hurry(stack, "running")


def is_waiting(stack: Stack) -> bool:
    """Whether a message has an attempt to come, which is due now, or an ending was not seen yet."""
    _hurry(stack, "pending")  # after two attempts that broke off it would be due in five minutes
    with stack.connect() as connection:
        [(waiting,)] = connection.execute(OPEN).fetchall()
        untold = [row for row in connection.execute(TOLD).fetchall() if row[2] is None]
    return bool(waiting or untold)


def faults(stack: Stack, receiver: Receiver) -> list[str]:
    """Endings that were told to nobody, and messages that are not as their row says."""
    with stack.connect() as connection:
        rows = connection.execute(TOLD).fetchall()
    found = []
    jobs = {
        f"msg_{delivery_id.replace('-', '')}": job_id
        for job_id, _, delivery_id, _ in rows
        if delivery_id
    }
    for job_id, status, delivery_id, state in rows:
        message_id = f"msg_{(delivery_id or '').replace('-', '')}"
        if state != "delivered" or not receiver.came[message_id]:
            found.append(f"job {job_id} {status}: {state}, came {receiver.came[message_id]} times")
    for message_id, job_id in receiver.about.items():
        if jobs.get(message_id) != job_id:
            found.append(f"{message_id} was about {job_id}, its row about {jobs.get(message_id)}")
    return found


def _hurry(stack: Stack, state: str) -> None:
    with stack.connect() as connection:
        connection.execute(HURRY, [state])
