"""Whose address counts: the peer's, or what the proxies that we trust say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import RequestFactory

from access.addresses import address_of

if TYPE_CHECKING:
    from pytest_django import Settings


def found(peer: str, forwarded: str | None = None) -> str | None:
    """The address of a request from this peer."""
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    return address_of(RequestFactory(REMOTE_ADDR=peer).get("/", headers=headers))


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2::9", "2001:db8:1:2::"),
        ("", None),
        ("unix:", None),
    ],
)
def test_the_peer_counts_and_an_ipv6_household_is_one(peer: str, address: str | None):
    assert found(peer) == address
    assert found(peer, "198.51.100.7") == address


@pytest.mark.parametrize(
    ("hops", "forwarded", "address"),
    [
        (1, "198.51.100.7", "198.51.100.7"),
        (1, "203.0.113.1, 198.51.100.7", "198.51.100.7"),
        (2, "203.0.113.1, 198.51.100.7", "203.0.113.1"),
        (2, "9.9.9.9,203.0.113.1 , 198.51.100.7", "203.0.113.1"),
        (2, "198.51.100.7", "192.0.2.1"),
        (1, None, "192.0.2.1"),
        (1, "", "192.0.2.1"),
        (1, "nonsense\x00", "192.0.2.1"),
        (1, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
    ],
)
def test_each_trusted_proxy_names_one_and_nobody_else_is_believed(
    settings: Settings, hops: int, forwarded: str | None, address: str
):
    settings.TRUSTED_PROXIES = hops

    assert found("192.0.2.1", forwarded) == address
