"""Any server that speaks OpenAI's chat completions: vLLM, SGLang, transformers serve, hosted ones.

`request` writes requests, `client` sends them, `replies` reads the answers. No model is loaded and
no server is started here. Failed calls are not retried: the runner does that.
Importing this package does not load aiohttp.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from mmconv.core.config import ModelSpec, fill_in, secret
from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_json
from mmconv.core.protocols import Backend, ImageSource
from model_zoo.openai_api.endpoint import Endpoint
from model_zoo.openai_api.request import EXTRA_FIELDS, OpenAIOptions

_DEFAULT_URL = "https://api.openai.com/v1"
_DEFAULT_KEY_ENV = "OPENAI_API_KEY"

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
"""The pattern of a variable's name, which a key hardly matches."""


def fingerprint(spec: ModelSpec) -> str:
    """Hash of everything that can change a reply; `options.identity` replaces the URL.

    The query counts, and headers do not: like the key, they identify the client.
    """
    options = OpenAIOptions.of(spec)
    return hash_json(
        [
            "openai",
            spec.model,
            options.identity or _url(spec),
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


async def open_backend(spec: ModelSpec, images: ImageSource) -> Backend:
    """A session with the server; raises `ConfigError` for a wrong URL, option or missing key.

    The first call connects. If the server takes no connection within `wait_for_server` seconds,
    calls raise `Refused`.
    """
    from model_zoo.openai_api.client import ChatClient

    return ChatClient(spec, _endpoint(spec), OpenAIOptions.of(spec), images)


async def probe(spec: ModelSpec) -> tuple[str, ...]:
    """The names of the served models, sorted; raises as `generate` does."""
    from model_zoo.openai_api.client import list_models

    return await list_models(spec, _endpoint(spec))


def _endpoint(spec: ModelSpec) -> Endpoint:
    url = _url(spec)
    variable = spec.api_key_env or (None if spec.base_url else _DEFAULT_KEY_ENV)
    key = _key(spec, variable).strip()
    options = OpenAIOptions.of(spec)
    headers, of_headers = _filled(options.headers)
    query, of_query = _filled(options.query)
    if key and "authorization" in map(str.lower, headers):
        raise ConfigError(
            f"model {spec.label}: options.headers: Authorization holds the key in {variable}; "
            "leave one of them out"
        )
    return Endpoint(
        url=url,
        model=spec.model,
        named=spec.base_url or "",
        key_env=variable,
        key=key or None,
        headers=headers,
        query=query,
        secrets=frozenset(of_headers + of_query),
    )


def _filled(texts: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Headers or parameters filled in from the environment, and the values that it gave."""
    filled: dict[str, str] = {}
    secrets: list[str] = []
    for name, text in texts.items():
        value, values = fill_in(text)
        filled[name] = value.strip()
        secrets += [secret_value.strip() for secret_value in values]
    return filled, secrets


def _key(spec: ModelSpec, variable: str | None) -> str:
    try:
        return secret(variable) or ""
    except ConfigError:
        if variable is None or _VARIABLE.fullmatch(variable):
            raise
        raise ConfigError(
            f"model {spec.label}: api_key_env must name a variable; its value may be the "
            "key itself and is not shown; name the variable that holds the key"
        ) from None


def _url(spec: ModelSpec) -> str:
    url = spec.address
    if url is None:
        return _DEFAULT_URL
    wrong = ConfigError(f"model {spec.label}: base_url must be like http://host:8000/v1")
    try:
        address = urlsplit(url)
        if address.scheme not in {"http", "https"} or not address.hostname or address.port == 0:
            raise wrong
    except ValueError as error:
        raise wrong from error
    if address.username or address.password or address.query:
        raise ConfigError(
            f"model {spec.label}: base_url must not hold a user, password or query; name the "
            "key's variable in api_key_env, and set the query in options.query"
        )
    return url.rstrip("/")
