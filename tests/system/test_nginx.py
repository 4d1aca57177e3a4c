"""Behind Debian's nginx, whose patience is shorter than the model's thinking: the point, proved."""

from __future__ import annotations

import re
import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import requests

from reports import ids, transitions
from tests.support import certificates
from tests.support.processes import ROOT
from tests.support.rows import job_in
from tests.support.sse import Listener
from tests.system.parts import SOON_S, Caller, called
from tools import valkey

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clients import Api
    from tests.support.processes import Processes
    from tests.support.provider import Provider

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]
EXAMPLE = ROOT / "deploy" / "nginx" / "reports.conf"
PATIENCE_S = 1
# Accepting and polling take milliseconds; a loaded machine takes its time.
AT_ONCE_S = 0.9 * PATIENCE_S
CERTIFICATE = "certificate.pem"
AROUND = """
daemon off;
user root;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {example}
}}
"""


def configuration(folder: Path, *, upstream: str, events: str, port: int, plain_port: int) -> str:
    """The example of deploy/ with this test's ports and certificate, and less patience."""
    example = EXAMPLE.read_text()
    for old, new in (
        ("127.0.0.1:8000", upstream),
        ("127.0.0.1:8001", events),
        ("listen 80;", f"listen 127.0.0.1:{plain_port};"),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/ssl/reports.pem", str(folder.parent / CERTIFICATE)),
        ("proxy_read_timeout 5s;", f"proxy_read_timeout {PATIENCE_S}s;"),
    ):
        assert old in example
        example = example.replace(old, new)
    return AROUND.format(folder=folder, example=example)


@pytest.fixture(autouse=True)
def _trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate for all proxies of a test, which its clients believe."""
    certificate = certificates.make(tmp_path / CERTIFICATE)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))


def nginx(crew: Processes, folder: Path, upstream: str, *, events: str = "127.0.0.1:9") -> str:
    """The proxy in front of an address; returns its own."""
    assert shutil.which("nginx"), "nginx is missing: apt-get install nginx (see CONTRIBUTING.md)"
    folder.mkdir()
    port, plain_port = valkey.free_port(), valkey.free_port()
    conf = folder / "nginx.conf"
    ports = {"port": port, "plain_port": plain_port}
    conf.write_text(configuration(folder, upstream=upstream, events=events, **ports))
    process = crew.run("nginx", ["nginx", "-c", str(conf), "-p", str(folder), "-e", "stderr"])
    crew.wait(process, lambda: accepts(port) and accepts(plain_port))
    return f"https://127.0.0.1:{port}"


def accepts(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def held(crew: Processes, provider: str) -> str:
    """The endpoint that keeps its client waiting; returns host and port."""
    port = valkey.free_port()
    words = ["--port", str(port), "--provider", provider]
    process = crew.run("held", ["python", "-m", "benchmarks.held", *words])
    crew.wait(process, lambda: accepts(port))
    return f"127.0.0.1:{port}"


def test_the_held_connection_gets_its_504_and_a_job_is_delivered(
    crew: Processes,
    stand_in: Provider,
    ada: Api,
    tmp_path: Path,
):
    ours = urlsplit(crew.web(HTTPS="1", TRUSTED_PROXIES="1", INFERENCE_TIMEOUT_S="60")).netloc
    crew.worker(INFERENCE_TIMEOUT_S="60")
    theirs = nginx(crew, tmp_path / "theirs", held(crew, stand_in.url))
    caller = Caller(nginx(crew, tmp_path / "ours", ours), ada.token)
    stand_in.hold()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            requests.post, f"{theirs}/reports", json={"prompt": "hello"}, timeout=SOON_S
        )
        began = time.monotonic()
        accepted = caller.post("hello")
        took_s = time.monotonic() - began
        refused = waiting.result()
    job_id = accepted.json()["job_id"]
    thinking = caller.job(job_id)
    stand_in.release()
    job = caller.ended(job_id)

    assert refused.status_code == 504
    assert refused.elapsed.total_seconds() >= PATIENCE_S
    assert accepted.status_code == 202
    assert took_s < AT_ONCE_S
    assert thinking["status"] == "running"
    assert (job["status"], job["text"]) == ("succeeded", "hello")
    assert called(stand_in) == ["", job_id]


def test_what_the_example_says_of_headers_and_paths_is_so(
    crew: Processes, ada: Api, tmp_path: Path
):
    ours = crew.web(HTTPS="1", TRUSTED_PROXIES="1")
    _, streaming = crew.events(HTTPS="1", TRUSTED_PROXIES="1")
    front = nginx(crew, tmp_path / "ours", urlsplit(ours).netloc, events=urlsplit(streaming).netloc)
    caller = Caller(front, ada.token)

    budget = caller.ask("GET", "/budget", headers={"X-Request-ID": "a-clients-own"})
    large = caller.post("x" * 200_000)
    page = caller.ask("GET", "/login/")
    statics = re.findall(r'(?:href|src)="(/static/[^"]+)"', page.text)

    assert budget.status_code == 200
    assert re.fullmatch("[0-9a-f]{32}", budget.headers["X-Request-ID"])
    assert large.status_code == 413
    assert large.json()["error"] == "too_large"
    assert "Secure" in page.headers["Set-Cookie"]
    assert statics
    assert [caller.ask("GET", path).status_code for path in statics] == [200] * len(statics)
    assert caller.ask("GET", "/healthz").status_code == 200
    assert [caller.ask("GET", path).status_code for path in ("/metrics", "/readyz")] == [404] * 2
    assert requests.get(f"{ours}/metrics", timeout=SOON_S).status_code == 200
    # Events come through as they happen, and are not kept until there are enough of them.
    job = job_in("running", user=ada.user)
    headers = {"Authorization": f"Bearer {ada.token}"}
    stream = Listener(f"{front}/reports/{job.pk}/events", headers).open()
    assert stream.next().data["status"] == "running"
    response = f"{front}/v1/responses/{ids.response_id(job.pk)}"
    course = Listener(f"{response}?stream=true", headers).open()
    assert [course.next().kind for _ in range(3)][-1] == "response.in_progress"
    transitions.cancel(job)
    assert stream.next().data["status"] == "failed"
    assert stream.rest() == []
    assert [event.kind for event in course.rest()] == ["response.failed"]
    polled = requests.get(response, headers=headers, timeout=SOON_S)
    assert polled.json()["status"] == "cancelled"
    # Past the proxy everybody is sent to https.
    direct = requests.get(f"{ours}/login/", timeout=SOON_S, allow_redirects=False)
    assert direct.status_code == 301
