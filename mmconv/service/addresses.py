"""Where requests of the server may go that a client names: public addresses only.

A name is resolved once, its addresses are checked, and the connection goes to one of those.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from ssl import SSLContext
from typing import Any

from aiohttp import ClientSession, DummyCookieJar, TCPConnector, ThreadedResolver
from aiohttp.abc import ResolveResult
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


class Forbidden(OSError):
    """An address that a request may not go to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Where a request may go: addresses that `allowed` accepts, schemes, a port, trusted servers.

    Errors call the URL `what`. Without a `port` any is allowed.
    """

    what: str
    allowed: Callable[[str], bool] = is_public
    schemes: tuple[str, ...] = ("https",)
    port: int | None = 443
    trust: SSLContext | bool = True

    def check(self, text: str | URL) -> URL:
        """The URL as the connection will read it. Raises `Forbidden` or `ValueError`."""
        url = URL(text)
        if url.scheme not in self.schemes or url.user or url.password:
            scheme = " or ".join(self.schemes)
            raise Forbidden(f"{self.what} must be {scheme}, without a password")
        if self.port not in (None, url.port):
            raise Forbidden(f"{self.what} must be on port {self.port}")
        try:
            # The resolver is not called for a host that is an address already.
            self.require([str(ip_address(url.host or ""))])
        except ValueError:
            # aiohttp takes 127.1 and 2130706433 for addresses, and so does the system
            if not url.host or url.host.replace(".", "").isdigit():
                raise Forbidden(f"{self.what} must name a host or a full IP address") from None
        return url

    def require(self, addresses: Sequence[str]) -> None:
        """Raise `Forbidden` if one of a host's addresses is not allowed, or none is known."""
        if not addresses or not all(map(self.allowed, addresses)):
            raise Forbidden(f"{self.what} leads to an address that is not public")

    def open_session(self, **fields: Any) -> ClientSession:
        """A session whose requests go where they may, without proxies and cookies."""
        return ClientSession(
            connector=TCPConnector(resolver=_Resolver(self), ssl=self.trust),
            cookie_jar=DummyCookieJar(),
            **fields,
        )


class _Resolver(ThreadedResolver):
    """Resolves names, and refuses those with any address that is not allowed."""

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self._rules = rules

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        results = await super().resolve(host, port, family)
        self._rules.require([result["host"] for result in results])
        return results
