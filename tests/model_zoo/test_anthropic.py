import base64
from typing import Any

import pytest

from mmconv.core.errors import ConfigError, Refused, Transient
from mmconv.core.types import ANY_OBJECT, Sampling
from model_zoo.anthropic_api import AnthropicOptions, fingerprint, guides_output
from model_zoo.providers import find_provider
from tests.messages import message
from tests.model_zoo.hosted_support import Host, host_spec, hosted
from tests.model_zoo.openai_support import ONCE, Pictures, ask, asked

USAGE = {"input_tokens": 12, "output_tokens": 3}
SCHEMA = '{"type":"object","properties":{"score":{"type":"integer"}}}'


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret-1")


def said(*blocks: dict[str, Any], stop: str = "end_turn", **usage: int) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x-1",
        "content": list(blocks),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": USAGE | usage,
    }


def failed(kind: str, words: str, status: int, **headers: str) -> tuple[Any, int, Any]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"type": "error", "error": {"type": kind, "message": words}}, status, sent


RED = said({"type": "text", "text": "Red."})


async def test_a_conversation_is_sent_with_its_image_and_its_system_prompt() -> None:
    host, pictures = Host(RED), Pictures()
    image = pictures.add(8)
    messages = (
        message("system", "Be brief."),
        message("user", image, "What is it?"),
        message("assistant", " "),
        message("user", "And the colour?"),
    )
    async with hosted(host, "anthropic", pictures) as backend:
        reply = await backend.generate(
            messages, Sampling(max_tokens=50, stop=("END",), extra={"top_k": 9}), affinity="a"
        )
    assert (reply.text, reply.finish, reply.reasoning) == ("Red.", "stop", None)
    assert (reply.input_tokens, reply.output_tokens) == (12, 3)
    assert reply.answered_by == "claude-x-1"
    assert [seen.sha256 for seen in reply.seen] == [image.sha256]
    assert host.paths == ["/v1/messages"]
    assert host.headers[0]["authorization"] == "Bearer sk-ant-secret-1"
    [body] = host.bodies
    assert body.pop("messages") == [
        {
            "role": "user",
            "content": [
                {
                    "type": "image",
                    "source": {
                        "type": "base64",
                        "media_type": "image/png",
                        "data": base64.b64encode(pictures.read(image.sha256)).decode(),
                    },
                },
                {"type": "text", "text": "What is it?"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "(no answer)"}]},
        {"role": "user", "content": [{"type": "text", "text": "And the colour?"}]},
    ]
    assert body == {
        "model": "some-model",
        "system": "Be brief.",
        "max_tokens": 50,
        "temperature": 0.0,
        "top_k": 9,
        "stop_sequences": ["END"],
    }


async def test_thoughts_are_kept_apart_and_what_was_cached_counts_as_input() -> None:
    thoughts = {"type": "thinking", "thinking": "It glows.", "signature": "s"}
    host = Host(
        said(
            thoughts,
            {"type": "redacted_thinking", "data": "x"},
            {"type": "text", "text": "Red."},
            cache_read_input_tokens=1000,
            cache_creation_input_tokens=200,
        )
    )
    options = {"thinking": 2000, "cache": "1h", "effort": "low", "extra_body": {"top_k": 5}}
    async with hosted(host, "anthropic", options=options) as backend:
        reply = await backend.generate(asked("Colour?"), ONCE, affinity="a")
    assert (reply.text, reply.reasoning) == ("Red.", "It glows.")
    assert (reply.input_tokens, reply.cached_tokens) == (1212, 1000)
    [body] = host.bodies
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert body["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert body["output_config"] == {"effort": "low"}
    assert body["top_k"] == 5


async def test_adaptive_thoughts_are_requested_in_words() -> None:
    host = Host(RED)
    async with hosted(host, "anthropic", options={"thinking": "adaptive"}) as backend:
        await ask(backend, asked("Colour?"))
    assert host.bodies[0]["thinking"] == {"type": "adaptive", "display": "summarized"}


async def test_a_schema_is_sent_if_the_model_is_guided() -> None:
    host = Host(RED)
    async with hosted(host, "anthropic", options={"guided_json": True}) as backend:
        await ask(backend, asked("Colour?"), Sampling(schema=SCHEMA))
        await ask(backend, asked("Colour?"), Sampling(schema=ANY_OBJECT))
    assert host.bodies[0]["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {"type": "object", "properties": {"score": {"type": "integer"}}},
    }
    assert "output_config" not in host.bodies[1]
    assert guides_output(host_spec("anthropic", options={"guided_json": True}))


async def test_a_seed_is_refused_before_anything_is_sent() -> None:
    host = Host(RED)
    async with hosted(host, "anthropic") as backend:
        with pytest.raises(Refused, match="no seed: set"):
            await ask(backend, asked("Colour?"), Sampling(seed=1))
    assert host.bodies == []


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "filter"),
        ("pause_turn", "unknown"),
    ],
)
async def test_reasons_to_stop_are_read(stop: str, finish: str) -> None:
    host = Host(said({"type": "text", "text": "Re"}, stop=stop))
    async with hosted(host, "anthropic") as backend:
        reply = await backend.generate(asked("Colour?"), ONCE, affinity="a")
    assert reply.finish == finish


async def test_a_refusal_without_a_text_fails_with_its_tokens() -> None:
    async with hosted(Host(said(stop="refusal")), "anthropic") as backend:
        with pytest.raises(Refused, match="content filter") as caught:
            await ask(backend, asked("Colour?"))
    assert (caught.value.kind, caught.value.input_tokens) == ("filter", 12)


async def test_an_empty_reply_is_requested_once_more() -> None:
    host = Host(said(), RED)
    async with hosted(host, "anthropic") as backend:
        reply = await backend.generate(asked("Colour?"), ONCE, affinity="a")
    assert (reply.text, reply.input_tokens, len(host.bodies)) == ("Red.", 24, 2)


async def test_limits_are_reported_with_replies_and_failures() -> None:
    headers = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2020-01-01T00:00:00Z",
    }
    body, status, _ = failed("rate_limit_error", "slow", 429)
    host = Host((RED, 200, headers), RED, (body, status, headers))
    backend: Any
    async with hosted(host, "anthropic") as backend:
        await ask(backend, asked("Colour?"))
        assert [(limit.unit, limit.remaining) for limit in backend.limits] == [("requests", 49.0)]
        await ask(backend, asked("Colour?"))
        assert backend.limits == ()
        with pytest.raises(Transient):
            await ask(backend, asked("Colour?"))
        assert len(backend.limits) == 1


async def test_large_images_are_made_to_fit() -> None:
    host, pictures = Host(RED), Pictures()
    image = pictures.add(64)
    options = {"max_side": 16}
    async with hosted(host, "anthropic", pictures, options=options) as backend:
        reply = await backend.generate(asked(image, "What?"), ONCE, affinity="a")
    assert [(seen.width, seen.height) for seen in reply.seen] == [(16, 16)]
    assert AnthropicOptions().max_bytes == 3_932_160


def test_the_identity_covers_what_changes_replies() -> None:
    plain = fingerprint(host_spec("anthropic"))
    for options in ({"thinking": 2000}, {"effort": "low"}, {"max_side": 100}):
        assert fingerprint(host_spec("anthropic", options=options)) != plain
    for options in ({"cache": "5m"}, {"image_cache_mb": 1}):
        assert fingerprint(host_spec("anthropic", options=options)) == plain


def test_a_wrong_option_and_a_missing_key_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="thinking"):
        fingerprint(host_spec("anthropic", options={"thinking": 10}))
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY is not set"):
        find_provider("anthropic").check_key(host_spec("anthropic"))
