"""The proxy through which a server is reached, as the environment names it."""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from mmconv.errors import ConfigError

_OWN_NAMES = frozenset({"localhost", "::1"})


def find_proxy(url: str) -> str | None:
    """The proxy (HTTP_PROXY, HTTPS_PROXY) for an address; none where NO_PROXY names its host.

    This machine's own servers are never asked through one. Raises `ConfigError` for a proxy that is
    not spoken to by HTTP.
    """
    server = urlsplit(url)
    host = server.hostname or ""
    own = host in _OWN_NAMES or host.startswith("127.")
    told = None if own or proxy_bypass(host) else getproxies().get(server.scheme)
    if told is None:
        return None
    proxy = told if "://" in told else f"http://{told}"
    if _is_http(proxy):
        return proxy
    raise ConfigError(
        f"environment variable {server.scheme.upper()}_PROXY: expected the address of an HTTP "
        "proxy, such as http://host:3128"
    )


def _is_http(proxy: str) -> bool:
    parts = urlsplit(proxy)
    try:
        parts.port  # noqa: B018  (raises for what is no number)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)
