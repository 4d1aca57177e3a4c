"""Users as programs see them: a token, and the requests that CONTRACT names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from access.models import Token

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.http import HttpResponse

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Api:
    """One user with one bearer token."""

    user: User
    token: str

    @classmethod
    def of_new(cls, username: str) -> Api:
        """A new user, whose token was used within this hour: the first use is a statement more."""
        user = get_user_model().objects.create_user(username)
        return cls(user, Token.objects.create(user, last_used_at=timezone.now())[1])

    @property
    def user_id(self) -> int:
        """The user's id."""
        return int(self.user.pk)

    def post(
        self,
        prompt: object = "hello",
        *,
        key: str | None = "key-1",
        path: str = "/reports",
        **headers: str,
    ) -> HttpResponse:
        """POST /reports; `prompt` is put into its object, `key` in its header."""
        return self.post_raw(json.dumps({"prompt": prompt}).encode(), key=key, path=path, **headers)

    def post_raw(
        self,
        body: bytes,
        *,
        key: str | None = "key-1",
        path: str = "/reports",
        content_type: str = JSON,
        **headers: str,
    ) -> HttpResponse:
        """POST these bytes."""
        if key is not None:
            headers["Idempotency-Key"] = key
        # Django's client leaves the type of an empty body out, unless it is a header.
        headers["Content-Type"] = content_type
        return self.request("POST", path, data=body, content_type=content_type, headers=headers)

    def get(self, path: str, **headers: str) -> HttpResponse:
        """GET a path; underscores in names of headers stand for hyphens."""
        return self.request("GET", path, headers=headers)

    def request(self, method: str, path: str, **how: Any) -> HttpResponse:
        """Any request with this user's token."""
        named = {name.replace("_", "-"): text for name, text in how.pop("headers", {}).items()}
        headers = {"Authorization": f"Bearer {self.token}", **named}
        answer: object = Client().generic(method, path, headers=headers, **how)
        return cast("HttpResponse", answer)

    def browser(self) -> Client:
        """A signed-in session that must send CSRF tokens, like a real one."""
        client = Client(enforce_csrf_checks=True)
        client.force_login(self.user)
        return client
