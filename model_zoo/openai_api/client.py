"""A chat-completions server as a backend: messages in, reply out, over aiohttp.

Bodies are bytes, not the `openai` client's objects: this is the hot path of every run.
"""

from __future__ import annotations

import asyncio
import io
import resource
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp

from mmconv.core.config import ModelSpec
from mmconv.core.errors import Refused, Transient
from mmconv.core.keys import hash_bytes
from mmconv.core.protocols import ImageSource, Listen, ServerLimit
from mmconv.core.types import Message, Reply, Sampling, SeenImage
from model_zoo.base import request_twice_if_empty
from model_zoo.openai_api.endpoint import Endpoint, find_proxy
from model_zoo.openai_api.replies import read_failure, read_limits, read_model_names, read_reply
from model_zoo.openai_api.request import DataUris, OpenAIOptions, encode_request
from model_zoo.openai_api.streaming import StreamedCompletion

_DEFAULT_CONCURRENCY = 64

_LONGEST_CONNECT = 30.0  # seconds: an unreachable host should not cost a whole timeout
_LONGEST_IDLE = 4.0  # seconds: uvicorn and vLLM close an idle connection after 5 s
_AT_ONCE = 1.0  # seconds: a server that hangs up later has worked on the request

_OPENAI = "api.openai.com"
_LONGEST_SESSION = 32  # characters of a hash

_TRY_AGAIN = 0.5  # seconds between connections to a server that is not up yet
_LATER_WAIT = 1.0  # seconds that later calls wait for a server that was not up in time
_PORTS = {"http": 80, "https": 443}

_OTHER_FILES = 32  # open files that are not connections: store, data, images, results

_LARGEST_ANSWER = 2**25  # bytes, decompressed: no reply is as long
_LARGEST_PLAIN_BODY = 2**20  # bytes: aiohttp warns of larger ones, and sends a file in pieces


class Answer(NamedTuple):
    """An HTTP answer of any status; `seconds` to its last byte, `headers` ignore case."""

    status: int
    headers: Mapping[str, str]
    data: bytes
    seconds: float


class Session:
    """At most `limit` keep-alive connections to one server. Needs a running event loop.

    Redirects are not followed, cookies not kept. Raises `ConfigError` for a proxy that does not
    speak HTTP.
    """

    def __init__(self, endpoint: Endpoint, timeout: float, limit: int) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        # Not the connector's own limit: `timeout` would run while a request waits for it.
        self._limit = asyncio.Semaphore(limit)
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_LONGEST_IDLE),
            timeout=aiohttp.ClientTimeout(total=timeout, connect=min(timeout, _LONGEST_CONNECT)),
            headers=_headers(endpoint),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Not `trust_env`: it uses a thread at every request, and sends ~/.netrc's passwords.
            proxy=find_proxy(endpoint.url),
        )

    async def post(
        self,
        body: bytes,
        listen: Listen | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a JSON body to chat/completions; raises `Transient`, `RuntimeError` once closed.

        Waiting for a free connection counts neither towards the timeout nor as seconds. `listen`
        gets the pieces of an answer that is a stream; its data is that of one that is not.
        """
        async with self._limit:
            post = partial(self._send, "POST", "chat/completions", body, listen, headers)
            return await self._request(post)

    async def get(self, path: str) -> Answer:
        """Get a path below the base URL; raises as `post` does."""
        return await self._request(partial(self._send, "GET", path))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.close()

    async def _request(self, send: Callable[[], Awaitable[Answer]]) -> Answer:
        try:
            return await _resend_once(send)
        except aiohttp.ClientHttpProxyError as error:
            # The error's text holds the proxy's address, and so its password.
            message = f"the proxy answers HTTP {error.status}: {error.message}"
            raise Transient("connection", self._endpoint.excerpt(message)) from None
        except aiohttp.ClientConnectorCertificateError as error:
            raise Refused("connection", self._endpoint.excerpt(str(error))) from error
        # UnicodeError: a name that no host can have
        except (aiohttp.ClientError, UnicodeError) as error:
            message = f"{self._endpoint.url}: {str(error) or type(error).__name__}"
            raise Transient("connection", self._endpoint.excerpt(message)) from error
        except TimeoutError as error:
            raise Transient("timeout", f"no reply in {self._timeout:g} s") from error

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        listen: Listen | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        begun = perf_counter()
        data = io.BytesIO(body) if body and len(body) > _LARGEST_PLAIN_BODY else body
        async with self._http.request(
            method,
            f"{self._endpoint.url}/{path}",
            params=self._endpoint.query or None,
            data=data,
            headers=headers,
            allow_redirects=False,
        ) as answer:
            read = bytearray()
            stream = None
            if listen is not None and answer.content_type == "text/event-stream":
                stream = StreamedCompletion(listen)
            async for piece in answer.content.iter_any():
                read += piece
                if len(read) > _LARGEST_ANSWER:
                    raise Transient("malformed", f"an answer over {_LARGEST_ANSWER >> 20} MiB")
                if stream is not None:
                    stream.feed(piece)
            data = bytes(read) if stream is None else stream.body()
            return Answer(answer.status, answer.headers, data, perf_counter() - begun)


async def _resend_once(send: Callable[[], Awaitable[Answer]]) -> Answer:
    """Send a request; resend it once if the server hangs up at once.

    A server may close an idle connection just when a request goes out on it. aiohttp itself
    resends only requests other than POST.
    """
    begun = perf_counter()
    try:
        return await send()
    except aiohttp.ClientConnectorError:
        raise
    except (
        aiohttp.ServerDisconnectedError,
        aiohttp.ClientOSError,
        aiohttp.ClientConnectionResetError,
    ):
        if perf_counter() - begun > _AT_ONCE:
            raise
    return await send()


class ChatClient:
    """A `Backend` of one endpoint. Needs a running event loop from the start."""

    def __init__(
        self, spec: ModelSpec, endpoint: Endpoint, options: OpenAIOptions, images: ImageSource
    ) -> None:
        self._endpoint = endpoint
        self._options = options
        self._concurrency = min(spec.max_concurrency or _DEFAULT_CONCURRENCY, _most_connections())
        self._uris = DataUris(images, options)
        self._session = Session(endpoint, spec.timeout, self._concurrency)
        self._has_cache_key = options.prompt_cache_key
        if self._has_cache_key is None:
            self._has_cache_key = urlsplit(endpoint.url).hostname == _OPENAI
        self._wait = spec.wait_for_server
        self._first_contact: asyncio.Task[None] | None = None
        self._is_reached = False
        self.limits: tuple[ServerLimit, ...] = ()

    @property
    def max_concurrency(self) -> int:
        """A quarter more than there are connections, if there are at least four.

        The surplus waits, ready to send, so that no connection idles while the next request is
        claimed and encoded.
        """
        return self._concurrency + self._concurrency // 4

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Answer once; raises `Transient` or `Refused`, and `ImageError` for a missing image.

        An empty reply, also without reasoning, is re-requested once: hosts that are just starting
        send such. If it is empty again, that is the answer; the tokens are those of both.
        """
        return await self._answer(messages, sampling, affinity)

    async def stream(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str, listen: Listen
    ) -> Reply:
        """Answer once, and pass on the pieces of the reply; raises as `generate` does."""
        return await self._answer(messages, sampling, affinity, listen)

    async def _answer(
        self,
        messages: Sequence[Message],
        sampling: Sampling,
        affinity: str,
        listen: Listen | None = None,
    ) -> Reply:
        header, session = self._options.session_header, ""
        if header or self._has_cache_key:
            # a hash, since a name may have any length and characters
            session = hash_bytes(affinity.encode())[:_LONGEST_SESSION]
        body, seen = await self.encode(
            messages,
            sampling,
            session=session if self._has_cache_key else "",
            is_streamed=listen is not None,
        )
        post = partial(self._session.post, body, listen, {header: session} if header else None)
        if not self._is_reached:
            await self._reach()
        return await request_twice_if_empty(lambda: self._request(post, seen))

    async def encode(
        self,
        messages: Sequence[Message],
        sampling: Sampling,
        *,
        session: str = "",
        is_streamed: bool = False,
    ) -> tuple[bytes, tuple[SeenImage, ...]]:
        """The body of a request, and its images as they are sent."""
        uris = await self._uris.get(image for message in messages for image in message.images)
        body = encode_request(
            self._endpoint.model,
            messages,
            sampling,
            self._options,
            {uri.seen.sha256: uri for uri in uris},
            session=session,
            is_streamed=is_streamed,
        )
        return body, tuple([uri.seen for uri in uris])

    async def aclose(self) -> None:
        """Close all connections and drop the cached images."""
        if self._first_contact is not None:
            self._first_contact.cancel()
        self._is_reached = True  # a later call fails in the closed session
        await self._session.aclose()
        await self._uris.aclose()

    async def _reach(self) -> None:
        if self._first_contact is None or self._first_contact.done():
            self._first_contact = asyncio.create_task(reach(self._endpoint, self._wait))
        # other calls wait for the same connection, so a cancelled one must not stop it
        try:
            await asyncio.shield(self._first_contact)
        except Refused:
            self._wait = min(self._wait, _LATER_WAIT)
            raise
        self._is_reached = True

    async def _request(
        self, post: Callable[[], Awaitable[Answer]], seen: tuple[SeenImage, ...]
    ) -> Reply:
        try:
            status, headers, data, seconds = await post()
        except Transient:
            self.limits = ()
            raise
        self.limits = read_limits(headers)
        if not 200 <= status < 300:
            raise read_failure(status, headers, data, self._endpoint)
        return read_reply(data, self._endpoint, seconds=seconds, seen=seen)


async def reach(endpoint: Endpoint, seconds: float) -> None:
    """Wait for a first connection: the server may be starting. Raises `Refused` after `seconds`."""
    address = urlsplit(find_proxy(endpoint.url) or endpoint.url)
    port = address.port or _PORTS[address.scheme]
    reason: Exception | str = "it does not answer"
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    _, writer = await asyncio.open_connection(address.hostname, port)
                    break
                except (OSError, UnicodeError) as error:
                    reason = error
                await asyncio.sleep(_TRY_AGAIN)
    except TimeoutError:
        message = (
            f"no connection to {endpoint.url} in {seconds:g} s: {reason}; start the server, or use "
            "--wait-for-servers SECONDS (in a model file: wait_for_server) if it is still starting"
        )
        raise Refused("connection", endpoint.excerpt(message)) from None
    writer.close()


async def list_models(spec: ModelSpec, endpoint: Endpoint) -> tuple[str, ...]:
    """The names of the models that the server lists, sorted; raises as `generate` does."""
    await reach(endpoint, spec.wait_for_server)
    session = Session(endpoint, spec.timeout, 1)
    try:
        answer = await session.get("models")
    finally:
        await session.aclose()
    if not 200 <= answer.status < 300:
        raise read_failure(answer.status, answer.headers, answer.data, endpoint)
    return read_model_names(answer.data, endpoint)


def _headers(endpoint: Endpoint) -> dict[str, str]:
    ours = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
    ours["User-Agent"] = "mmconv"
    replaced = {name.lower() for name in endpoint.signed}
    return {name: ours[name] for name in ours if name.lower() not in replaced} | endpoint.signed


def _most_connections() -> int:
    """A limit that keeps two models, the store and the data below the limit of open files."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else max(1, (limit - _OTHER_FILES) // 2)
