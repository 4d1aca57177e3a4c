"""The keyed hash that stands for an erased prompt, so that its key still tells same from other."""

from __future__ import annotations

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac

SALT = "reports.prompt"


def of(prompt: str) -> str:
    """The hash, keyed with SECRET_KEY: guesses cannot be tested against the table alone."""
    return salted_hmac(SALT, prompt, algorithm="sha256").hexdigest()


def matches(digest: str, prompt: str) -> bool:
    """Whether this is that prompt's hash, under the present key or one of its fallbacks."""
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return any(
        constant_time_compare(
            salted_hmac(SALT, prompt, secret=key, algorithm="sha256").hexdigest(), digest
        )
        for key in keys
    )
