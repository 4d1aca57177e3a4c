"""How long one thread of a process runs while others wait for the interpreter."""

import sys

# Python's own 5 ms suit threads that compute. Ours hand over to each other (event loop, Django,
# publisher; a worker's slots and its consumer), and each wait is a part of somebody's answer.
TURN_S = 0.0005


def shorten() -> None:
    """For this process, from now on."""
    sys.setswitchinterval(TURN_S)
