"""Standard Webhooks 1.0: secrets, and the headers that prove where a message comes from.

A secret is not stored. It follows from SECRET_KEY and a random seed in the row, so that the
database alone lets nobody sign, and a copy of a row shows nobody a secret.
"""

from __future__ import annotations

import base64
import secrets
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac
from standardwebhooks.webhooks import Webhook

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

SALT = "webhooks.secret"
KEY_SALT = "webhooks.key"
SEED_BYTES = 24
KNOWN_BY = 16  # hexadecimal digits that tell which SECRET_KEY made it
LONGEST_SEED = 64


class KeyGone(Exception):
    """The SECRET_KEY that this secret follows from is neither the present one nor a fallback."""


def new_seed() -> str:
    """A seed for a new secret, and a mark of the key that it is for."""
    return f"{_mark(settings.SECRET_KEY)}.{secrets.token_urlsafe(SEED_BYTES)}"


def secret_of(seed: str) -> str:
    """The secret as its owner is shown it once: `whsec_` and 32 bytes in base64. Raises KeyGone."""
    mark = seed.partition(".")[0]
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        if constant_time_compare(_mark(key), mark):
            made = salted_hmac(SALT, seed, secret=key, algorithm="sha256").digest()
            return f"whsec_{base64.b64encode(made).decode()}"
    raise KeyGone


def headers(seeds: Sequence[str], *, webhook_id: str, at: datetime, body: str) -> dict[str, str]:
    """What proves a message: one signature for each secret that is good now. Raises KeyGone."""
    signatures = [Webhook(secret_of(seed)).sign(webhook_id, at, body) for seed in seeds]
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


def _mark(key: str) -> str:
    return salted_hmac(KEY_SALT, "", secret=key, algorithm="sha256").hexdigest()[:KNOWN_BY]
