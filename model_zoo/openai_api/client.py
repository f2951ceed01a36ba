"""A chat-completions server as a backend: messages in, reply out.

Bodies are bytes that are ready to send, and not the `openai` client's, because this is the hot path
of every run. How the server is reached is `transport`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mmconv.config import ModelSpec
from mmconv.protocols import ImageSource
from mmconv.values import Message, Reply, Sampling, SeenImage
from model_zoo.openai_api.data_uris import DataUris
from model_zoo.openai_api.endpoint import Endpoint
from model_zoo.openai_api.failures import read_failure
from model_zoo.openai_api.replies import read_reply
from model_zoo.openai_api.request import OpenAIOptions, encode_request
from model_zoo.openai_api.transport import open_transport

_DEFAULT_CONCURRENCY = 64


class ChatClient:
    """A `Backend` that asks one endpoint. Needs a running event loop from the start."""

    def __init__(
        self, spec: ModelSpec, endpoint: Endpoint, options: OpenAIOptions, images: ImageSource
    ) -> None:
        self._endpoint = endpoint
        self._options = options
        self._concurrency = spec.max_concurrency or _DEFAULT_CONCURRENCY
        self._uris = DataUris(images, options)
        self._transport = open_transport(endpoint, spec.timeout, self._concurrency)

    @property
    def max_concurrency(self) -> int:
        """An eighth more than there are connections, where those are eight or more.

        What is over waits, ready to send, for a connection that comes free: none of them idles
        while the next request is put together, and no more are under way than allowed.
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
        await self._transport.aclose()
        await self._uris.aclose()

    async def _ask(self, body: bytes, seen: tuple[SeenImage, ...]) -> Reply:
        status, headers, data, seconds = await self._transport.post(body)
        if not 200 <= status < 300:
            raise read_failure(status, headers, data, self._endpoint)
        return read_reply(data, self._endpoint, seconds=seconds, seen=seen)


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
