"""Claude through Anthropic's Messages API and its SDK, `anthropic`.

Unlike the OpenAI-compatible layer of the same host it returns thoughts, caches a conversation's
prefix, enforces schemas and reports limits. The API has no seed and no JSON mode: a seed is
refused, and a call that wants any JSON object relies on its prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from pydantic import Field

from images.policy import LEAST_BYTES
from mmconv.core.config import ModelSpec
from mmconv.core.errors import Refused
from mmconv.core.keys import hash_json
from mmconv.core.protocols import Backend, BatchApi, ImageSource
from mmconv.core.types import ANY_OBJECT, Message, Part, Reply, Sampling
from model_zoo.hosted import HostedClient, HostedFields, missing_sdk, sdk_failures, source_of
from model_zoo.openai_api.endpoint import Endpoint, find_url
from model_zoo.openai_api.replies import (
    FINISHES,
    answered_by,
    read_count,
)

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

_URL = "https://api.anthropic.com"
_KEY_ENV = "ANTHROPIC_API_KEY"


class AnthropicOptions(HostedFields):
    """Options of a Claude model.

    Images are made to fit the API's limits: 8000 pixels a side, 5 MiB in base64.
    """

    max_side: int | None = Field(default=8000, gt=0)
    """The longest side of an image that is sent, in pixels."""
    max_bytes: int | None = Field(default=3_932_160, ge=LEAST_BYTES)
    """The largest file of an image that is sent, in bytes, before base64 adds a third."""
    thinking: Literal["adaptive", "disabled"] | Annotated[int, Field(ge=1024)] | None = None
    """A budget of thoughts in tokens (at least 1024, less than max_tokens), or `adaptive` for newer
    models. Thoughts are recorded as reasoning and count towards max_tokens."""
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    """How much a model works on a reply, if it takes this field."""
    cache: Literal["5m", "1h"] | None = None
    """How long the server caches each prompt. What a later prompt begins with then costs a tenth,
    and writing a quarter more (1h: twice as much): for conversations, not for judges."""


def fingerprint(spec: ModelSpec) -> str:
    """Hash of everything that can change a reply."""
    options = AnthropicOptions.of(spec)
    url = find_url(spec, _URL)
    own = [options.thinking, options.effort]
    return hash_json(["anthropic", 1, spec.model, url, *own, *options.identity()])


def check_key(spec: ModelSpec) -> None:
    """Raise `ConfigError` for a wrong URL or a key that is not set; nothing is requested."""
    _endpoint(spec)


def guides_output(spec: ModelSpec) -> bool:
    """Whether a call's JSON schema is sent to the server, which then enforces it."""
    return AnthropicOptions.of(spec).guided_json


def extra_fields(spec: ModelSpec) -> tuple[str, ...]:
    """The fields of `Sampling.extra` that the API knows."""
    return ("top_k",)


async def open_backend(spec: ModelSpec, images: ImageSource) -> Backend:
    """A client of the API; raises `ConfigError` for a wrong option, key or a missing SDK."""
    return ClaudeClient(spec, images)


async def open_batches(spec: ModelSpec, images: ImageSource) -> BatchApi:
    """The API's batches; raises as `open_backend` does."""
    from model_zoo.anthropic_batches import ClaudeBatches

    return ClaudeBatches(spec, images)


async def probe(spec: ModelSpec) -> tuple[str, ...]:
    """The model's name, if the server knows it; raises as `generate` does."""
    endpoint = _endpoint(spec)
    async with _sdk(spec, endpoint) as sdk:
        import anthropic

        with sdk_failures(anthropic, endpoint, spec.timeout):
            await sdk.models.retrieve(spec.model)
    return (spec.model,)


class ClaudeClient(HostedClient):
    """A `Backend` of one Claude model."""

    def __init__(self, spec: ModelSpec, images: ImageSource) -> None:
        self._options = AnthropicOptions.of(spec)
        super().__init__(spec, _endpoint(spec), self._options, images)
        self.sdk = _sdk(spec, self.endpoint)
        self._timeout = spec.timeout

    async def aclose(self) -> None:
        """Close all connections and drop the cached images."""
        await self.sdk.close()
        await super().aclose()

    def write(
        self,
        messages: Sequence[Message],
        sampling: Sampling,
        images: Mapping[str, tuple[str, str]],
    ) -> dict[str, Any]:
        """The fields of a request; raises `Refused` for a seed."""
        if sampling.seed is not None:
            raise Refused(
                "rejected", "Anthropic's API has no seed: set sampling.seed of this model to null"
            )
        options = self._options
        request: dict[str, Any] = {
            "model": self.endpoint.model,
            "max_tokens": sampling.max_tokens,
        }
        if sampling.stop:
            request["stop_sequences"] = list(sampling.stop)
        if messages and messages[0].role == "system":
            request["system"], messages = messages[0].text, messages[1:]
        request["messages"] = [
            {"role": each.role, "content": [_block(part, images) for part in self.parts(each)]}
            for each in messages
        ]
        if output := _output(sampling, options):
            request["output_config"] = output
        if options.thinking is not None:
            request["thinking"] = _thinking(options.thinking)
        if options.cache:
            request["cache_control"] = {"type": "ephemeral", "ttl": options.cache}
        # the SDK has no arguments for these, since newer models refuse them
        drawn = {"temperature": sampling.temperature, "top_p": sampling.top_p}
        drawn = {name: value for name, value in drawn.items() if value is not None}
        return {**request, "extra_body": {**drawn, **options.extra_body, **sampling.extra}}

    async def send(self, request: dict[str, Any]) -> tuple[Mapping[str, str], bytes]:
        """Send a request, once; raises `Transient` or `Refused`."""
        with self.failures():
            raw = await self.sdk.messages.with_raw_response.create(**request)
        return raw.headers, raw.http_response.content

    def failures(self) -> AbstractContextManager[None]:
        """Raise the SDK's errors as `Transient` or `Refused`."""
        import anthropic

        return sdk_failures(anthropic, self.endpoint, self._timeout, self)

    def read(self, document: Any) -> Reply:
        """Read a message; its tokens include those that were read from the cache or written."""
        blocks, usage = document["content"], document.get("usage") or {}
        thoughts = [block["thinking"] for block in blocks if block["type"] == "thinking"]
        tokens = [
            read_count(usage.get(name) or 0)
            for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        ]
        return Reply(
            text="".join([block["text"] for block in blocks if block["type"] == "text"]),
            reasoning="\n\n".join(thoughts).strip() or None,
            finish=FINISHES.get(document["stop_reason"], "unknown"),
            input_tokens=sum(count or 0 for count in tokens) if usage else None,
            output_tokens=read_count(usage.get("output_tokens")),
            answered_by=answered_by(document),
            cached_tokens=read_count(usage.get("cache_read_input_tokens")),
        )


def _block(part: Part, images: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    source = source_of(part, images)
    if isinstance(source, str):
        return {"type": "text", "text": source}
    media_type, data = source
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": media_type, "data": data},
    }


def _output(sampling: Sampling, options: AnthropicOptions) -> dict[str, Any]:
    output: dict[str, Any] = {} if options.effort is None else {"effort": options.effort}
    if options.guided_json and sampling.schema not in {None, ANY_OBJECT}:
        output["format"] = {"type": "json_schema", "schema": orjson.loads(sampling.schema or "")}
    return output


def _thinking(thinking: str | int) -> dict[str, Any]:
    if isinstance(thinking, int):
        return {"type": "enabled", "budget_tokens": thinking}
    # newer models leave thoughts out unless they are requested
    return {"type": thinking, **({"display": "summarized"} if thinking == "adaptive" else {})}


def _endpoint(spec: ModelSpec) -> Endpoint:
    endpoint = Endpoint.of(spec, _URL, spec.api_key_env or _KEY_ENV)
    # the SDK adds /v1
    return replace(endpoint, url=endpoint.url.removesuffix("/v1"), ending="")


def _sdk(spec: ModelSpec, endpoint: Endpoint) -> AsyncAnthropic:
    try:
        from anthropic import AsyncAnthropic
    except ImportError as error:
        raise missing_sdk(spec, error) from error
    return AsyncAnthropic(
        api_key=endpoint.key, base_url=endpoint.url, timeout=spec.timeout, max_retries=0
    )
