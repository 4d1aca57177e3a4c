"""The same endpoint without jobs: POST /reports asks the provider while the client waits.

It is what the product replaces, for comparison: behind a proxy that waits less long than the model
thinks, its clients get 504 and the model has worked for nobody.

    python -m benchmarks.held --port 8001 --provider http://127.0.0.1:8099/complete
"""

from __future__ import annotations

import argparse
import json
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

TIMEOUT_S = 60


class Held(BaseHTTPRequestHandler):
    """One request, one thread, one call of the provider."""

    provider: ClassVar[str]
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:  # the base class's name
        """Answer with what the provider says, once it says it."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        call = urllib.request.Request(  # noqa: S310  # the address comes from the command line
            self.provider, body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(call, timeout=TIMEOUT_S) as answer:  # noqa: S310  # likewise
            text = json.load(answer)["text"]
        self._send({"text": text})

    def do_GET(self) -> None:
        """Say that it serves."""
        self._send({"status": "ok"})

    def _send(self, value: object) -> None:
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    """Serve until it is ended."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--port", type=int, required=True)
    words.add_argument("--provider", required=True)
    given = words.parse_args()
    Held.provider = given.provider
    ThreadingHTTPServer(("127.0.0.1", given.port), Held).serve_forever()


if __name__ == "__main__":
    main()
