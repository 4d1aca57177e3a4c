"""The verdict, from two books that the product does not keep, and from what clients were told."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

from tools.chaos.load import SECRET_WORD
from tools.chaos.stack import PROMISE_S, Stack, calls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tools.chaos.load import Answers

JOBS = """
SELECT id::text AS job_id, user_id, idempotency_key, status, http_status, error_code,
       token_estimate, day_utc, prompt_tokens, completion_tokens, created_at, started_at,
       finished_at, republished,
       extract(epoch FROM finished_at - created_at)::float AS life_s
  FROM reports_reportjob
"""
# Whether a request was made is written in the row for these; for the others nobody can know.
# Not among them: a worker that stood still until the deadline sent nothing.
CALLED_ONCE = {"", "provider_5xx", "provider_rejected", "provider_invalid_response"}
NEVER_CALLED = {"queue_expired"}
FROM_OUR_CODE = "internal_error"


@dataclass(slots=True)
class Books:
    """Both books as they were read at the end."""

    rows: dict[str, dict[str, Any]]
    budgets: dict[int, dict[str, Any]]
    called: Counter[str]
    faults: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, stack: Stack) -> Books:
        """Plain SQL and the provider's log."""
        with stack.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(JOBS).fetchall()
            budgets = cursor.execute("SELECT * FROM budgets_inferencebudget").fetchall()
        return cls(
            {row["job_id"]: row for row in rows},
            {row["user_id"]: row for row in budgets},
            Counter(call["job_id"] for call in calls(stack.book)),
        )

    def keep(self, path: Path) -> None:
        """Write the rows to a file, a line of JSON each, for whoever looks into a fault."""
        lines = [json.dumps(row, default=str) for row in self.rows.values()]
        path.write_text("\n".join(lines) + "\n")

    def judge(self, name: str, found: Sequence[str]) -> int:
        """Write down what is off under its name; returns how much that is."""
        self.faults += [f"{name}: {line}" for line in found]
        return len(found)

    def endings(self) -> Counter[str]:
        """How the jobs ended."""
        return Counter(row["error_code"] or row["status"] for row in self.rows.values())

    def called_twice(self) -> list[str]:
        """Jobs that the provider was asked for more than once."""
        return [job_id for job_id, times in self.called.items() if times > 1]

    def called_wrongly(self) -> list[str]:
        """Jobs whose row says how often the provider was asked, and whose log says otherwise."""
        return [
            f"{row['job_id']} {row['status']} {row['error_code']}: {self.called[row['job_id']]}"
            for row in self.rows.values()
            if not self._agrees(row)
        ]

    def _agrees(self, row: dict[str, Any]) -> bool:
        times, code = self.called[row["job_id"]], row["error_code"]
        if code in NEVER_CALLED or row["started_at"] is None:
            return times == 0
        return times == 1 if code in CALLED_ONCE else times <= 1

    def called_unknown(self) -> list[str]:
        """Calls without a row."""
        return [job_id for job_id in self.called if job_id not in self.rows]

    def lost(self, answers: Answers, user_ids: Sequence[int]) -> list[str]:
        """Jobs that were answered with 202 and are not there, or not as they were promised."""
        found = []
        for (user, key), job_ids in answers.jobs.items():
            rows = [self.rows.get(job_id) for job_id in job_ids]
            owners = {(row["user_id"], row["idempotency_key"]) for row in rows if row}
            if len(job_ids) != 1 or owners != {(user_ids[user], key)}:
                found.append(f"key {key} of user {user_ids[user]}: {sorted(job_ids)}, {owners}")
        return found

    def untold(self, answers: Answers, user_ids: Sequence[int]) -> list[str]:
        """Rows that no client has ever heard of, the leavings of refusals among them."""
        told = {(user_ids[user], key) for user, key in answers.jobs}
        rows = self.rows.values()
        return [r["job_id"] for r in rows if (r["user_id"], r["idempotency_key"]) not in told]

    def open(self) -> list[str]:
        """Jobs without an end."""
        return [row["job_id"] for row in self.rows.values() if row["finished_at"] is None]

    def doubled(self) -> list[str]:
        """Keys with more than one row."""
        keys = Counter((row["user_id"], row["idempotency_key"]) for row in self.rows.values())
        return [f"{key} of user {user}" for (user, key), rows in keys.items() if rows > 1]

    def changed(self, answers: Answers) -> list[str]:
        """Jobs that a client saw ended, and that ended otherwise after all."""
        found = []
        for job_id, seen in answers.ended.items():
            row = self.rows.get(job_id, {})
            now = row.get("status"), row.get("http_status"), row.get("error_code")
            if now != (seen["status"], seen["http_status"], seen.get("error_code", "")):
                found.append(f"{job_id}: was {seen['status']}, is {now}")
        return found

    def adrift(self) -> list[str]:
        """Users whose day is not the sum of their jobs, or goes beyond what may be reserved."""
        return [
            f"user {user_id}: {budget['spent_tokens']} spent, {charged} charged by jobs, "
            f"{active} active of {budget['active_jobs']}"
            for user_id, budget in self.budgets.items()
            for charged, active in [self._charged(user_id, budget["day_utc"])]
            if (budget["spent_tokens"], budget["active_jobs"]) != (charged, active)
            or charged > budget["daily_tokens"]
        ]

    def tokens(self) -> int:
        """What all days of all users have been charged."""
        return sum(_charge(row) for row in self.rows.values())

    def _charged(self, user_id: int, day_utc: object) -> tuple[int, int]:
        rows = [row for row in self.rows.values() if row["user_id"] == user_id]
        charged = sum(_charge(row) for row in rows if row["day_utc"] == day_utc)
        return charged, sum(row["finished_at"] is None for row in rows)

    def longest_life_s(self) -> float:
        """From accept to end, of the job that took longest."""
        return max((row["life_s"] or 0.0 for row in self.rows.values()), default=0.0)

    def of_our_code(self) -> list[str]:
        """Jobs that failed because our own code raised."""
        return [r["job_id"] for r in self.rows.values() if r["error_code"] == FROM_OUR_CODE]


def _charge(row: dict[str, Any]) -> int:
    """What CONTRACT 4 says that this job takes from its day."""
    was_billed = row["error_code"] == "cancelled" and row["started_at"] is not None
    if row["status"] == "succeeded":
        return int(row["prompt_tokens"] + row["completion_tokens"])
    return int(row["token_estimate"]) if row["finished_at"] is None or was_billed else 0


def told_secrets(stack: Stack, tokens: Sequence[str]) -> list[str]:
    """Logs that know a prompt or a token."""
    return [
        log.name
        for log in sorted(stack.logs.glob("*.log"))
        if any(secret in log.read_text(errors="replace") for secret in (SECRET_WORD, *tokens))
    ]


def verdict(
    books: Books, stack: Stack, answers: Answers, user_ids: Sequence[int], tokens: Sequence[str]
) -> Iterator[str]:
    """The lines of the verdict; what is off is in `books.faults` afterwards."""
    judge = books.judge
    twice = judge("called twice", books.called_twice())
    wrongly = judge("called otherwise than the row says", books.called_wrongly())
    unknown = judge("called without a row", books.called_unknown())
    yield (
        f"the provider's book     {books.called.total()} calls, {twice} jobs called twice, "
        f"{wrongly} called otherwise than their row says, {unknown} calls without a row"
    )
    lost = judge("lost", books.lost(answers, user_ids))
    unfinished = judge("not terminal", books.open())
    untold = judge("never told", books.untold(answers, user_ids))
    doubled = judge("two rows", books.doubled())
    changed = judge("changed after its end", books.changed(answers))
    yield (
        f"the database's book     {len(books.rows)} jobs, {lost} lost, {unfinished} not terminal, "
        f"{doubled} keys with two rows, {untold} rows nobody was told of, "
        f"{changed} of {len(answers.ended)} seen ended changed later"
    )
    adrift = judge("adrift", books.adrift())
    yield (
        f"the budgets             {books.tokens()} tokens of {len(books.budgets)} users, "
        f"{adrift} users adrift"
    )
    odd = judge("unexpected answer", answers.unexpected)
    unanswered = judge("never answered", ["an order"] * answers.counts["never answered"])
    ours = judge("internal_error", books.of_our_code())
    hung = judge("did not end on SIGTERM", stack.hung)
    secrets = judge("a log knows a prompt or a token", told_secrets(stack, tokens))
    yield (
        f"besides                 {odd} unexpected answers, {unanswered} orders without an answer, "
        f"{ours} failures of our own code, {hung} processes hung at SIGTERM, "
        f"{secrets} logs with a prompt or token"
    )
    yield (
        f"longest life of a job   {books.longest_life_s():.1f} s "
        f"(promised, once all runs again: {PROMISE_S:g} s)"
    )
