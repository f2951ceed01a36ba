"""Images by URL, for operators who allow it: https to public addresses, and nothing else.

A name is resolved once, its addresses are checked, and the connection goes to one of those checked.
Redirects are followed by hand, each checked like the first. Proxies and cookies are not used.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from ssl import SSLContext

from aiohttp import ClientError, ClientSession, DummyCookieJar, TCPConnector, ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from mmconv.service.errors.problems import Problem, too_large

MOST_REDIRECTS = 3
SECONDS = 15.0
"""The time that a fetch may take in all."""

_NAT64 = ip_network("64:ff9b::/96")
_GIVEN_OUT = ip_network("2000::/3")
"""All of IPv6 that the internet uses; beyond it lie site-local, mapped and unassigned addresses."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet, and of nobody's own network.

    An IPv6 address that carries an IPv4 address is judged by the latter.
    """
    ip = ip_address(address)
    if isinstance(ip, IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is not None or ip in _NAT64:
            return is_public(str(inner or ip_address(int(ip) & 0xFFFFFFFF)))
        if ip not in _GIVEN_OUT:
            return False
    return ip.is_global and not ip.is_multicast


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Where a fetch may go: addresses that `allowed` lets pass, one port, servers to trust."""

    allowed: Callable[[str], bool] = is_public
    port: int = 443
    trust: SSLContext | bool = True


class Forbidden(OSError):
    """An address that a fetch may not go to."""


async def fetch(url: str, most: int, param: str, rules: Rules | None = None) -> bytes:
    """At most `most` bytes from a URL that a client sent in the field `param`.

    Raises `Problem` 400 or 413; it does not tell what was found at a forbidden address.
    """
    rules = rules or Rules()
    connector = TCPConnector(resolver=_Resolver(rules), ssl=rules.trust)
    try:
        async with (
            asyncio.timeout(SECONDS),
            ClientSession(
                connector=connector,
                cookie_jar=DummyCookieJar(),
                auto_decompress=False,
                headers={"Accept": "image/*", "Accept-Encoding": "identity"},
            ) as session,
        ):
            return await _follow(session, _checked(url, rules), most, param, rules)
    except (ClientError, OSError, ValueError) as error:
        told = str(error) if isinstance(error, Forbidden) else "the image's URL cannot be fetched"
        raise Problem(400, told, param=param, code="invalid_image_url") from error


async def _follow(session: ClientSession, place: URL, most: int, param: str, rules: Rules) -> bytes:
    for _ in range(MOST_REDIRECTS + 1):
        async with session.get(place, allow_redirects=False) as response:
            if response.status in _REDIRECTS:
                place = _checked(place.join(URL(response.headers.get("Location", ""))), rules)
                continue
            response.raise_for_status()
            data = bytearray()
            async for chunk in response.content.iter_any():
                data += chunk
                if len(data) > most:
                    raise too_large("the image", most, param)
            return bytes(data)
    raise Forbidden("the image's URL is redirected too often")


def _checked(url: str | URL, rules: Rules) -> URL:
    """The URL as the connection will read it; raises `Forbidden` or `ValueError`."""
    place = URL(url)
    if place.scheme != "https" or place.port != rules.port or place.user or place.password:
        raise Forbidden(f"an image's URL must be https, on port {rules.port}, without a password")
    # The resolver is not asked about a host that is an address already.
    host = place.host or ""
    if _is_address(host) and not rules.allowed(host):
        raise Forbidden("the image's URL leads to an address that is not public")
    return place


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class _Resolver(AbstractResolver):
    """Resolves names, and refuses those that lead to any address that is not allowed."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        if not found or not all(self._rules.allowed(each["host"]) for each in found):
            raise Forbidden("the image's URL leads to an address that is not public")
        return found

    async def close(self) -> None:
        await self._resolver.close()
