"""`python -m reports_project.beat`: check the settings, then become the sweep's clock."""

import os
import sys

import reports_project.settings  # noqa: F401  # a bad variable stops the start here, with one line

SCHEDULER = "celery.beat:Scheduler"  # keeps nothing on disk: the only entries are intervals


def main() -> None:
    """Replace this process by Celery beat, so that signals reach it."""
    os.execv(  # noqa: S606  # our own interpreter, no shell
        sys.executable,
        [
            sys.executable,
            *("-m", "celery", "--quiet", "-A", "reports_project", "beat", "--scheduler", SCHEDULER),
            *("--pidfile", ""),
        ],
    )


if __name__ == "__main__":
    main()
