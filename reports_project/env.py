"""Typed reading of variables; a bad one ends the process with one line that names it."""

from __future__ import annotations

import math
import os
import re
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})
DEVELOPMENT_KEY = "for-development-only-never-in-production"
# What stands in examples and templates, and so in many places that anybody can read.
KNOWN_KEYS = frozenset({DEVELOPMENT_KEY, "a long random text, the same for every process"})
# What is refused cannot be meant; what is merely weak, `check --deploy` warns of (security.W009).
SHORTEST_KEY = 8
# Names of these lead to nobody outside (RFC 6761, 6762, 8375, and what routers make up).
LOCAL_DOMAINS = frozenset({"localhost", "local", "test", "arpa", "internal", "lan"})
HOST_NAME = re.compile(r"\.?[a-z0-9][a-z0-9.-]*|\[[0-9a-f:.]+\]", re.IGNORECASE)


class BadVariable(SystemExit):
    """Ends the process with one line on stderr and exit status 1."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")


def load_dotenv(path: Path) -> None:
    """Read a `.env` file where there is one; what the environment already says wins."""
    if path.is_file():
        from dotenv import load_dotenv as load  # noqa: PLC0415  # production has no .env file

        load(path)


def text(name: str, default: str = "") -> str:
    """The variable's value without blanks and line ends around it; the default when unset."""
    return os.environ.get(name, default).strip()


def required(name: str, *, hint: str) -> str:
    """A variable that has no default."""
    value = text(name)
    if not value:
        raise BadVariable(name, f"is not set; {hint}")
    return value


def own_keys(name: str, keys: list[str]) -> None:
    """Refuse keys with which anybody could sign a session; what they say is not repeated."""
    for key in keys:
        if key in KNOWN_KEYS or key.startswith("django-insecure-"):
            raise BadVariable(name, "is a key that everybody knows; make one of your own")
        if len(key) < SHORTEST_KEY:
            raise BadVariable(name, f"is too short; {SHORTEST_KEY} characters are the least")


def hosts(name: str, default: str, *, is_public: bool) -> list[str]:
    """Host names without scheme and port; a leading dot also means every name below it."""
    found = words(name, default)
    if not is_public:
        return found
    if not found:
        raise BadVariable(name, "is empty; name the hosts under which the site is asked for")
    for host in found:
        if host == "*" or host.strip(".") == "":
            raise BadVariable(name, "must not be open to every host; name those of the site")
        if not HOST_NAME.fullmatch(host):
            raise BadVariable(name, "must be a list of names such as reports.example.org")
    return found


def address(name: str, default: str) -> str:
    """An IP address to listen on; `localhost` is the one that no name look-up makes two of."""
    value = text(name).strip("[]") or default
    if value == "localhost":
        return "127.0.0.1"
    try:
        return str(ip_address(value))
    except ValueError:
        raise BadVariable(name, "must be an IP address of this machine, or localhost") from None


def not_public(name: str, hosts: list[str]) -> None:
    """Refuse a variable that must not be set where the public comes under these names."""
    for host in hosts:
        labels = host.strip(".").lower().split(".")
        if labels[-1].isalpha() and len(labels) > 1 and labels[-1] not in LOCAL_DOMAINS:
            raise BadVariable(name, f"is on for a public site ({host}); set {name}=0")


def boolean(name: str, *, default: bool) -> bool:
    """1/true/yes/on or 0/false/no/off, in any case; empty means the default."""
    value = text(name).lower()
    if not value:
        return default
    return _truth(name, value)


def integer(name: str, default: int, *, low: int, high: int) -> int:
    """A whole number from low to high; unset means the default, empty is an error."""
    return _whole(name, text(name, str(default)), low=low, high=high)


def seconds(name: str, default: float, *, low: float, high: float) -> float:
    """A duration in seconds, fractions allowed."""
    raw = text(name, str(default))
    try:
        value = float(raw)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise BadVariable(name, f"must be a number of seconds from {low:g} to {high:g}")
    return value


def words(name: str, default: str = "") -> list[str]:
    """A comma-separated list; blanks around the parts do not count."""
    return [part.strip() for part in text(name, default).split(",") if part.strip()]


def origins(name: str) -> list[str]:
    """A comma-separated list of a scheme and a host each."""
    found = words(name)
    for origin in found:
        scheme, _, host = origin.partition("://")
        if scheme not in {"http", "https"} or not host or "/" in host:
            raise BadVariable(name, "must be a list of origins such as https://reports.example.org")
    return found


def choice(name: str, default: str, options: tuple[str, ...]) -> str:
    """One of a few words."""
    value = text(name, default)
    if value not in options:
        raise BadVariable(name, f"must be one of {', '.join(options)}")
    return value


def http_url(name: str) -> str:
    """An absolute http or https URL. Its text may hold a secret, so no message repeats it."""
    value = text(name)
    if not value:
        return ""
    try:
        parts = urlsplit(value)
        is_good = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or not value.isprintable() or " " in value:
        raise BadVariable(name, "must be an absolute http:// or https:// URL")
    return value


def secret_header(name: str) -> str:
    """A secret that travels in an HTTP header: visible ASCII once blanks around it are stripped."""
    value = text(name).strip("\ufeff \t\r\n")
    if not all("!" <= character <= "~" for character in value):
        raise BadVariable(
            name, "holds a character that no HTTP header can carry (its value is not shown)"
        )
    return value


def redis_url(name: str) -> str:
    """A redis:// or rediss:// URL; unset is the empty string."""
    value = text(name)
    try:
        parts = urlsplit(value)
        is_good = parts.scheme in {"redis", "rediss", "valkey", "valkeys"} and parts.port != 0
    except ValueError:
        is_good = False
    if value and not is_good:
        raise BadVariable(name, "must look like redis://host:6379/0")
    return value.replace("valkey", "redis", 1) if value.startswith("valkey") else value


def database(name: str, *, fallback: Path) -> dict[str, Any]:
    """Django's settings for a postgres:// or sqlite:/// URL; unset is SQLite at the fallback.

    What follows the `?` goes to PostgreSQL's client, except `pool_max`, which is for the settings,
    and two words for Django: `server_side_binding`, and `prepare_threshold`, whose `none` says that
    a pooler gives each transaction another connection.
    """
    value = text(name)
    if not value:
        return _sqlite(str(fallback))
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise BadVariable(
            name, "is no URL; it must look like postgres://user:password@host:5432/name"
        ) from None
    if parts.scheme == "sqlite":
        return _sqlite(unquote(parts.path.removeprefix("/")) or str(fallback))
    if parts.scheme not in {"postgres", "postgresql"} or not parts.path.strip("/"):
        raise BadVariable(
            name, "must look like postgres://user:password@host:5432/name or sqlite:///path"
        )
    options = _query_options(name, parts.query)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.removeprefix("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(port or ""),
        "OPTIONS": options,
        # A cursor that outlives its transaction is lost behind such a pooler.
        "DISABLE_SERVER_SIDE_CURSORS": options.get("prepare_threshold", "") is None,
    }


def _sqlite(name: str) -> dict[str, Any]:
    path = Path(name)
    is_file = name != ":memory:" and not name.startswith("file:")
    if is_file and path.parent.is_dir() and not path.exists():
        path.touch(mode=0o600)  # prompts will lie in it, and its WAL files take after it
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": name}


def _query_options(name: str, query: str) -> dict[str, object]:
    options: dict[str, object] = {}
    for pair in filter(None, query.split("&")):
        key, separator, value = (unquote(part) for part in pair.partition("="))
        if not separator:
            raise BadVariable(name, "has a query part that is no key=value")
        options[key] = _option(name, key, value)
    return options


def _option(name: str, key: str, value: str) -> object:
    match key, value.lower():
        case "prepare_threshold", "none":
            return None
        case "prepare_threshold", count:
            return _whole(name, count, low=0, high=1_000_000, what="none or ", part=key)
        case "pool_max", count:
            return _whole(name, count, low=1, high=1000, part=key)
        case "server_side_binding", word:
            return _truth(name, word, part=key)
        case _:
            return value


def _truth(name: str, value: str, *, part: str = "") -> bool:
    if value not in TRUE | FALSE:
        problem = "must be one of 1/true/yes/on or 0/false/no/off"
        raise BadVariable(name, f"{part} {problem}".lstrip())
    return value in TRUE


def _whole(name: str, value: str, *, low: int, high: int, what: str = "", part: str = "") -> int:
    is_whole = value.isascii() and value.removeprefix("-").isdigit() and len(value) <= 19
    if not is_whole:
        problem = f"must be {what}a whole number from {low} to {high}"
        raise BadVariable(name, f"{part} {problem}".lstrip())
    number = int(value)
    if not low <= number <= high:
        problem = f"must be {what}from {low} to {high}, not {number}"
        raise BadVariable(name, f"{part} {problem}".lstrip())
    return number
