"""Makes ready what `make up` runs on: checks the variables, reaches the broker and the database,
migrates, and in development makes a user for trying things out. Says where on one line of JSON.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from typing import TYPE_CHECKING, Any, TypedDict

import django
import redis
from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError

if TYPE_CHECKING:
    from pathlib import Path

NAME = "demo"


class Demo(TypedDict):
    """How to sign in. The password is empty when somebody has changed it."""

    username: str
    password: str
    token: str


def main() -> int:
    """The settings end the process themselves when a variable is bad."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reports_project.settings")
    django.setup()
    try:
        _reach_broker()
        call_command("check")
        call_command("migrate", interactive=False, verbosity=0)
        ready = _where() | {"demo": _demo(settings.VAR_DIR / "demo.json")}
    except redis.RedisError as problem:
        return _say(f"REDIS_URL: the broker cannot be reached: {problem}")
    except DatabaseError as problem:
        return _say(f"DATABASE_URL: the database cannot be used: {problem}")
    sys.stdout.write(json.dumps(ready) + "\n")
    return 0


def _say(message: str) -> int:
    sys.stderr.write(" ".join(message.split()) + "\n")
    return 1


def _reach_broker() -> None:
    if settings.REDIS_URL:
        options = {"socket_connect_timeout": 3, "socket_timeout": 3}
        with redis.Redis.from_url(settings.REDIS_URL, **options) as broker:
            broker.ping()


def _where() -> dict[str, Any]:
    return {
        "host": settings.HOST,
        "port": settings.PORT,
        "timeout_s": settings.INFERENCE_TIMEOUT_S,
    }


def _demo(path: Path) -> Demo | None:
    """The demo user, with the password and the token of the last time as long as they are good."""
    if not settings.DEBUG:
        return None
    from django.contrib.auth import get_user_model  # noqa: PLC0415  # needs django.setup()

    from access.models import Token  # noqa: PLC0415

    kept = json.loads(path.read_text()) if path.is_file() else {}
    password = kept.get("password") or secrets.token_urlsafe(9)
    user, is_new = get_user_model().objects.get_or_create(
        username=NAME, defaults={"is_staff": True, "is_superuser": True}
    )
    if is_new:
        user.set_password(password)
        user.save()
    token = kept.get("token", "")
    found = Token.objects.presented(token)
    if found is None or found.user != user:
        token = Token.objects.create(user, name="make up")[1]
    demo = Demo(username=NAME, password=password, token=token)
    path.touch(mode=0o600)
    path.write_text(json.dumps(demo))
    return demo if user.check_password(password) else Demo(**{**demo, "password": ""})


if __name__ == "__main__":
    sys.exit(main())
