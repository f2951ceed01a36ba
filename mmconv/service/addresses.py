"""Where requests of the server may go that a client names: public addresses only.

A name is resolved once, its addresses are checked, and the connection goes to one of those.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from ssl import SSLContext

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

_NAT64 = ip_network("64:ff9b::/96")

_ALLOCATED = ip_network("2000::/3")
"""All of IPv6 that the internet uses. Other addresses are site-local, mapped or unassigned."""


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet.

    An IPv6 address that embeds an IPv4 address is judged by the latter.
    """
    ip = ip_address(address)
    if isinstance(ip, IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is not None or ip in _NAT64:
            return is_public(str(inner or ip_address(int(ip) & 0xFFFFFFFF)))
        if ip not in _ALLOCATED:
            return False
    return ip.is_global and not ip.is_multicast


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Where a request may go: addresses that `allowed` accepts, schemes, a port, trusted servers.

    Without a `port` any is allowed.
    """

    allowed: Callable[[str], bool] = is_public
    schemes: tuple[str, ...] = ("https",)
    port: int | None = 443
    trust: SSLContext | bool = True


class Forbidden(OSError):
    """An address that a request may not go to."""


def check_url(text: str | URL, rules: Rules, what: str) -> URL:
    """The URL as the connection will read it; errors call it `what`.

    Raises `Forbidden` or `ValueError`.
    """
    url = URL(text)
    if url.scheme not in rules.schemes or url.user or url.password:
        scheme = " or ".join(rules.schemes)
        raise Forbidden(f"{what} must be {scheme}, without a password")
    if rules.port not in (None, url.port):
        raise Forbidden(f"{what} must be on port {rules.port}")
    try:
        # The resolver is not called for a host that is an address already.
        address = str(ip_address(url.host or ""))
    except ValueError:
        # aiohttp takes 127.1 and 2130706433 for addresses too, and the system reads them as such
        if not url.host or url.host.replace(".", "").isdigit():
            raise Forbidden(f"{what} must name a host or a full IP address") from None
        return url
    if not rules.allowed(address):
        raise Forbidden(f"{what} leads to an address that is not public")
    return url


class Resolver(AbstractResolver):
    """Resolves names, and refuses those with any address that is not allowed."""

    def __init__(self, rules: Rules, what: str) -> None:
        self._rules = rules
        self._what = what
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """See `AbstractResolver`. Raises `Forbidden`."""
        results = await self._resolver.resolve(host, port, family)
        if not results or not all(self._rules.allowed(result["host"]) for result in results):
            raise Forbidden(f"{self._what} leads to an address that is not public")
        return results

    async def close(self) -> None:
        """See `AbstractResolver`."""
        await self._resolver.close()
