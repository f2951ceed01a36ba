"""aiohttp's session with a chat-completions server: over TLS, or through a proxy."""

from __future__ import annotations

import asyncio
import io
from time import perf_counter

import aiohttp
from yarl import URL

from mmconv.errors import Transient
from model_zoo.openai_api.endpoint import Endpoint
from model_zoo.openai_api.transport import (
    LARGEST_ANSWER,
    LONGEST_CONNECT,
    Answer,
    request_headers,
    too_long,
)

_LARGEST_PLAIN_BODY = 2**20  # bytes: aiohttp warns of larger ones, and sends a file in pieces


class Session:
    """A `Transport`; `proxy` is the URL of an HTTP proxy, or None."""

    def __init__(self, endpoint: Endpoint, timeout: float, most: int, proxy: str | None) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        # Not the connector's own limit: `timeout` would run for what waits there.
        self._room = asyncio.Semaphore(most)
        self._url = URL(f"{endpoint.url}/chat/completions").with_query(endpoint.query or None)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(
                total=timeout, sock_connect=min(timeout, LONGEST_CONNECT)
            ),
            headers=request_headers(endpoint),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Not `trust_env`: it asks a thread at every request, and sends ~/.netrc's passwords.
            proxy=proxy,
        )

    async def post(self, body: bytes) -> Answer:
        """As `Transport.post`."""
        data = body if len(body) <= _LARGEST_PLAIN_BODY else io.BytesIO(body)
        async with self._room:
            return await self._post(data)

    async def _post(self, data: bytes | io.BytesIO) -> Answer:
        begun = perf_counter()
        try:
            async with self._session.post(self._url, data=data, allow_redirects=False) as answer:
                read = await _read(answer)
                return Answer(answer.status, answer.headers, read, perf_counter() - begun)
        except TimeoutError as error:
            told = self._endpoint.excerpt(str(error)) or f"no reply in {self._timeout:g} s"
            raise Transient("timeout", told) from error
        except aiohttp.ClientHttpProxyError as error:
            # Its own words hold the proxy's address, and so the password there.
            told = f"the proxy answers HTTP {error.status}: {error.message}"
            raise Transient("connection", self._endpoint.excerpt(told)) from None
        except aiohttp.ClientError as error:
            told = self._endpoint.excerpt(f"{type(error).__name__}: {error}")
            raise Transient("connection", told) from error

    async def aclose(self) -> None:
        """As `Transport.aclose`."""
        await self._session.close()


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for piece in answer.content.iter_any():
        data += piece
        if len(data) > LARGEST_ANSWER:
            raise too_long()
    return bytes(data)
