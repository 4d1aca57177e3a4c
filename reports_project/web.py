"""`python -m reports_project.web`: check the settings, then become the web server."""

import os
import sys

from reports_project import settings

SHUTDOWN_S = 10


def main() -> None:
    """Replace this process by granian, so that signals reach it."""
    os.execv(  # noqa: S606  # our own interpreter, no shell
        sys.executable,
        [
            sys.executable,
            *("-m", "granian", "reports_project.asgi:application", "--interface", "asginl"),
            *("--host", settings.HOST, "--port", str(settings.PORT)),
            *("--workers", str(settings.WEB_CONCURRENCY), "--no-ws", "--respawn-failed-workers"),
            *("--workers-kill-timeout", str(SHUTDOWN_S), "--log-level", "warning"),
        ],
    )


if __name__ == "__main__":
    main()
