"""The chat-completions provider over loopback connections: what is sent, and when."""

from __future__ import annotations

import asyncio
import io
from base64 import b64decode
from dataclasses import replace
from typing import Any

import PIL.Image
import pytest
from aiohttp import web

from mmconv.core.errors import ImageError, Refused
from mmconv.core.types import ANY_OBJECT, Sampling, SeenImage
from tests.model_zoo.conftest import message
from tests.model_zoo.openai_support import ONCE, Pictures, ask, asked, opened, say_red

KEY_ENV = "MMCONV_TEST_KEY"


async def test_a_conversation_is_sent_as_plain_text() -> None:
    history = (
        message("system", "Be brief."),
        message("user", "What ", "is it?"),
        message("assistant", "A cat."),
        message("user", "What colour?"),
    )
    async with opened() as (backend, server):
        reply = await backend.generate(history, ONCE, affinity="a")
    assert (reply.text, reply.finish, reply.seen) == ("Red.", "stop", ())
    assert 0 < reply.seconds < 5
    assert server.bodies == [
        {
            "model": "some/model",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "What is it?"},
                {"role": "assistant", "content": "A cat."},
                {"role": "user", "content": "What colour?"},
            ],
            "max_tokens": 1024,
            "temperature": 0.0,
        }
    ]
    assert "Authorization" not in server.headers[0]


async def test_names_and_fields_beyond_the_common_ones_are_sent() -> None:
    async def answer(_request: web.Request) -> web.Response:
        choice = {"message": {"content": "Red."}, "logprobs": {"content": []}}
        return web.json_response({"choices": [choice | {"finish_reason": "stop"}]})

    named = replace(message("user", "Hi."), name="ada")
    sampling = Sampling(extra={"top_k": 3, "logprobs": True})
    async with opened(answer, options={"extra_body": {"top_k": 9}}) as (backend, server):
        reply = await backend.generate((named,), sampling, affinity="a")
    assert reply.logprobs == {"content": []}
    assert server.bodies[0]["messages"] == [{"role": "user", "content": "Hi.", "name": "ada"}]
    assert (server.bodies[0]["top_k"], server.bodies[0]["logprobs"]) == (3, True)


async def test_an_answer_without_words_is_sent_as_a_server_takes_it() -> None:
    history = (message("user", "What?"), message("assistant", " \n"), message("user", " "))
    async with opened() as (backend, server):
        await ask(backend, history)
    async with opened(options={"empty_answer": "(no answer)"}) as (backend, asked_so):
        await ask(backend, history)
    sent = [each["content"] for each in server.bodies[0]["messages"]]
    assert sent == ["What?", " \n", " "]
    sent[1] = "(no answer)"
    assert [each["content"] for each in asked_so.bodies[0]["messages"]] == sent


SENT: dict[str, tuple[dict[str, Any], Sampling, dict[str, Any]]] = {
    "the server's own defaults": ({}, Sampling(temperature=None, max_tokens=7), {"max_tokens": 7}),
    "everything": (
        {},
        Sampling(temperature=0.5, top_p=0.9, seed=3, stop=("END",), max_tokens=7, trial=2),
        {"max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "seed": 5, "stop": ["END"]},
    ),
    "a trial without a seed": (
        {},
        Sampling(temperature=None, max_tokens=7, trial=2),
        {"max_tokens": 7},
    ),
    "the newer field": (
        {"max_tokens_field": "max_completion_tokens"},
        Sampling(temperature=None, max_tokens=7),
        {"max_completion_tokens": 7},
    ),
    "a schema": (
        {"guided_json": True},
        Sampling(temperature=None, max_tokens=7, schema='{"type": "object"}'),
        {
            "max_tokens": 7,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "reply", "schema": {"type": "object"}, "strict": True},
            },
        },
    ),
    "a schema that the server is not offered": (
        {},
        Sampling(temperature=None, max_tokens=7, schema='{"type": "object"}'),
        {"max_tokens": 7},
    ),
    "json mode": (
        {},
        Sampling(temperature=None, max_tokens=7, schema=ANY_OBJECT),
        {"max_tokens": 7, "response_format": {"type": "json_object"}},
    ),
    "fields of the server's own": (
        {"extra_body": {"top_k": 1, "max_tokens": 9}},
        Sampling(temperature=None, max_tokens=7),
        {"max_tokens": 9, "top_k": 1},
    ),
}


@pytest.mark.parametrize(("options", "sampling", "fields"), SENT.values(), ids=SENT)
async def test_the_sampling_is_sent(
    options: dict[str, Any], sampling: Sampling, fields: dict[str, Any]
) -> None:
    async with opened(options=options) as (backend, server):
        await ask(backend, asked("Hm?"), sampling)
    sent = server.bodies[0]
    assert sent.pop("messages") == [{"role": "user", "content": "Hm?"}]
    assert sent.pop("model") == "some/model"
    assert sent == fields


async def test_an_image_is_sent_as_its_own_bytes() -> None:
    pictures = Pictures()
    picture = pictures.add(40)
    async with opened(pictures=pictures) as (backend, server):
        reply = await backend.generate(asked("Look: ", picture, "What?"), ONCE, affinity="a")
    before, image, after = server.bodies[0]["messages"][0]["content"]
    assert before == {"type": "text", "text": "Look: "}
    assert after == {"type": "text", "text": "What?"}
    start, _, encoded = image["image_url"]["url"].partition(",")
    assert (image["type"], start) == ("image_url", "data:image/png;base64")
    assert b64decode(encoded) == pictures.read(picture.sha256)
    assert reply.seen == (SeenImage(sha256=picture.sha256, width=40, height=40),)


@pytest.mark.parametrize(
    ("options", "media_type", "side", "told"),
    [
        ({"max_side": 20}, "image/png", 20, ""),
        ({"max_bytes": 4000}, "image/jpeg", 40, "image/jpeg"),
    ],
)
async def test_an_image_beyond_the_policy_is_sent_as_another(
    options: dict[str, int], media_type: str, side: int, told: str
) -> None:
    pictures = Pictures()
    picture = pictures.add(40)
    async with opened(pictures=pictures, options=options) as (backend, server):
        reply = await backend.generate(asked(picture), ONCE, affinity="a")
    url = server.bodies[0]["messages"][0]["content"][0]["image_url"]["url"]
    start, _, encoded = url.partition(",")
    assert start == f"data:{media_type};base64"
    with PIL.Image.open(io.BytesIO(b64decode(encoded))) as sent:
        assert sent.size == (side, side)
    assert len(b64decode(encoded)) <= options.get("max_bytes", 10_000)
    assert reply.seen == (
        SeenImage(sha256=picture.sha256, width=side, height=side, media_type=told),
    )


async def test_an_image_is_read_once_by_many_requests() -> None:
    pictures = Pictures()
    first, second = pictures.add(40, seed=1), pictures.add(40, seed=2)
    async with opened(pictures=pictures) as (backend, _):
        prompts = [asked(first, second, f"Question {number}?") for number in range(20)]
        await asyncio.gather(*(ask(backend, prompt) for prompt in prompts))
        await ask(backend, asked(second))
    assert pictures.reads == 2


async def test_the_images_kept_are_bounded() -> None:
    pictures = Pictures()
    large = [pictures.add(400, seed=seed) for seed in range(3)]  # 0.64 MB each as a data URI
    async with opened(pictures=pictures, options={"image_cache_mb": 1}) as (backend, _):
        for picture in [*large, large[2], large[0]]:
            await ask(backend, asked(picture))
    assert pictures.reads == 4
    async with opened(pictures=pictures, options={"image_cache_mb": 0}) as (backend, server):
        await ask(backend, asked(large[0]))
        await ask(backend, asked(large[0]))
    assert pictures.reads == 6
    assert server.bodies[0] == server.bodies[1]


async def test_a_cancelled_request_does_not_spoil_the_image_for_others() -> None:
    pictures = Pictures()
    picture = pictures.add(300)
    async with opened(pictures=pictures) as (backend, _):
        first = asyncio.create_task(ask(backend, asked(picture, "a")))
        second = asyncio.create_task(ask(backend, asked(picture, "b")))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == "Red."
        with pytest.raises(asyncio.CancelledError):
            await first
    assert pictures.reads == 1


async def test_an_image_that_is_gone_is_told_and_may_come_back() -> None:
    pictures = Pictures()
    picture = pictures.add(40)
    pictures.remove(picture.sha256)
    async with opened(pictures=pictures) as (backend, _):
        with pytest.raises(ImageError, match="not in this image store"):
            await ask(backend, asked(picture))
        pictures.add(40)
        assert await ask(backend, asked(picture)) == "Red."


async def test_the_key_is_sent_and_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, "sk-secret\n")

    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=401, text=f"bad key: {request.headers['Authorization']}")

    async with opened(refuse, api_key_env=KEY_ENV) as (backend, server):
        with pytest.raises(Refused, match=KEY_ENV) as raised:
            await ask(backend, asked("Hm?"))
    assert server.headers[0]["Authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in str(raised.value)


async def test_a_cookie_is_not_sent_back() -> None:
    async def mark(request: web.Request) -> web.StreamResponse:
        answer = await say_red(request)
        answer.set_cookie("host", "a")
        return answer

    # Cookies of a server that goes by a number are never kept, whatever the session does.
    async with opened(mark, host="localhost") as (backend, server):
        await ask(backend, asked("Hm?"))
        await ask(backend, asked("Hm?"))
    assert ["Cookie" in headers for headers in server.headers] == [False, False]


async def test_a_conversation_is_named_in_each_of_its_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options: dict[str, Any] = {"prompt_cache_key": True, "session_header": "x-session-id"}
    async with opened(options=options) as (backend, server):
        for affinity in ("sample 14/free", "sample 14/free", "sample 15/free"):
            await backend.generate(asked("Colour?"), ONCE, affinity=affinity)
    first, again, other = [body["prompt_cache_key"] for body in server.bodies]
    assert first == again != other
    assert len(first) <= 64
    assert [headers["x-session-id"] for headers in server.headers] == [first, again, other]


@pytest.mark.parametrize(
    ("openai", "options", "is_sent"),
    [
        ("127.0.0.1", {}, True),
        ("127.0.0.1", {"prompt_cache_key": False}, False),
        ("api.openai.com", {}, False),
    ],
)
async def test_only_openai_gets_a_cache_key_by_default(
    openai: str, options: dict[str, Any], is_sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model_zoo.openai_api.client._OPENAI", openai)
    async with opened(options=options) as (backend, server):
        await ask(backend, asked("Colour?"))
    assert ("prompt_cache_key" in server.bodies[0]) is is_sent
    assert "x-session-id" not in server.headers[0]


async def test_an_image_is_named_by_its_content_and_size() -> None:
    pictures = Pictures()
    image = pictures.add(40)
    names = []
    for side in (40, 20):
        options = {"media_uuid": True, "max_side": side}
        async with opened(pictures=pictures, options=options) as (backend, server):
            for _ in range(2):
                await ask(backend, asked(image, "Colour?"))
        names += [body["messages"][0]["content"][0]["uuid"] for body in server.bodies]
    assert names[0] == names[1] != names[2] == names[3]
    assert image.sha256 in names[0]
