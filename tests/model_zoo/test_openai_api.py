"""The chat-completions provider over loopback connections: what is sent, what goes wrong."""

from __future__ import annotations

import asyncio
import io
import socket
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import PIL.Image
import pytest
from aiohttp import ClientRequest, web
from aiohttp.test_utils import TestServer

from mmconv.config import ModelSpec
from mmconv.errors import ImageError, Refused, Transient
from mmconv.keys import hash_bytes
from mmconv.protocols import Backend
from mmconv.values import Image, Message, Part, Sampling, SeenImage
from model_zoo import openai_api
from model_zoo.openai_api.response import read_reply
from tests.model_zoo.conftest import message

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
ONCE = Sampling()
KEY_ENV = "MMCONV_TEST_KEY"


@dataclass
class Pictures:
    """An image source that counts what is read."""

    files: dict[str, bytes] = field(default_factory=dict)
    reads: int = 0

    def add(self, side: int, seed: int = 0) -> Image:
        pixels = np.random.default_rng(seed).integers(0, 255, (side, side, 3), dtype=np.uint8)
        file = io.BytesIO()
        PIL.Image.fromarray(pixels).save(file, "PNG")
        sha256 = hash_bytes(file.getvalue())
        self.files[sha256] = file.getvalue()
        return Image(sha256=sha256, media_type="image/png", width=side, height=side)

    def read(self, sha256: str) -> bytes:
        self.reads += 1
        try:
            return self.files[sha256]
        except KeyError:
            raise ImageError(f"{sha256} is gone") from None


@dataclass
class Server:
    """A scripted server: keeps what it was sent, answers with `answer`."""

    answer: Answer
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def receive(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        self.bodies.append(await request.json())
        return await self.answer(request)


async def say_red(_request: web.Request) -> web.Response:
    message = {"role": "assistant", "content": "Red."}
    return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}]})


@asynccontextmanager
async def opened(
    answer: Answer = say_red,
    pictures: Pictures | None = None,
    *,
    host: str = "127.0.0.1",
    **fields: Any,
) -> AsyncIterator[tuple[Backend, Server]]:
    server = Server(answer)
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/chat/completions", server.receive)
    async with TestServer(app, host=host) as running:
        backend = await openai_api.open_backend(
            spec(base_url=str(running.make_url("/v1/")), **fields), pictures or Pictures()
        )
        try:
            yield backend, server
        finally:
            await backend.aclose()


def spec(**fields: Any) -> ModelSpec:
    return ModelSpec(**{"provider": "openai", "model": "some/model", "timeout": 5.0, **fields})


def asked(*parts: str | Part) -> tuple[Message, ...]:
    return (message("user", *parts),)


async def ask(backend: Backend, messages: Sequence[Message], sampling: Sampling = ONCE) -> str:
    return (await backend.generate(messages, sampling, affinity="a")).text


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


SENT: dict[str, tuple[dict[str, Any], Sampling, dict[str, Any]]] = {
    "the server's own defaults": (
        {},
        Sampling(temperature=None, max_tokens=7),
        {"max_tokens": 7},
    ),
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
    assert b64decode(encoded) == pictures.files[picture.sha256]
    assert reply.seen == (SeenImage(sha256=picture.sha256, width=40, height=40),)


async def test_an_image_beyond_the_policy_is_scaled_and_told() -> None:
    pictures = Pictures()
    picture = pictures.add(40)
    async with opened(pictures=pictures, options={"max_side": 20}) as (backend, server):
        reply = await backend.generate(asked(picture), ONCE, affinity="a")
    url = server.bodies[0]["messages"][0]["content"][0]["image_url"]["url"]
    with PIL.Image.open(io.BytesIO(b64decode(url.partition(",")[2]))) as sent:
        assert sent.size == (20, 20)
    assert reply.seen == (SeenImage(sha256=picture.sha256, width=20, height=20),)


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


async def test_the_image_that_was_least_recently_shown_goes_first() -> None:
    pictures = Pictures()
    first, second, third = (pictures.add(320, seed=seed) for seed in range(3))  # 0.41 MB each
    async with opened(pictures=pictures, options={"image_cache_mb": 1}) as (backend, _):
        for picture in (first, second, first, third, first):
            await ask(backend, asked(picture))
    assert pictures.reads == 3


async def test_a_body_of_several_megabytes_is_sent() -> None:
    pictures = Pictures()
    large = [pictures.add(600, seed=seed) for seed in range(3)]
    async with opened(pictures=pictures) as (backend, server):
        reply = await backend.generate(asked(*large), ONCE, affinity="a")
    assert [seen.sha256 for seen in reply.seen] == [picture.sha256 for picture in large]
    assert len(server.bodies[0]["messages"][0]["content"]) == 3


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


async def test_a_request_that_waits_goes_out_before_a_reply_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[str] = []

    def noted(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def note_and_work(*args: Any, **options: Any) -> Any:
            events.append(name)
            return work(*args, **options)

        return note_and_work

    monkeypatch.setattr(ClientRequest, "send", noted("sent", ClientRequest.send))
    monkeypatch.setattr("model_zoo.openai_api.client.read_reply", noted("read", read_reply))
    async with opened(max_concurrency=1) as (backend, _):
        await asyncio.gather(*(ask(backend, asked(text)) for text in ("one", "two")))
    assert events == ["sent", "sent", "read", "read"]


async def test_an_image_that_is_gone_is_told_and_may_come_back() -> None:
    pictures = Pictures()
    picture = pictures.add(40)
    file = pictures.files.pop(picture.sha256)
    async with opened(pictures=pictures) as (backend, _):
        with pytest.raises(ImageError, match="is gone"):
            await ask(backend, asked(picture))
        pictures.files[picture.sha256] = file
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


async def test_a_rate_limit_comes_with_its_wait() -> None:
    async def busy(_request: web.Request) -> web.Response:
        return web.Response(status=429, text="busy", headers={"Retry-After": "3"})

    async with opened(busy) as (backend, server):
        with pytest.raises(Transient, match="busy") as raised:
            await ask(backend, asked("Hm?"))
    assert (raised.value.kind, raised.value.retry_after) == ("rate_limit", 3.0)
    assert len(server.bodies) == 1


async def test_redirects_are_not_followed() -> None:
    async def moved(_request: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect("/v1/elsewhere")

    async with opened(moved) as (backend, _):
        with pytest.raises(Refused, match="HTTP 307"):
            await ask(backend, asked("Hm?"))


async def test_a_silent_server_is_a_timeout() -> None:
    released = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        await released.wait()
        return await say_red(request)

    async with opened(hang, timeout=0.1) as (backend, _):
        with pytest.raises(Transient, match=r"no reply in 0\.1 s") as raised:
            await ask(backend, asked("Hm?"))
        released.set()
    assert raised.value.kind == "timeout"


async def drop(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def drop_midway(request: web.Request) -> web.Response:
    answer = web.StreamResponse(headers={"Content-Length": "100"})
    await answer.prepare(request)
    await answer.write(b'{"choices"')
    return await drop(request)


@pytest.mark.parametrize("dropping", [drop, drop_midway])
async def test_a_dropped_connection_is_told(dropping: Answer) -> None:
    async with opened(dropping) as (backend, _):
        with pytest.raises(Transient) as raised:
            await ask(backend, asked("Hm?"))
    assert raised.value.kind == "connection"


def unused_url() -> str:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}/v1"


async def test_a_server_that_is_not_there_is_told() -> None:
    backend = await openai_api.open_backend(spec(base_url=unused_url()), Pictures())
    with pytest.raises(Transient, match="Connect") as raised:
        await ask(backend, asked("Hm?"))
    assert raised.value.kind == "connection"
    await backend.aclose()
    await backend.aclose()
