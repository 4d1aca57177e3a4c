"""Where a message may go: addresses that a stranger names must lead out, and never to our inside.

A name is looked up once for an attempt, every address that it has must be public, and the
connection is made to one of those and to no other: a second look-up could answer otherwise.
"""

from __future__ import annotations

import socket
import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

LONGEST_URL = 2000
HTTPS_PORT, HTTP_PORT = 443, 80
FIRST_FREE_PORT = 1024  # below it live mail, shells and the like, for which this is no tool
# Whatever `is_global` may say of these: ways into other networks, and what belongs to nobody.
CLOSED = [
    ip_network(text)
    for text in (
        *("0.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "192.0.0.0/24", "192.88.99.0/24"),
        *("198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4"),
        # Mapped and compatible IPv4, NAT64, its local form, Teredo, 6to4, and site-local.
        *(
            "::/96",
            "::ffff:0:0/96",
            "64:ff9b::/96",
            "64:ff9b:1::/48",
            "2001::/23",
            "2002::/16",
            "3fff::/20",
        ),
        *("fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
    )
]
WORLD_IPV6 = ip_network("2000::/3")  # all that is given out of IPv6
# Nothing can interrupt getaddrinfo, so a look-up that hangs keeps a thread: this many at most.
_lookups = threading.BoundedSemaphore(16)

Address = tuple[int, int, int, str, tuple[Any, ...]]  # as getaddrinfo returns it


class Unfit(Exception):
    """An address that no message is sent to; the words are for its owner."""


@dataclass(frozen=True, slots=True)
class Target:
    """An address in its parts."""

    is_tls: bool
    host: str
    port: int
    path: str


def parse(url: str) -> Target:
    """The parts of an address. Raises Unfit with a sentence that says what it must be."""
    if len(url) > LONGEST_URL:
        raise Unfit(f"The address has {len(url)} characters; {LONGEST_URL} is the limit.")
    if not url.isascii() or any(sign <= " " or sign in '\\"<>^`{|}\x7f' for sign in url):
        raise Unfit("Write the address in plain ASCII, with everything else percent-encoded.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise Unfit("This is not an address.") from None
    schemes = {"https": HTTPS_PORT} | ({"http": HTTP_PORT} if settings.DEBUG else {})
    if parts.scheme not in schemes or not host or not url.lower().startswith(f"{parts.scheme}://"):
        raise Unfit("The address must begin with https:// and name a host.")
    if "@" in parts.netloc or parts.fragment or url.endswith("#"):
        raise Unfit("The address must hold no user, password or fragment.")
    port = schemes[parts.scheme] if port is None else port
    if port not in schemes.values() and port < FIRST_FREE_PORT:
        raise Unfit(f"The port must be {HTTPS_PORT} or from {FIRST_FREE_PORT} on.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(is_tls=parts.scheme == "https", host=host, port=port, path=path)


def resolve(target: Target, *, within_s: float) -> list[Address]:
    """The addresses of a host, all of which are public. Raises Unfit, in words that tell no more.

    In development any address will do, so that a receiver can run beside the product.
    """
    unfit = Unfit("The host cannot be found, or is not on the public internet.")
    found: Future[list[Address]] = Future()
    if not _lookups.acquire(timeout=within_s):
        raise unfit
    threading.Thread(
        target=_look_up, args=(found, target), name="webhook-lookup", daemon=True
    ).start()
    try:
        addresses = found.result(timeout=within_s)
    except (OSError, TimeoutError, UnicodeError):
        found.cancel()
        raise unfit from None
    if not addresses or not all(settings.DEBUG or is_public(each[4][0]) for each in addresses):
        raise unfit
    return addresses


def is_public(text: str) -> bool:
    """Whether a numeric address is one of the public internet."""
    try:
        address: IPv4Address | IPv6Address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address not in WORLD_IPV6:
        return False
    inside = any(address.version == net.version and address in net for net in CLOSED)
    return address.is_global and not address.is_multicast and not inside


def _look_up(found: Future[list[Address]], target: Target) -> None:
    try:
        addresses = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        with suppress(InvalidStateError):  # nobody waits any more
            found.set_exception(error)
    else:
        with suppress(InvalidStateError):
            found.set_result(addresses)  # type: ignore[arg-type]  # the stubs know fewer shapes
    finally:
        _lookups.release()
