"""Gemini through Google's Gemini API and its SDK, `google-genai`.

Unlike the OpenAI-compatible layer of the same host it returns thoughts, enforces schemas, and sends
a seed. Google caches prefixes by itself, and reports what was read from the cache.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import aiohttp
import orjson

from mmconv.core.config import ModelSpec
from mmconv.core.errors import Refused, Transient
from mmconv.core.keys import hash_json
from mmconv.core.protocols import Backend, ImageSource
from mmconv.core.types import ANY_OBJECT, Message, Part, Reply, Sampling
from model_zoo.hosted import HostedClient, HostedFields, missing_sdk, source_of
from model_zoo.openai_api.endpoint import Endpoint, find_url
from model_zoo.openai_api.replies import FINISHES, answered_by, read_count, read_failure

if TYPE_CHECKING:
    from google.genai import Client

_URL = "https://generativelanguage.googleapis.com"
_KEY_ENV = "GEMINI_API_KEY"

_ROLES = {"user": "user", "assistant": "model"}


class GoogleOptions(HostedFields):
    """Options of a Gemini model."""

    media_types: tuple[str, ...] = ("image/jpeg", "image/png", "image/webp")
    """The types of images that the server takes; others are re-encoded."""
    thinking: Literal["minimal", "low", "medium", "high"] | int | None = None
    """A level, or for older models a budget of thoughts in tokens (0: none, -1: as the model
    likes). Thoughts are then recorded as reasoning. Default: the model's, unrecorded."""


def fingerprint(spec: ModelSpec) -> str:
    """Hash of everything that can change a reply."""
    options = GoogleOptions.of(spec)
    url = find_url(spec, _URL)
    return hash_json(["google", 1, spec.model, url, options.thinking, *options.identity()])


def check_key(spec: ModelSpec) -> None:
    """Raise `ConfigError` for a wrong URL or a key that is not set; nothing is requested."""
    _endpoint(spec)


def guides_output(spec: ModelSpec) -> bool:
    """Whether a call's JSON schema is sent to the server, which then enforces it."""
    return GoogleOptions.of(spec).guided_json


def extra_fields(spec: ModelSpec) -> tuple[str, ...]:
    """The fields of `Sampling.extra` that the API knows, under the same names."""
    return ("frequency_penalty", "presence_penalty", "top_k")


async def open_backend(spec: ModelSpec, images: ImageSource) -> Backend:
    """A client of the API; raises `ConfigError` for a wrong option, key or a missing SDK."""
    return GeminiClient(spec, images)


async def probe(spec: ModelSpec) -> tuple[str, ...]:
    """The model's name, if the server knows it; raises as `generate` does."""
    endpoint = _endpoint(spec)
    sdk, http = _sdk(spec, endpoint)
    async with http:
        with _failures(endpoint, spec.timeout):
            await sdk.aio.models.get(model=spec.model)
    return (spec.model,)


class GeminiClient(HostedClient):
    """A `Backend` of one Gemini model."""

    def __init__(self, spec: ModelSpec, images: ImageSource) -> None:
        self._options = GoogleOptions.of(spec)
        super().__init__(spec, _endpoint(spec), self._options, images)
        self._sdk, self._http = _sdk(spec, self.endpoint, self._options.extra_body)
        self._timeout = spec.timeout

    async def aclose(self) -> None:
        """Close all connections and drop the cached images."""
        await self._http.close()
        await super().aclose()

    def write(
        self,
        messages: Sequence[Message],
        sampling: Sampling,
        images: Mapping[str, tuple[str, str]],
    ) -> dict[str, Any]:
        """The arguments of a request; raises `Refused` for a system prompt that is not first."""
        from google.genai.types import GenerateContentConfig

        config: dict[str, Any] = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_output_tokens": sampling.max_tokens,
            "stop_sequences": list(sampling.stop) or None,
            # otherwise all trials with a fixed seed would get the same reply
            "seed": None if sampling.seed is None else sampling.seed + sampling.trial,
            # its answer is read here, and what it would send by itself is not counted
            "should_return_http_response": True,
            "automatic_continuation": False,
            **_output(sampling, self._options),
            **_thinking(self._options.thinking),
            **sampling.extra,
        }
        if messages and messages[0].role == "system":
            config["system_instruction"], messages = messages[0].text, messages[1:]
        if any(message.role == "system" for message in messages):
            raise Refused("rejected", "Gemini takes a system prompt only as the first message")
        contents = [
            {
                "role": _ROLES[message.role],
                "parts": [_part(part, images) for part in self.parts(message)],
            }
            for message in messages
        ]
        return {"contents": contents, "config": GenerateContentConfig(**config)}

    async def send(self, request: dict[str, Any]) -> tuple[Mapping[str, str], str]:
        """Send a request, once; raises `Transient` or `Refused`."""
        with _failures(self.endpoint, self._timeout):
            answer = await self._sdk.aio.models.generate_content(
                model=self.endpoint.model, **request
            )
        raw = answer.sdk_http_response
        return (raw and raw.headers) or {}, (raw and raw.body) or ""

    def read(self, document: Any) -> Reply:
        """Read an answer; raises `Refused` for a prompt that the server blocked."""
        usage = document.get("usageMetadata") or {}
        read, said, thought, cached = (
            read_count(usage.get(f"{name}TokenCount"))
            for name in ("prompt", "candidates", "thoughts", "cachedContent")
        )
        if blocked := (document.get("promptFeedback") or {}).get("blockReason"):
            message = f"the server's content filter blocked the prompt: {blocked}"
            raise Refused("filter", message, input_tokens=read)
        [choice, *_] = document["candidates"]
        finish = FINISHES.get(str(choice["finishReason"]).lower(), "unknown")
        parts = (choice.get("content") or {}).get("parts") or []
        texts = [part for part in parts if "text" in part]
        if not texts and finish == "unknown":
            raise TypeError("neither a text nor a reason why there is none")
        return Reply(
            text="".join([part["text"] for part in texts if not part.get("thought")]),
            reasoning="".join([part["text"] for part in texts if part.get("thought")]) or None,
            finish=finish,
            input_tokens=read,
            output_tokens=None if read is None else (said or 0) + (thought or 0),
            answered_by=answered_by({"model": document.get("modelVersion")}),
            cached_tokens=cached,
        )


def _part(part: Part, images: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    source = source_of(part, images)
    if isinstance(source, str):
        return {"text": source}
    return {"inline_data": {"mime_type": source[0], "data": b64decode(source[1])}}


def _output(sampling: Sampling, options: GoogleOptions) -> dict[str, Any]:
    if sampling.schema == ANY_OBJECT:
        return {"response_mime_type": "application/json"}
    if sampling.schema is None or not options.guided_json:
        return {}
    schema = orjson.loads(sampling.schema)
    return {"response_mime_type": "application/json", "response_json_schema": schema}


def _thinking(thinking: str | int | None) -> dict[str, Any]:
    if thinking is None:
        return {}
    size = "thinking_budget" if isinstance(thinking, int) else "thinking_level"
    return {"thinking_config": {size: thinking, "include_thoughts": thinking != 0}}


def _endpoint(spec: ModelSpec) -> Endpoint:
    endpoint = Endpoint.of(spec, _URL, spec.api_key_env or _KEY_ENV)
    return replace(endpoint, ending="")


def _sdk(
    spec: ModelSpec, endpoint: Endpoint, extra_body: Mapping[str, Any] | None = None
) -> tuple[Client, aiohttp.ClientSession]:
    """The SDK's client and its connections, to be closed together."""
    try:
        from google.genai import Client
        from google.genai.types import HttpOptions, HttpRetryOptions
    except ImportError as error:
        raise missing_sdk(spec, error) from error
    http = aiohttp.ClientSession(trust_env=True)
    options = HttpOptions(
        base_url=endpoint.url,
        timeout=round(spec.timeout * 1000),
        # without it, a lost connection is retried once
        retry_options=HttpRetryOptions(attempts=1),
        extra_body=dict(extra_body) if extra_body else None,
        aiohttp_client=http,
    )
    return Client(api_key=endpoint.key, vertexai=False, http_options=options), http


@contextmanager
def _failures(endpoint: Endpoint, timeout: float) -> Iterator[None]:
    from google.genai.errors import APIError

    try:
        yield
    except APIError as error:
        headers = getattr(error.response, "headers", {})
        raise read_failure(error.code, headers, orjson.dumps(error.details), endpoint) from error
    except TimeoutError as error:
        raise Transient("timeout", f"no reply in {timeout:g} s") from error
    except aiohttp.ClientError as error:
        message = f"{endpoint.url}: {str(error) or type(error).__name__}"
        raise Transient("connection", endpoint.excerpt(message)) from error
    except ValueError as error:
        raise Transient("malformed", f"not a reply: {endpoint.excerpt(str(error))}") from error
