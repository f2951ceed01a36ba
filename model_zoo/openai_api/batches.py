"""Batches of OpenAI and servers like it: a file of requests goes up, a file of answers comes back.

They go through the `openai` package. Requests are written and answers read as for single calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from mmconv.core.config import ModelSpec
from mmconv.core.errors import BackendError, Refused, Transient
from mmconv.core.protocols import BatchState, ImageSource
from mmconv.core.types import Message, Reply, Sampling, SeenImage
from model_zoo.hosted import missing_sdk, sdk_failures
from model_zoo.openai_api.client import ChatClient
from model_zoo.openai_api.endpoint import Endpoint
from model_zoo.openai_api.replies import load_json, read_failure, read_reply
from model_zoo.openai_api.request import OpenAIOptions

_PATH: Final = "/v1/chat/completions"
_LINE = b'{"custom_id":"%s","method":"POST","url":"%s","body":%s}'
_PAGE = 100
_FULL = "token_limit_exceeded"
_ENDS = frozenset({"completed", "expired", "cancelled"})


class OpenAIBatches:
    """A `BatchApi` of one model."""

    most_requests = 50_000
    most_bytes = 100_000_000
    """Half of what OpenAI takes, since two batches may be in memory."""

    def __init__(
        self, spec: ModelSpec, endpoint: Endpoint, options: OpenAIOptions, images: ImageSource
    ) -> None:
        try:
            import openai
        except ImportError as error:
            raise missing_sdk(spec, error) from error
        self._endpoint = endpoint
        self._timeout = spec.timeout
        self._client = ChatClient(spec, endpoint, options, images)
        self._errors: Any = openai
        self._sdk = openai.AsyncOpenAI(
            api_key=endpoint.key or "none",
            base_url=endpoint.url,
            timeout=spec.timeout,
            max_retries=0,
            default_headers=dict(endpoint.headers),
            default_query=dict(endpoint.query),
        )

    async def encode(
        self, messages: Sequence[Message], sampling: Sampling
    ) -> tuple[bytes, tuple[SeenImage, ...]]:
        """A request, and its images as they are sent."""
        return await self._client.encode(messages, sampling)

    def read(self, answer: bytes, seen: tuple[SeenImage, ...]) -> Reply:
        """The reply in an answer; raises as `ChatClient.generate` does."""
        return read_reply(answer, self._endpoint, seconds=0.0, seen=seen)

    async def submit(self, name: str, requests: Mapping[str, bytes]) -> str:
        """Upload the requests and create a batch of them, in one attempt; returns its id."""
        lines = b"\n".join(
            [_LINE % (key.encode(), _PATH.encode(), body) for key, body in requests.items()]
        )
        with self._failures():
            file = await self._sdk.files.create(file=(f"{name}.jsonl", lines), purpose="batch")
            batch = await self._sdk.batches.create(
                input_file_id=file.id,
                endpoint=_PATH,
                completion_window="24h",
                metadata={"mmconv": name},
            )
        return batch.id

    async def find(self, name: str, size: int, since: float) -> list[str]:
        """The batch with this name in its metadata, if there is one."""
        with self._failures():
            # the newest come first
            async for batch in self._sdk.batches.list(limit=_PAGE):
                if batch.created_at < since:
                    break
                if (batch.metadata or {}).get("mmconv") == name:
                    return [batch.id]
        return []

    async def poll(self, batch: str) -> BatchState:
        """How far the batch is; the server may refuse it until it has checked the file."""
        with self._failures():
            current = await self._sdk.batches.retrieve(batch)
        if current.status == "validating":
            return BatchState("checking")
        if current.status == "failed":
            problems = (current.errors and current.errors.data) or []
            text = "; ".join([problem.message or "" for problem in problems]) or "no reason given"
            if any(problem.code == _FULL for problem in problems):
                return BatchState("full", Transient("server", text))
            code = problems[0].code if problems else None
            document = orjson.dumps({"error": {"code": code, "message": f"batch {batch}: {text}"}})
            return BatchState("ended", read_failure(400, {}, document, self._endpoint))
        if current.status == "cancelled":
            return BatchState("ended", _cancelled(batch))
        return BatchState("ended" if current.status in _ENDS else "running")

    async def results(self, batch: str) -> dict[str, bytes | BackendError]:
        """The answers in the batch's files, and the errors of requests without one."""
        answers: dict[str, bytes | BackendError] = {}
        with self._failures():
            current = await self._sdk.batches.retrieve(batch)
            for file in (current.error_file_id, current.output_file_id):
                if file:
                    content = (await self._sdk.files.content(file)).content
                    for line in content.splitlines():
                        entry = load_json(line)
                        answers[entry["custom_id"]] = self._answer(batch, entry)
        return answers

    async def aclose(self) -> None:
        """Close all connections."""
        await self._sdk.close()
        await self._client.aclose()

    def _answer(self, batch: str, entry: Mapping[str, Any]) -> bytes | BackendError:
        if response := entry.get("response"):
            body = orjson.dumps(response["body"])
            status = response["status_code"]
            if 200 <= status < 300:
                return body
            return read_failure(status, {}, body, self._endpoint)
        error = entry.get("error") or {}
        if error.get("code") == "batch_cancelled":
            return _cancelled(batch)
        # one that expired is not paid, so it is not a timeout
        message = self._endpoint.excerpt(f"{error.get('code')}: {error.get('message')}")
        return Transient("server", f"batch {batch}: {message}")

    def _failures(self) -> Any:
        return sdk_failures(self._errors, self._endpoint, self._timeout)


def _cancelled(batch: str) -> Refused:
    return Refused(
        "rejected",
        f"batch {batch} was cancelled; start the run again to send what it did not answer",
    )
