"""`make up`: the whole product on one machine, with what the environment does not name embedded."""

from __future__ import annotations

import errno
import json
import os
import secrets
import signal
import socket
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dotenv import load_dotenv

from tools import children, local_model, valkey
from tools.supervisor import StopRequested, Supervisor

ROOT = Path(__file__).resolve().parent.parent
VAR = ROOT / "var"
PROCESSES = ("web", "worker", "beat", "events")


def main() -> int:
    """Run until a signal comes or a process ends; 1 when something was wrong."""
    os.chdir(ROOT)
    os.umask(0o077)  # prompts lie in the database file: nobody else's to read
    supervisor = Supervisor()
    supervisor.listen()
    try:
        with ExitStack() as stack:
            stack.callback(supervisor.close)
            _run(supervisor, stack)
    except StopRequested:
        _say("stopped")
        return 0
    except children.StartFailed as failure:
        _say(f"{failure}; everything is stopped")
        return 1
    return 0


def _run(supervisor: Supervisor, stack: ExitStack) -> None:
    environment = _environment()
    ready = _prepare(supervisor, environment)
    _check_port(ready["host"], ready["port"])
    supervisor.stop_after_s = ready["timeout_s"] + 15
    if not environment.get("REDIS_URL"):
        broker = stack.enter_context(valkey.running(VAR / "valkey"))
        supervisor.watch("broker", broker.child)
        environment["REDIS_URL"] = broker.url
    stack.callback(supervisor.stop, "provider", "model")
    source = _provider(supervisor, environment)
    commands = _procfile()
    stack.callback(_stop_processes, supervisor)
    for name in PROCESSES:
        supervisor.start(name, ["/bin/sh", "-c", commands[name]], environment)
    address = _address(ready["host"], ready["port"])
    supervisor.wait(lambda: _is_ok(f"{address}/healthz"), within_s=60)
    _welcome(address, ready["demo"], source)
    supervisor.wait(lambda: False)


def _address(host: str, port: int) -> str:
    """Where a browser on this machine finds the web process."""
    if host in {"0.0.0.0", "::"}:  # noqa: S104  # compared, not bound
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _stop_processes(supervisor: Supervisor) -> None:
    _say("stopping; calls that are under way may finish, another Ctrl-C ends them")
    supervisor.stop(*PROCESSES)


def _environment() -> dict[str, str]:
    """What the processes run with: the environment, then .env, then what suits a developer."""
    if (ROOT / ".env").is_file():
        (ROOT / ".env").chmod(0o600)  # keys lie in it
    load_dotenv(ROOT / ".env")
    VAR.mkdir(mode=0o700, exist_ok=True)
    VAR.chmod(0o700)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environment = {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"}
    environment.setdefault("DEBUG", "1")
    if environment.get("MODEL", "") not in {"", "local"}:
        raise children.StartFailed("MODEL: must be local, or unset")
    if not environment.get("EVENTS_PORT"):
        # The web process passes such requests on, so nobody has to know it.
        environment["EVENTS_PORT"] = str(valkey.free_port())
    if not environment.get("SECRET_KEY"):
        environment["SECRET_KEY"] = _secret(VAR / "secret_key")
    return environment


def _secret(path: Path) -> str:
    """Random, and the same next time, so that sessions and digests survive a restart."""
    if not path.is_file():
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(48))
    return path.read_text()


def _prepare(supervisor: Supervisor, environment: dict[str, str]) -> dict[str, Any]:
    """Check and migrate in a process of its own, since settings are read once in a process."""
    _say("checking the variables, the broker and the database")
    log = VAR / "prepare.log"
    log.write_bytes(b"")
    child = children.spawn(
        [sys.executable, "-m", "tools.prepare"], log=log, environment=environment
    )
    try:
        supervisor.wait(lambda: child.poll() is not None)
    finally:
        children.stop(child, by=signal.SIGTERM, within_s=10)
        said = log.read_text()
        log.unlink()  # it holds the demo token
    if "Traceback" in said:
        sys.stderr.write(said)
    last = said.rstrip().rpartition("\n")[2]
    if child.returncode:
        raise children.StartFailed(last)
    ready: dict[str, Any] = json.loads(last)
    return ready


def _check_port(host: str, port: int) -> None:
    """Granian shares a port with whoever has it already; we would serve half of the requests."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as problem:
            if problem.errno == errno.EADDRNOTAVAIL:
                reason = f"HOST: {host} cannot be used ({problem.strerror})"
            else:
                try_other = f"try PORT={port + 1} make up"
                reason = f"PORT: {port} cannot be used ({problem.strerror}); {try_other}"
            raise children.StartFailed(reason) from problem


def _provider(supervisor: Supervisor, environment: dict[str, str]) -> str:
    """Start a provider if none is named; returns what to tell the person about it."""
    port = str(valkey.free_port())
    if environment.get("MODEL"):
        _start_model(supervisor, environment, port)
        return f"{local_model.NAME} on this machine, {local_model.WARNING}"
    if environment.get("INFERENCE_URL"):
        return urlsplit(environment["INFERENCE_URL"]).hostname or "INFERENCE_URL"
    command = [sys.executable, "manage.py", "rehearsal_provider", "--port", port]
    supervisor.start("provider", command, environment)
    environment["INFERENCE_URL"] = f"http://127.0.0.1:{port}/complete"
    supervisor.wait(lambda: children.accepts(int(port)), within_s=30)
    return "the rehearsal provider, no model: set INFERENCE_URL, or try MODEL=local make up"


def _start_model(supervisor: Supervisor, environment: dict[str, str], port: str) -> None:
    if not local_model.is_installed():
        raise children.StartFailed("MODEL: the model is not installed; run MODEL=local make up")
    weights = VAR / "model" / f"{local_model.NAME}.gguf"
    command = [sys.executable, "-m", "tools.local_model", "--port", port, "--weights", str(weights)]
    supervisor.start("model", command, environment)
    environment["INFERENCE_URL"] = f"http://127.0.0.1:{port}/v1/chat/completions"
    environment["INFERENCE_MODEL"] = local_model.NAME
    environment["INFERENCE_KEY"] = ""
    environment.setdefault("INFERENCE_MAX_OUTPUT_TOKENS", str(local_model.MAX_OUTPUT_TOKENS))
    supervisor.wait(lambda: _is_ok(f"http://127.0.0.1:{port}/health"), within_s=120)


def _procfile() -> dict[str, str]:
    lines = (ROOT / "Procfile").read_text().splitlines()
    return {name: command.strip() for name, _, command in (line.partition(":") for line in lines)}


def _is_ok(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310  # our own address
            return bool(answer.status == 200)
    except OSError:
        return False


def _welcome(address: str, demo: dict[str, str] | None, source: str) -> None:
    lines = [f"Ready: {address}/", f"Answers come from {source}."]
    if demo is None:
        lines += ["No demo user, since DEBUG is off: python manage.py createsuperuser"]
    else:
        password = demo["password"] or "(the one that you gave it)"
        bearer = f"-H 'Authorization: Bearer {demo['token']}'"
        key = secrets.token_hex(4)
        lines += [
            f"Sign in as {demo['username']} with the password {password}",
            "",
            f"curl -sS {address}/reports {bearer} \\",
            f"  -H 'Idempotency-Key: {key}' -H 'Content-Type: application/json' \\",
            '  -d \'{"prompt": "Why is the sky blue?"}\'',
            f"curl -sS {address}/reports {bearer}",
        ]
    lines += ["", "Ctrl-C stops everything."]
    sys.stdout.write("\n" + "".join(f"    {line}".rstrip() + "\n" for line in lines) + "\n")
    sys.stdout.flush()


def _say(message: str) -> None:
    sys.stdout.write(f"make up: {message}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
