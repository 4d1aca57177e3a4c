"""What a test machine may take its time for, and a product may not."""

from __future__ import annotations

from reports import dispatch, hints

STALL_S = 10.0


def take_no_stall_for_an_outage() -> None:
    """Let this process wait for the broker while its machine stands still."""
    dispatch.BROKER_LIMITS.update(socket_connect_timeout=STALL_S, socket_timeout=STALL_S)
    hints.LIMIT_S = STALL_S
