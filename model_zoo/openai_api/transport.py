"""How a chat-completions server is reached: which connections carry the requests, what comes back.

Nothing is sent here. A server that is spoken to in plain HTTP, as those on one's own machines are,
is asked over mmconv's own connections (`plain_http`): they cost a fourth of the CPU time, and less
memory. TLS, proxies and all else that such a server does not need are left to aiohttp (`session`),
which takes a quarter of a second to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from mmconv.errors import Transient
from model_zoo.openai_api.endpoint import Endpoint
from model_zoo.openai_api.proxies import find_proxy

LONGEST_CONNECT = 30.0  # seconds: a host that is not there shall not cost a whole timeout
LARGEST_ANSWER = 2**25  # bytes, unpacked: no reply is as long


class Answer(NamedTuple):
    """What a server answers, whatever its status; `headers` are asked for in lower case.

    `seconds` passed between the request, or a session's connecting for it, and the answer's end.
    """

    status: int
    headers: Mapping[str, str]
    data: bytes
    seconds: float


class Transport(Protocol):
    """Kept connections to one server. Redirects are not followed, and cookies not kept."""

    async def post(self, body: bytes) -> Answer:
        """Send a JSON body once, and read the answer to its end; raises `Transient`.

        It waits for a connection; neither `timeout` nor the answer's seconds run meanwhile.
        After `aclose` it is a bug, and a `RuntimeError`.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


def open_transport(endpoint: Endpoint, timeout: float, most: int) -> Transport:
    """What reaches an endpoint, by so many connections at the `most`; none is opened yet.

    A request ends after `timeout` seconds. Needs a running event loop. Raises `ConfigError` for a
    proxy that is not spoken to by HTTP.
    """
    proxy = find_proxy(endpoint.url)
    if proxy is None and _is_plain(endpoint.url):
        from model_zoo.openai_api.plain_http import PlainHttp

        return PlainHttp(endpoint, timeout, most)
    from model_zoo.openai_api.session import Session

    return Session(endpoint, timeout, most, proxy)


def request_headers(endpoint: Endpoint, **given: str) -> dict[str, str]:
    """What stands above every request, with what is `given`; the endpoint's own goes before."""
    given = {"Content-Type": "application/json", "User-Agent": "mmconv", **given}
    own = {name.lower() for name in endpoint.signed}
    return {name: given[name] for name in given if name.lower() not in own} | endpoint.signed


def too_long() -> Transient:
    """What is told of an answer that is read no further."""
    return Transient("malformed", f"an answer of more than {LARGEST_ANSWER >> 20} MiB")


def _is_plain(url: str) -> bool:
    """Whether an address asks for no TLS, no password and no encoding of its host."""
    parts = urlsplit(url)
    return parts.scheme == "http" and "@" not in parts.netloc and parts.netloc.isascii()
