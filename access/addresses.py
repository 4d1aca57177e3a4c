"""Where a request comes from: the peer, or what the proxies in front of us say of it."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING

from django.conf import settings

if TYPE_CHECKING:
    from django.http import HttpRequest
    from rest_framework.request import Request

# The least that a customer is given (RFC 6177): whoever has one address there has them all.
IPV6_HOUSEHOLD_BITS = 64


def address_of(request: HttpRequest | Request) -> str | None:
    """The address to count attempts by: IPv4, or the /64 of an IPv6 one; None: none is known.

    Each of TRUSTED_PROXIES proxies has appended to X-Forwarded-For whom it was asked by; what
    stands further left came from the client, who may write anything.
    """
    peer = request.META.get("REMOTE_ADDR", "")
    hops = settings.TRUSTED_PROXIES
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
    if hops and len(forwarded) >= hops:
        return _household(forwarded[-hops].strip()) or _household(peer)
    return _household(peer)


def _household(text: str) -> str | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    network = ip_network((int(address), IPV6_HOUSEHOLD_BITS), strict=False)
    return str(network.network_address)
