"""Any server that speaks OpenAI's chat completions: vLLM, SGLang, transformers serve, hosted ones.

What is said to the server is in `request`, how its answers are read in `response`, the connection
in `client`. No model is loaded and no server is started here, and nothing is asked twice: that is
the runner's business. Importing this package loads neither aiohttp nor openai.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from mmconv.config import ModelSpec, secret, validate
from mmconv.errors import ConfigError, Transient
from mmconv.keys import hash_json
from mmconv.protocols import Backend, ImageSource
from model_zoo.openai_api.proxies import find_proxy
from model_zoo.openai_api.request import OpenAIOptions
from model_zoo.openai_api.response import Endpoint, read_failure

_DEFAULT_URL = "https://api.openai.com/v1"
_DEFAULT_KEY_ENV = "OPENAI_API_KEY"


def fingerprint(spec: ModelSpec) -> str:
    """Hash of everything that can change a reply; `options.identity` stands in for the URL."""
    options = _options(spec)
    return hash_json(
        [
            spec.provider,
            spec.model,
            options.identity or _url(spec),
            options.policy(),
            options.max_tokens_field,
            options.guided_json,
            options.extra_body,
        ]
    )


def check_key(spec: ModelSpec) -> None:
    """Raise `ConfigError` for a wrong URL or a key that is not set; the server is not asked."""
    _endpoint(spec)


def guides_output(spec: ModelSpec) -> bool:
    """Whether a call's JSON schema is sent to the server, which then holds the reply to it."""
    return _options(spec).guided_json


async def open_backend(spec: ModelSpec, images: ImageSource) -> Backend:
    """A session with the server; raises `ConfigError` for a wrong URL, option or missing key.

    The server is not asked anything yet; `probe` does that.
    """
    from model_zoo.openai_api.client import ChatClient

    return ChatClient(spec, _endpoint(spec), _options(spec), images)


async def probe(spec: ModelSpec) -> tuple[str, ...]:
    """The names of the models served, sorted; raises what `generate` would raise.

    Uses the `openai` package, which is too slow for the calls of a run but knows every server.
    """
    import openai

    endpoint = _endpoint(spec)
    client = openai.AsyncOpenAI(
        base_url=endpoint.url,
        api_key=endpoint.key or "none",
        timeout=spec.timeout,
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(
            proxy=find_proxy(endpoint.url), trust_env=False, follow_redirects=False
        ),
    )
    async with client:
        try:
            return tuple(sorted([model.id async for model in client.models.list()]))
        except openai.APIStatusError as error:
            answer = error.response
            raise read_failure(
                answer.status_code, answer.headers, answer.content, endpoint
            ) from error
        except openai.APITimeoutError as error:
            raise Transient("timeout", f"{endpoint.url}: {error}") from error
        except openai.APIConnectionError as error:
            raise Transient("connection", f"{endpoint.url}: {error.__cause__ or error}") from error


def _options(spec: ModelSpec) -> OpenAIOptions:
    return validate(OpenAIOptions, spec.options, f"model {spec.label}: options")


def _endpoint(spec: ModelSpec) -> Endpoint:
    url = _url(spec)
    variable = spec.api_key_env or (None if spec.base_url else _DEFAULT_KEY_ENV)
    key = (secret(variable) or "").strip()
    if not key.isprintable():
        raise ConfigError(
            f"environment variable {variable} holds a key with a line break or another control "
            "character in it; export the key alone and run again"
        )
    return Endpoint(url=url, model=spec.model, key_env=variable, key=key or None)


def _url(spec: ModelSpec) -> str:
    url = spec.address
    if url is None:
        if spec.provider != "openai":
            raise ConfigError(
                f"model {spec.label}: base_url is missing, such as http://host:8000/v1"
            )
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
            f"model {spec.label}: base_url may hold no user, password or query; name the variable "
            "that holds the key in api_key_env"
        )
    return url.rstrip("/")
