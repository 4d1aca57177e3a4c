"""The unmodified openai SDK as a client: over the network, or of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2
from openai import OpenAI

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.clients import Api


def over_http(address: str, api: Api) -> OpenAI:
    """One that asks a running web process, and never twice."""
    return OpenAI(api_key=api.token, base_url=f"{address}/v1", max_retries=0, timeout=30)


def inside(api: Api) -> OpenAI:
    """One whose requests Django answers in this process."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {name: text for name, text in request.headers.items() if name != "content-length"}
        path = request.url.raw_path.decode()
        came = api.request(
            request.method,
            path,
            data=request.read(),
            content_type=headers.pop("content-type", ""),
            headers=headers,
        )
        return httpx2.Response(came.status_code, headers=dict(came.headers), content=came.content)

    return answered(answer, api_key=api.token)


def answered(
    answer: Callable[[httpx2.Request], httpx2.Response], *, api_key: str = "none"
) -> OpenAI:
    """One whose requests are answered like this."""
    http_client = httpx2.Client(transport=httpx2.MockTransport(answer))
    address = "http://testserver/v1"
    return OpenAI(api_key=api_key, base_url=address, max_retries=0, http_client=http_client)
