"""The connection to a chat-completions server: one pooled aiohttp session.

aiohttp with bytes that are ready to send, and not the `openai` client, because this is the hot
path of every run: with an image of 300 kB a call costs a sixth of that client's CPU time.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter

import aiohttp
from yarl import URL

from mmconv.config import ModelSpec
from mmconv.errors import Transient
from mmconv.protocols import ImageSource
from mmconv.values import Message, Reply, Sampling, SeenImage
from model_zoo.openai_api.data_uris import DataUris
from model_zoo.openai_api.endpoint import Endpoint
from model_zoo.openai_api.failures import read_failure
from model_zoo.openai_api.proxies import find_proxy
from model_zoo.openai_api.replies import read_reply
from model_zoo.openai_api.request import OpenAIOptions, encode_request

_DEFAULT_CONCURRENCY = 64
_LONGEST_CONNECT = 30.0  # seconds: a host that is not there shall not cost a whole timeout
_LARGEST_PLAIN_BODY = 2**20  # bytes: aiohttp warns of larger ones, and sends a file in pieces
_LARGEST_ANSWER = 2**25  # bytes, unpacked: no reply is as long


class ChatClient:
    """A `Backend` that asks one endpoint. Needs a running event loop from the start."""

    def __init__(
        self, spec: ModelSpec, endpoint: Endpoint, options: OpenAIOptions, images: ImageSource
    ) -> None:
        self._endpoint = endpoint
        self._options = options
        self._timeout = spec.timeout
        self._concurrency = spec.max_concurrency or _DEFAULT_CONCURRENCY
        self._uris = DataUris(images, options)
        self._url = URL(f"{endpoint.url}/chat/completions").with_query(endpoint.query or None)
        # Not the connector's own limit: `timeout` would run for what waits there.
        self._connections = asyncio.Semaphore(self._concurrency)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(
                total=spec.timeout, sock_connect=min(spec.timeout, _LONGEST_CONNECT)
            ),
            headers={
                "Content-Type": "application/json",
                "User-Agent": "mmconv",
                **endpoint.signed,
            },
            cookie_jar=aiohttp.DummyCookieJar(),
            # Not `trust_env`: it asks a thread at every request, and sends ~/.netrc's passwords.
            proxy=find_proxy(endpoint.url),
        )

    @property
    def max_concurrency(self) -> int:
        """An eighth more than there are connections.

        What is over waits, ready to send, for a connection that comes free: none of them idles
        while the next request is put together, and no more are under way than allowed. Neither
        `timeout` nor a reply's seconds run meanwhile.
        """
        return self._concurrency + self._concurrency // 8

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Ask once; raises `Transient` or `Refused`, and `ImageError` for an image that is gone.

        What says nothing at all, not even thoughts, is asked for once more, since hosts that are
        just starting answer so. Said twice, it is what the model says; the tokens are of both.
        """
        shown = [image for message in messages for image in message.images]
        uris = await self._uris.get(shown)
        fragments = {uri.seen.sha256: uri.fragment for uri in uris}
        body = encode_request(self._endpoint.model, messages, sampling, self._options, fragments)
        seen = tuple([uri.seen for uri in uris])
        reply = await self._ask(body, seen)
        if reply.text.strip() or reply.reasoning or reply.finish == "length":
            return reply
        again = await self._ask(body, seen)
        return replace(
            again,
            input_tokens=_sum(reply.input_tokens, again.input_tokens),
            output_tokens=_sum(reply.output_tokens, again.output_tokens),
        )

    async def aclose(self) -> None:
        """Close all connections and drop the images kept."""
        await self._session.close()
        await self._uris.aclose()

    async def _ask(self, body: bytes, seen: tuple[SeenImage, ...]) -> Reply:
        async with self._connections:
            begun = perf_counter()
            status, headers, data = await self._post(body)
            seconds = perf_counter() - begun
        # The request that waited for this connection goes out before this reply is worked on.
        await asyncio.sleep(0)
        if not 200 <= status < 300:
            raise read_failure(status, headers, data, self._endpoint)
        return read_reply(data, self._endpoint, seconds=seconds, seen=seen)

    async def _post(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        data = body if len(body) <= _LARGEST_PLAIN_BODY else io.BytesIO(body)
        try:
            async with self._session.post(self._url, data=data, allow_redirects=False) as answer:
                return answer.status, answer.headers, await _read(answer)
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


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for piece in answer.content.iter_any():
        data += piece
        if len(data) > _LARGEST_ANSWER:
            raise Transient("malformed", f"an answer of more than {_LARGEST_ANSWER >> 20} MiB")
    return bytes(data)


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
