"""What the providers of hosted APIs share: failures by kind, and the look-up of a model."""

import socket
from typing import Any

import pytest

from mmconv.core.errors import BackendError, Refused, Transient
from model_zoo.providers import find_provider
from tests.model_zoo.hosted_support import Host, host_spec, hosted
from tests.model_zoo.openai_support import Pictures, ask, asked

each_provider = pytest.mark.parametrize("provider", ["anthropic", "google"])


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret-1")
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-secret-1")


async def failure(provider: str, answer: object) -> BackendError:
    """What a request ends in that gets this answer; it is sent once."""
    host = Host(answer)
    async with hosted(host, provider) as backend:
        with pytest.raises(BackendError) as caught:
            await ask(backend, asked("Colour?"))
    assert len(host.bodies) == 1
    return caught.value


def claude(status: int, kind: str, words: str, **headers: str) -> tuple[str, Any]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    error = {"type": "error", "error": {"type": kind, "message": words}}
    return "anthropic", (error, status, sent)


def gemini(status: int, name: str, words: str, *details: Any) -> tuple[str, Any]:
    error = {"code": status, "message": words, "status": name, "details": list(details)}
    return "google", ({"error": error}, status, {})


RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "41s"}


@pytest.mark.parametrize(
    ("sent", "kind", "overloaded", "retry_after"),
    [
        (claude(429, "rate_limit_error", "slow", retry_after="7"), "rate_limit", True, 7.0),
        (claude(529, "overloaded_error", "Overloaded"), "server", True, None),
        (claude(500, "api_error", "oops"), "server", False, None),
        (gemini(429, "RESOURCE_EXHAUSTED", "slow", RETRY), "rate_limit", True, 41.0),
        (gemini(503, "UNAVAILABLE", "The model is overloaded."), "server", True, None),
        (gemini(500, "INTERNAL", "oops"), "server", False, None),
    ],
)
async def test_what_may_pass_is_transient(
    sent: tuple[str, Any], kind: str, overloaded: bool, retry_after: float | None
) -> None:
    found = await failure(*sent)
    assert isinstance(found, Transient)
    assert (found.kind, found.overloaded, found.retry_after) == (kind, overloaded, retry_after)


INVALID = "invalid_request_error"


@pytest.mark.parametrize(
    ("sent", "kind", "words"),
    [
        (claude(401, "authentication_error", "bad sk-ant-secret-1"), "authentication", "[key]"),
        (claude(404, "not_found_error", "model: x"), "not_found", "'some-model'"),
        (claude(400, INVALID, "prompt is too long: 9 tokens > 8"), "context", "too long"),
        (claude(400, INVALID, "Your credit balance is too low"), "quota", "credit"),
        (claude(413, "request_too_large", "too many bytes"), "rejected", "more bytes"),
        (gemini(400, "INVALID_ARGUMENT", "API key not valid."), "authentication", "GEMINI_API_KEY"),
        (gemini(404, "NOT_FOUND", "models/x is not found"), "not_found", "'some-model'"),
        (
            gemini(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum (8)"),
            "context",
            "exceeds",
        ),
        (gemini(400, "INVALID_ARGUMENT", "bad field AIza-secret-1"), "rejected", "[key]"),
    ],
)
async def test_what_stays_wrong_is_refused(sent: tuple[str, Any], kind: str, words: str) -> None:
    found = await failure(*sent)
    assert isinstance(found, Refused)
    assert found.kind == kind
    assert words in str(found)
    assert "secret" not in str(found)


@each_provider
@pytest.mark.parametrize(
    "body",
    [b"<html>", b"{}", b"[]", b'{"content": 3}', b'{"candidates": [{"finishReason": "OTHER"}]}'],
)
async def test_an_answer_that_is_no_reply_is_malformed(provider: str, body: bytes) -> None:
    found = await failure(provider, body)
    assert isinstance(found, Transient)
    assert found.kind == "malformed"
    assert "not a reply" in str(found)


@each_provider
async def test_a_host_that_is_away_is_transient(provider: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        spec = host_spec(provider, f"http://127.0.0.1:{unused.getsockname()[1]}")
    backend = await find_provider(provider).open_backend(spec, Pictures())
    with pytest.raises(Transient) as caught:
        await ask(backend, asked("Colour?"))
    await backend.aclose()
    assert caught.value.kind == "connection"


@each_provider
async def test_the_model_is_looked_up_without_a_call(provider: str) -> None:
    host = Host({"name": "models/some-model", "id": "claude-x-1", "type": "model"})
    async with hosted(host, provider) as backend:
        spec = host_spec(provider, backend.endpoint.url)  # type: ignore[attr-defined]
        assert await find_provider(provider).probe(spec) == ("some-model",)
    assert host.paths == ["/v1/models/some-model"]
