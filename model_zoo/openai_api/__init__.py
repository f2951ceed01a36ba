"""Any server that speaks OpenAI's chat completions: vLLM, SGLang, transformers serve, hosted ones.

`request` writes requests, `client` sends them, `replies` reads the answers. No model is loaded and
no server is started here. Failed calls are not retried: the runner does that.
Importing this package does not load aiohttp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mmconv.core.config import ModelSpec, fill_in
from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_json
from mmconv.core.protocols import BatchApi, ImageSource
from model_zoo.openai_api.endpoint import Endpoint, find_url
from model_zoo.openai_api.request import EXTRA_FIELDS, OpenAIOptions

if TYPE_CHECKING:
    from model_zoo.openai_api.client import ChatClient

_DEFAULT_URL = "https://api.openai.com/v1"
_DEFAULT_KEY_ENV = "OPENAI_API_KEY"


def fingerprint(spec: ModelSpec) -> str:
    """Hash of everything that can change a reply; `options.identity` replaces the URL.

    The query counts, and headers do not: like the key, they identify the client.
    """
    options = OpenAIOptions.of(spec)
    return hash_json(
        [
            "openai",
            spec.model,
            options.identity or find_url(spec, _DEFAULT_URL),
            options.policy(),
            options.max_tokens_field,
            options.guided_json,
            options.extra_body,
            # only if they are set, so that older fingerprints stay equal
            *([options.empty_answer] if options.empty_answer else []),
            *([options.max_bytes] if options.max_bytes else []),
            # as in the file: reading cached replies needs no secrets
            *([dict(options.query)] if options.query and not options.identity else []),
        ]
    )


def check_key(spec: ModelSpec) -> None:
    """Raise `ConfigError` for a wrong URL or a key that is not set; nothing is requested."""
    _endpoint(spec)


def guides_output(spec: ModelSpec) -> bool:
    """Whether a call's JSON schema is sent to the server, which then enforces it."""
    return OpenAIOptions.of(spec).guided_json


def extra_fields(spec: ModelSpec) -> tuple[str, ...]:
    """All that OpenAI's servers or vLLM's know. The server has the last word."""
    return EXTRA_FIELDS


async def open_backend(spec: ModelSpec, images: ImageSource) -> ChatClient:
    """A session with the server; `ConfigError` for a wrong URL, option or missing key."""
    from model_zoo.openai_api.client import ChatClient

    return ChatClient(spec, _endpoint(spec), OpenAIOptions.of(spec), images)


async def open_batches(spec: ModelSpec, images: ImageSource) -> BatchApi:
    """The server's batches; raises `ConfigError` as `open_backend` does, or for a missing SDK."""
    from model_zoo.openai_api.batches import OpenAIBatches

    return OpenAIBatches(spec, _endpoint(spec), OpenAIOptions.of(spec), images)


async def probe(spec: ModelSpec) -> tuple[str, ...]:
    """The names of the served models, sorted; raises as `generate` does."""
    from model_zoo.openai_api.client import list_models

    return await list_models(spec, _endpoint(spec))


def _endpoint(spec: ModelSpec) -> Endpoint:
    variable = spec.api_key_env or (None if spec.base_url else _DEFAULT_KEY_ENV)
    endpoint = Endpoint.of(spec, _DEFAULT_URL, variable)
    options = OpenAIOptions.of(spec)
    headers, of_headers = _filled(options.headers)
    query, of_query = _filled(options.query)
    if endpoint.key and "authorization" in map(str.lower, headers):
        raise ConfigError(
            f"model {spec.label}: options.headers: Authorization holds the key in {variable}; "
            "leave one of them out"
        )
    secrets = frozenset(of_headers + of_query)
    return replace(endpoint, headers=headers, query=query, secrets=secrets)


def _filled(texts: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    filled: dict[str, str] = {}
    secrets: list[str] = []
    for name, text in texts.items():
        value, values = fill_in(text)
        filled[name] = value.strip()
        secrets += [secret_value.strip() for secret_value in values]
    return filled, secrets
