"""`python -m reports_project.worker`: check the settings, then become a Celery worker."""

import os
import sys

from reports_project import settings
from reports_project.env import BadVariable


def main() -> None:
    """Replace this process by a Celery worker, so that signals reach it."""
    if not settings.INFERENCE_URL:
        raise BadVariable("INFERENCE_URL", "is not set; a worker needs a provider to call")
    os.execv(  # noqa: S606  # our own interpreter, no shell
        sys.executable,
        [
            sys.executable,
            *("-m", "celery", "--quiet", "-A", "reports_project", "worker", "--queues", "jobs"),
            # Threads wait for sockets as well as processes do, at a hundredth of the memory.
            *("--pool", "threads", "--concurrency", str(settings.WORKER_CONCURRENCY)),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ],
    )


if __name__ == "__main__":
    main()
