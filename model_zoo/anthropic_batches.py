"""Batches of Anthropic's Messages API, through its SDK.

The API has no names for batches. One that was being sent when a run was killed is known by its size
at first, and by its requests once it has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import httpx2
import orjson

from mmconv.core.config import ModelSpec
from mmconv.core.errors import BackendError, Refused, Transient
from mmconv.core.protocols import BatchState, ImageSource
from mmconv.core.types import Message, Reply, Sampling, SeenImage
from model_zoo.anthropic_api import ClaudeClient
from model_zoo.openai_api.replies import read_failure

_PAGE = 100
_STATUSES = {
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "api_error": 500,
    "overloaded_error": 529,
}
"""The statuses of single requests with these types of errors; those of all others is 400."""


class ClaudeBatches:
    """A `BatchApi` of one Claude model."""

    most_requests = 100_000
    most_bytes = 100_000_000
    """Less than the 256 MB that the API takes, since two batches may be in memory."""

    def __init__(self, spec: ModelSpec, images: ImageSource) -> None:
        self._client = ClaudeClient(spec, images)
        self._batches = self._client.sdk.messages.batches

    async def encode(
        self, messages: Sequence[Message], sampling: Sampling
    ) -> tuple[bytes, tuple[SeenImage, ...]]:
        """A request, and its images as they are sent."""
        request, seen = await self._client.prepare(messages, sampling)
        # these are fields of the body in a single request too
        return orjson.dumps(request | request.pop("extra_body")), seen

    def read(self, answer: bytes, seen: tuple[SeenImage, ...]) -> Reply:
        """The reply in an answer; raises as `ClaudeClient.generate` does."""
        return self._client.read_answer(answer, seen)

    async def submit(self, name: str, requests: Mapping[str, bytes]) -> str:
        """Create a batch, in one attempt; returns its id."""
        params: Any = [
            {"custom_id": key, "params": orjson.loads(body)} for key, body in requests.items()
        ]
        with self._client.failures():
            return (await self._batches.create(requests=params)).id

    async def find(self, name: str, size: int, since: float) -> list[str]:
        """All batches of this size since then."""
        found = []
        with self._client.failures():
            # the newest come first
            async for batch in self._batches.list(limit=_PAGE):
                if batch.created_at.timestamp() < since:
                    break
                counts = cast("dict[str, int]", batch.request_counts.to_dict())
                if sum(counts.values()) == size:
                    found.append(batch.id)
        return found

    async def poll(self, batch: str) -> BatchState:
        """Whether the batch has ended."""
        with self._client.failures():
            current = await self._batches.retrieve(batch)
        return BatchState("ended" if current.processing_status == "ended" else "running")

    async def results(self, batch: str) -> dict[str, bytes | BackendError]:
        """The answers of the batch, and the errors of requests without one."""
        try:
            with self._client.failures():
                return {
                    entry.custom_id: self._answer(batch, entry.result.to_dict())
                    async for entry in await self._batches.results(batch)
                }
        except httpx2.TransportError as error:  # the SDK converts none while it reads the body
            raise Transient("connection", f"batch {batch}: the results broke off") from error

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    def _answer(self, batch: str, result: Mapping[str, Any]) -> bytes | BackendError:
        match result["type"]:
            case "succeeded":
                return orjson.dumps(result["message"])
            case "errored":
                status = _STATUSES.get(result["error"]["error"]["type"], 400)
                body = orjson.dumps(result["error"])
                return read_failure(status, {}, body, self._client.endpoint)
            case "canceled":
                advice = "start the run again to send what it did not answer"
                return Refused("rejected", f"batch {batch} was cancelled; {advice}")
            case other:
                # one that expired is not paid, so it is not a timeout
                return Transient("server", f"batch {batch}: the request is {other}")
