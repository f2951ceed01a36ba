"""Headers and parameters of one's own, as Azure's classic API and gateways ask for them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from mmconv.core.config import ModelSpec
from mmconv.core.errors import BackendError, ConfigError
from model_zoo import openai_api
from tests.model_zoo.conftest import NoImages
from tests.model_zoo.openai_support import ask, asked, say_red, spec

KEY = "azure-key-0123456789/+="
DEPLOYMENT = "/openai/deployments/gpt-4o"
AZURE: dict[str, dict[str, Any]] = {
    "headers": {"api-key": "${MMCONV_TEST_AZURE}"},
    "query": {"api-version": date(2024, 10, 21)},
}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMCONV_TEST_AZURE", f"{KEY}\n")


@asynccontextmanager
async def azure() -> AsyncIterator[str]:
    """A server that wants its key and version where Azure's classic API does; yields the URL."""

    def is_signed(request: web.Request) -> bool:
        # a token that says otherwise goes before the key
        return request.headers.get("api-key") == KEY and "Authorization" not in request.headers

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.query.get("api-version") != "2024-10-21":
            return web.json_response({"error": {"message": "Resource not found"}}, status=404)
        if not is_signed(request):
            echoed = f"Access denied: {request.headers.get('api-key')} {request.query_string}"
            return web.json_response({"error": {"message": echoed}}, status=401)
        if request.method == "GET":
            return web.json_response({"object": "list", "data": [{"id": "gpt-4o"}]})
        return await say_red(request)

    app = web.Application()
    app.router.add_post(f"{DEPLOYMENT}/chat/completions", answer)
    app.router.add_get(f"{DEPLOYMENT}/models", answer)
    async with TestServer(app) as running:
        yield str(running.make_url(DEPLOYMENT))


async def say(model: ModelSpec) -> str:
    backend = await openai_api.open_backend(model, NoImages())
    try:
        return await ask(backend, asked("What colour?"))
    finally:
        await backend.aclose()


async def test_azures_classic_api_is_asked_by_its_key_and_version() -> None:
    async with azure() as url:
        assert await say(spec(base_url=url, options=AZURE)) == "Red."
        assert await openai_api.probe(spec(base_url=url, options=AZURE)) == ("gpt-4o",)


@pytest.mark.parametrize("probing", [False, True])
async def test_their_values_are_not_shown(monkeypatch: pytest.MonkeyPatch, probing: bool) -> None:
    monkeypatch.setenv("MMCONV_TEST_AZURE", "wrong-key-abc/+=")
    secret_too = {**AZURE["query"], "sig": "${MMCONV_TEST_AZURE}"}
    async with azure() as url:
        refused = spec(base_url=url, options={**AZURE, "query": secret_too})
        with pytest.raises(BackendError) as raised:
            await (openai_api.probe if probing else say)(refused)
    message = str(raised.value)
    assert raised.value.kind == "authentication"
    assert "Access denied: [key] api-version=2024-10-21&sig=[key] (" in message
    assert message.endswith(
        "(check the variables that the model's options.headers and options.query name)"
    )


def fingerprint(**options: Any) -> str:
    return openai_api.fingerprint(spec(base_url="http://a/v1", options=options))


def test_what_is_asked_is_named_by_the_query_as_by_the_url_and_by_no_header(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What only reads replies needs no secrets.
    monkeypatch.delenv("MMCONV_TEST_AZURE")
    assert fingerprint(headers=AZURE["headers"]) == fingerprint()
    named = {fingerprint(query={"api-version": version}) for version in ("1", "2024-10-21")}
    assert fingerprint() not in named
    assert fingerprint(query=AZURE["query"]) in named
    assert len(named) == 2
    assert fingerprint(query=AZURE["query"], identity="x") == fingerprint(identity="x")
    signed = {"sig": "${MMCONV_TEST_AZURE}"}
    assert fingerprint(query=signed) != fingerprint()
    with pytest.raises(ConfigError, match="variable MMCONV_TEST_AZURE is not set"):
        openai_api.check_key(spec(base_url="http://a/v1", options=AZURE))
    monkeypatch.setenv("MMCONV_TEST_AZURE", KEY)
    assert KEY not in repr(openai_api._endpoint(spec(base_url="http://a/v1", options=AZURE)))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a key as it is": (
        {"headers": {"api-key": "s3cret-value"}},
        r"options\.headers|headers: name the variable that holds it: {api-key: \$\{NAME\}}",
    ),
    "a token as it is": ({"query": {"token": "s3cret-value"}}, r"{token: \$\{NAME\}}"),
    "no text": ({"query": {"version": 1.10}}, "query.version: Input should be a valid string"),
}


@pytest.mark.parametrize(("options", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_sent_is_refused_before_a_run(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        openai_api.check_key(spec(base_url="http://a/v1", options=options))
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    "name", ["apiKey", "clientSecret", "sig", "X-Amz-Signature", "code", "PWD", "credentials"]
)
def test_a_secret_as_it_is_is_refused_by_the_name_that_it_goes_by(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"{{{name}: \$"):
        fingerprint(query={name: "s3cret-value"})


@pytest.mark.parametrize("name", ["api-version", "country-code", "monkey", "design", "author"])
def test_names_that_only_sound_alike_hold_no_secret(name: str) -> None:
    assert fingerprint(query={name: "any"}) != fingerprint()


def test_a_header_that_the_key_is_sent_in_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"authorization": "Bearer ${MMCONV_TEST_AZURE}"}
    twice = spec(
        base_url="http://a/v1", api_key_env="MMCONV_TEST_AZURE", options={"headers": headers}
    )
    with pytest.raises(ConfigError, match="Authorization holds the key in MMCONV_TEST_AZURE"):
        openai_api.check_key(twice)
