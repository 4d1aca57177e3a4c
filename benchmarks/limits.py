"""What the database alone could carry: pgbench with exactly the statements that the product sends.

They are recorded while the product's own code runs once, so they cannot drift from it.
"""

from __future__ import annotations

import re
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import redis
from django.contrib.auth import get_user_model
from django.db import connection
from psycopg import sql

from benchmarks.stage import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.stage import Stage

CLIENTS = 16
PER_S = re.compile(r"tps = ([0-9.]+)")
MARKS = re.compile(r"%s|%\((\w+)\)s|%%")
PROMPT = "Why is the sky blue, and why are sunsets red? Explain it to a child."
# Two plain tables and nothing else: what any accept of this kind could reach at most.
PLAIN = """
\\set user random(1, 100)
BEGIN;
INSERT INTO source_jobs (id, user_id, idempotency_key, prompt, status, token_estimate)
     VALUES (gen_random_uuid(), :user, md5(random()::text), 'Why is the sky blue?', 'queued', 17);
UPDATE source_budgets SET spent_tokens = spent_tokens + 17
 WHERE user_id = :user AND spent_tokens + 17 <= daily_tokens;
COMMIT;
"""
NEW_KEY, USER = "md5(random()::text)", ":user::int"

Statement = tuple[str, Any]


@contextmanager
def recorded() -> Iterator[list[Statement]]:
    """Statements and their values, as they are given to the database."""
    seen: list[Statement] = []

    def note(execute: Any, statement: str, values: Any, many: bool, context: Any) -> Any:
        seen.append((statement, values))
        return execute(statement, values, many, context)

    with connection.execute_wrapper(note):
        yield seen


def scripts(users: list[int]) -> dict[str, str]:
    """One job of the product as pgbench scripts: accept, job, hot (one user) and poll."""
    from access.models import Token  # noqa: PLC0415  # needs django.setup()
    from reports import acceptance, transitions  # noqa: PLC0415  # likewise
    from reports.models import ReportJob  # noqa: PLC0415  # likewise
    from reports.provider import Completion  # noqa: PLC0415  # likewise

    user = users[0]
    token = str(Token.objects.create(get_user_model().objects.get(pk=user))[1])
    with recorded() as accept:
        job = acceptance.accept(user, key="recorded", prompt=PROMPT).job_id
    with recorded() as claim:
        held = transitions.claim(job)
    if held is None:
        raise RuntimeError("the recorded job was not to be had")
    with recorded() as finish:
        transitions.succeed(held, Completion("An answer. " * 30, finish_reason="stop"))
    with recorded() as poll:
        Token.objects.presented(token)
        ReportJob.objects.access(user, str(job))
    swaps: dict[Any, str] = {user: USER, "recorded": NEW_KEY}
    new = {**swaps, job: "uuidv7()"}
    known = {**swaps, job: ":id::uuid", held.claim_id: ":claim_id::uuid"}
    claimed = {**swaps, job: ":id::uuid", held.claim_id: "gen_random_uuid()"}
    (accepting,) = _texts(accept, new)
    # The statements after it need the job's id.
    told = accepting.replace("RETURNING day_utc)", "RETURNING id, day_utc)")
    told = told.replace("SELECT job.day_utc,", "SELECT job.id AS id, job.day_utc AS day,")
    (claiming,), (ending,) = _texts(claim, claimed), _texts(finish, known)
    any_user, one = f"\\set user random({users[0]}, {users[-1]})", f"\\set user {user}"
    return {
        "accept": f"{any_user}\n{accepting};",
        "job": "\n".join([any_user, f"{told} \\gset", f"{claiming} \\gset", f"{ending};"]),
        "hot": f"{one}\n{accepting};",
        "poll": "\n".join(f"{text};" for text in _texts(poll, {})),
    }


def celery(stage: Stage, *, tasks: int) -> float:
    """Tasks a second that one worker of bare Celery gets through, which do nothing at all."""
    from benchmarks.noop import QUEUE, noop  # noqa: PLC0415  # reads where the broker is

    with redis.Redis.from_url(stage.broker.url) as broker:
        for number in range(tasks):
            noop.delay(str(number))
        words = ["-A", "benchmarks.noop", "worker", "--pool", "threads", "--concurrency", "8"]
        stage.python("noop", "-m", "celery", *words)
        stage.says("noop", " ready.")
        began_with = broker.llen(QUEUE)
        took_s = wait_for(
            lambda: not broker.llen(QUEUE) and not broker.hlen("unacked"),
            what="tasks that do nothing",
            within_s=120,
        )
    stage.stop("noop")
    return float(began_with) / took_s


def _texts(statements: list[Statement], swaps: dict[Any, str]) -> list[str]:
    # pgbench would take the colons in a format of times for variables.
    return [
        " ".join(_filled(text, values, swaps).split()).replace("HH24:MI:SS", 'HH24":"MI":"SS')
        for text, values in statements
    ]


def run(stage: Stage, name: str, text: str, *, for_s: float) -> float:
    """Runs a second of a script, with as many clients as the driver has connections."""
    path = stage.directory / f"{name}.sql"
    path.write_text(text)
    command = [
        str(stage.database.install / "bin" / "pgbench"),
        "--no-vacuum",
        "--protocol=prepared",
    ]
    shape = [f"--client={CLIENTS}", "--jobs=2", f"--time={for_s:g}", f"--file={path}"]
    place = ["--host", str(stage.database.directory), "--username=postgres", "postgres"]
    done = subprocess.run(
        [*command, *shape, *place], check=False, capture_output=True, text=True, timeout=for_s + 60
    )
    found = PER_S.search(done.stdout)
    if found is None or "ERROR" in done.stderr:
        raise RuntimeError(f"pgbench failed on {name}: {done.stderr[-2000:]}")
    return float(found[1])


def _filled(statement: str, values: Any, swaps: dict[Any, str]) -> str:
    if not values:
        return statement
    ordered = iter(values)

    def fill(mark: re.Match[str]) -> str:
        if mark[0] == "%%":
            return "%"
        value = values[mark[1]] if mark[1] else next(ordered)
        return swaps.get(value) or _literal(value) if _is_plain(value) else _literal(value)

    return MARKS.sub(fill, statement)


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, UUID))


def _literal(value: Any) -> str:
    return sql.Literal(value).as_string(None)
