"""`python -m reports_project.web`: check the settings, then become the web server."""

import errno
import os
import socket
import sys

from reports_project import settings
from reports_project.env import BadVariable

SHUTDOWN_S = 10
# The address is none of this machine's, or of a family that it does not speak.
NOT_OURS = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EINVAL})
# On SIGHUP an old process serves on for so long: each has a socket of its own, and its successor
# must be listening when it closes it.
START_S = 10


def main() -> None:
    """Replace this process by granian, so that signals reach it."""
    refuse_a_place_that_is_not_to_be_had("PORT", settings.PORT)
    os.execv(  # noqa: S606  # our own interpreter, no shell
        sys.executable,
        [
            sys.executable,
            *("-m", "granian", "reports_project.asgi:application", "--interface", "asginl"),
            *("--host", settings.HOST, "--port", str(settings.PORT)),
            *("--workers", str(settings.WEB_CONCURRENCY), "--no-ws", "--respawn-failed-workers"),
            *("--workers-kill-timeout", str(SHUTDOWN_S), "--log-level", "warning"),
            *("--respawn-interval", str(START_S)),
        ],
    )


def refuse_a_place_that_is_not_to_be_had(name: str, port: int) -> None:
    """End the start with one line, by HOST or the variable of the port."""
    # The server's own sockets share a port, so two servers would silently share their requests.
    family = socket.AF_INET6 if ":" in settings.HOST else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.HOST, port))
        except OSError as error:
            is_host = error.errno in NOT_OURS
            which, value = ("HOST", settings.HOST) if is_host else (name, port)
            raise BadVariable(which, f"{value} cannot be used: {error.strerror}") from None


if __name__ == "__main__":
    main()
