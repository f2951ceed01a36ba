import base64
from typing import Any

import pytest

from mmconv.core.errors import Refused
from mmconv.core.types import ANY_OBJECT, Sampling
from model_zoo.google_api import fingerprint, guides_output
from tests.messages import message
from tests.model_zoo.hosted_support import Host, host_spec, hosted
from tests.model_zoo.openai_support import ONCE, Pictures, ask, asked

SCHEMA = '{"type":"object","properties":{"score":{"type":"integer"}}}'


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-secret-1")


def said(*parts: dict[str, Any], finish: str = "STOP", **usage: int) -> dict[str, Any]:
    return {
        "candidates": [
            {"content": {"role": "model", "parts": list(parts)}, "finishReason": finish}
        ],
        "modelVersion": "gemini-x-1",
        "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 3, **usage},
    }


RED = said({"text": "Red."})


async def test_a_conversation_is_sent_with_its_image_and_its_system_prompt() -> None:
    host, pictures = Host(RED), Pictures()
    image = pictures.add(8)
    messages = (
        message("system", "Be brief."),
        message("user", image, "What is it?"),
        message("assistant", ""),
        message("user", "And the colour?"),
    )
    drawn: dict[str, Any] = {"temperature": 0.5, "seed": 3, "trial": 2, "extra": {"top_k": 9}}
    sampling = Sampling(max_tokens=50, stop=("END",), **drawn)
    async with hosted(host, "google", pictures) as backend:
        reply = await backend.generate(messages, sampling, affinity="a")
    assert (reply.text, reply.finish, reply.reasoning) == ("Red.", "stop", None)
    assert (reply.input_tokens, reply.output_tokens) == (12, 3)
    assert reply.answered_by == "gemini-x-1"
    assert [seen.sha256 for seen in reply.seen] == [image.sha256]
    assert host.paths == ["/v1/models/some-model:generateContent"]
    assert host.headers[0]["x-goog-api-key"] == "AIza-secret-1"
    [body] = host.bodies
    assert [part["text"] for part in body["systemInstruction"]["parts"]] == ["Be brief."]
    [first, answer, last] = body["contents"]
    assert [first["role"], answer["role"], last["role"]] == ["user", "model", "user"]
    picture, question = first["parts"]
    assert picture["inlineData"]["mime_type"] == "image/png"
    sent = base64.urlsafe_b64decode(picture["inlineData"]["data"])
    assert sent == pictures.read(image.sha256)
    assert (question, answer["parts"]) == ({"text": "What is it?"}, [{"text": "(no answer)"}])
    assert body["generationConfig"] == {
        "temperature": 0.5,
        "topK": 9,
        "maxOutputTokens": 50,
        "stopSequences": ["END"],
        "seed": 5,
    }


@pytest.mark.parametrize(
    ("thinking", "config"),
    [
        (2000, {"thinking_budget": 2000, "include_thoughts": True}),
        (0, {"thinking_budget": 0, "include_thoughts": False}),
        ("low", {"thinking_level": "LOW", "include_thoughts": True}),
    ],
)
async def test_thoughts_are_kept_apart_and_paid(thinking: object, config: Any) -> None:
    host = Host(
        said(
            {"text": "It glows.", "thought": True},
            {"text": "Red."},
            thoughtsTokenCount=9,
            cachedContentTokenCount=8,
        )
    )
    options = {"thinking": thinking, "extra_body": {"generationConfig": {"topK": 5}}}
    async with hosted(host, "google", options=options) as backend:
        reply = await backend.generate(asked("Colour?"), ONCE, affinity="a")
    assert (reply.text, reply.reasoning, reply.output_tokens) == ("Red.", "It glows.", 12)
    assert reply.cached_tokens == 8
    sent = host.bodies[0]["generationConfig"]
    assert (sent["thinkingConfig"], sent["topK"], sent["temperature"]) == (config, 5, 0.0)


async def test_json_and_schemas_are_enforced() -> None:
    host = Host(RED)
    async with hosted(host, "google", options={"guided_json": True}) as backend:
        await ask(backend, asked("Colour?"), Sampling(schema=ANY_OBJECT))
        await ask(backend, asked("Colour?"), Sampling(schema=SCHEMA))
    [free, guided] = [body["generationConfig"] for body in host.bodies]
    assert free["responseMimeType"] == guided["responseMimeType"] == "application/json"
    assert "responseJsonSchema" not in free
    assert guided["responseJsonSchema"]["properties"] == {"score": {"type": "integer"}}
    assert guides_output(host_spec("google", options={"guided_json": True}))


@pytest.mark.parametrize(
    ("finish", "read"),
    [
        ("MAX_TOKENS", "length"),
        ("SAFETY", "filter"),
        ("RECITATION", "filter"),
        ("NEWER", "unknown"),
    ],
)
async def test_reasons_to_stop_are_read(finish: str, read: str) -> None:
    async with hosted(Host(said({"text": "Re"}, finish=finish)), "google") as backend:
        reply = await backend.generate(asked("Colour?"), ONCE, affinity="a")
    assert reply.finish == read


async def test_a_blocked_prompt_and_a_withheld_reply_are_refused() -> None:
    blocked = {
        "promptFeedback": {"blockReason": "SAFETY"},
        "usageMetadata": {"promptTokenCount": 7},
    }
    withheld = {"candidates": [{"finishReason": "PROHIBITED_CONTENT"}]}
    async with hosted(Host(blocked, withheld), "google") as backend:
        with pytest.raises(Refused, match="blocked the prompt: SAFETY") as caught:
            await ask(backend, asked("Colour?"))
        assert (caught.value.kind, caught.value.input_tokens) == ("filter", 7)
        with pytest.raises(Refused, match="held the reply back"):
            await ask(backend, asked("Colour?"))


async def test_a_system_prompt_within_the_conversation_is_refused() -> None:
    async with hosted(Host(RED), "google") as backend:
        with pytest.raises(Refused, match="system prompt only as the first message"):
            await ask(backend, (*asked("Colour?"), message("system", "Be brief.")))


def test_the_identity_covers_what_changes_replies() -> None:
    plain = fingerprint(host_spec("google"))
    for options in ({"thinking": 0}, {"guided_json": True}, {"max_side": 100}):
        assert fingerprint(host_spec("google", options=options)) != plain
    assert fingerprint(host_spec("google", options={"image_cache_mb": 1})) == plain
