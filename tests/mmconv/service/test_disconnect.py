"""Clients that go before they are answered: what is under way is kept, and no more is asked."""

import asyncio
import re
from collections.abc import Iterator, MutableMapping
from typing import Any

import httpx2
import orjson
import pytest

from mmconv.core.types import Reply
from model_zoo.simulated.fake import FakeBackend
from tests.mmconv.processes import mock_model
from tests.mmconv.service.conftest import Serve, Served, ServerProcess, Servers
from tests.mmconv.service.conftest import until as see
from tests.mmconv.service.hostile import connect
from tests.mmconv.service.judged import TURN
from tests.mmconv.service.run_settings import CHAT, until
from tests.mock_server import hold, mock_server

ONE_BY_ONE = {"echo": {"provider": "fake", "model": "echo", "max_concurrency": 1}}
DIALOGUE = {"model": "echo", "turns": [{"instruction": text} for text in ("One?", "Two?", "3?")]}


class ResolvedCall:
    """The calls that a backend was asked; they end when `may_end` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = self.dropped = 0
        self.may_end = asyncio.Event()
        really = FakeBackend.generate

        async def generate(backend: FakeBackend, *args: Any, **kwargs: Any) -> Reply:
            self.calls += 1
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.dropped += 1
                raise
            return await really(backend, *args, **kwargs)

        monkeypatch.setattr(FakeBackend, "generate", generate)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> ResolvedCall:
    return ResolvedCall(monkeypatch)


@pytest.fixture
async def served(serve: Serve) -> Served:
    return await serve(models=ONE_BY_ONE)


class Visitor:
    """A client that posts a body, and may go; `serving` is the request at the server."""

    def __init__(self, served: Served, path: str, body: dict[str, Any]) -> None:
        self._gone = asyncio.Event()
        self._body: bytes | None = orjson.dumps(body)
        headers = [(b"content-type", b"application/json"), (b"host", b"localhost")]
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": headers,
            "server": ("localhost", 80),
            "client": ("127.0.0.1", 1),
        }
        transport = served.client._transport
        assert isinstance(transport, httpx2.ASGITransport)
        self.serving = asyncio.ensure_future(transport.app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, _message: MutableMapping[str, Any]) -> None:
        """What is sent to a client that has gone is lost."""

    async def go(self) -> None:
        """Go, and have the server notice it."""
        self._gone.set()
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("path", "body", "whole"),
    [("/v1/dialogues", DIALOGUE, 3), ("/v1/judgements", TURN, 1)],
    ids=["dialogue", "judgement"],
)
async def test_a_call_under_way_is_kept_for_who_asks_again(
    served: Served, asked: ResolvedCall, path: str, body: dict[str, Any], whole: int
) -> None:
    first = Visitor(served, path, body)
    await until(lambda: asked.calls == 1)
    await first.go()
    asked.may_end.set()
    await first.serving
    assert asked.calls == 1
    assert (await served.client.post(path, json=body)).status_code == 200
    assert asked.calls == whole
    counted = (await served.client.get("/metrics")).text
    assert 'status="499"' in counted
    assert sum(_replies(counted)) == whole


def _replies(metrics: str) -> list[float]:
    lines = [line for line in metrics.splitlines() if line.startswith("mmconv_calls_total{")]
    return [float(line.rpartition(" ")[2]) for line in lines if 'outcome="reply"' in line]


async def test_who_goes_has_no_room_for_more_until_what_is_under_way_has_ended(
    serve: Serve, asked: ResolvedCall
) -> None:
    served = await serve(models=ONE_BY_ONE, limits={"queued_calls": 6})
    first = Visitor(served, "/v1/dialogues", DIALOGUE)
    await until(lambda: asked.calls == 1)
    await first.go()
    again = Visitor(served, "/v1/dialogues", DIALOGUE)
    await until(lambda: served.shared.meters["local"].calls == 6)
    refused = await served.client.post("/v1/dialogues", json=DIALOGUE)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
    asked.may_end.set()
    await asyncio.gather(first.serving, again.serving)
    assert asked.calls == 3
    assert served.shared.meters["local"].calls == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_a_chat_whose_client_has_gone_is_told_by_its_model_and_token(
    served: Served, asked: ResolvedCall, stream: bool
) -> None:
    body = {**CHAT, "model": "echo", "stream": stream}
    leaving = Visitor(served, "/v1/chat/completions", body)
    await until(lambda: asked.calls == 1)
    await leaving.go()
    await leaving.serving
    assert asked.dropped == 1
    line = 'mmconv_calls_total{model="echo",outcome="cancelled",token="local",work="chat"} 1.0'
    assert line in (await served.client.get("/metrics")).text


async def test_a_waiting_call_ends_and_others_go_on(served: Served, asked: ResolvedCall) -> None:
    other = Visitor(served, "/v1/dialogues", {**DIALOGUE, "turns": [{"instruction": "Other?"}]})
    await until(lambda: asked.calls == 1)
    leaving = Visitor(served, "/v1/dialogues", DIALOGUE)
    await until(lambda: served.shared.meters["local"].calls == 4)
    await leaving.go()
    await asyncio.wait_for(leaving.serving, 5)
    assert served.shared.meters["local"].calls == 1
    asked.may_end.set()
    await other.serving
    assert asked.calls == 1
    assert served.shared.meters["local"].calls == 0
    assert (await served.client.post("/v1/dialogues", json=DIALOGUE)).status_code == 200


async def test_it_ends_at_once_after_the_servers_time(served: Served, asked: ResolvedCall) -> None:
    """As uvicorn ends what is left at the end of its draining, be the client there or not."""
    here = Visitor(served, "/v1/dialogues", DIALOGUE)
    await until(lambda: asked.calls == 1)
    served.shared.drain()
    here.serving.cancel()
    await asyncio.wait_for(here.serving, 5)
    assert asked.dropped == 1
    gone = Visitor(served, "/v1/dialogues", DIALOGUE)
    await until(lambda: asked.calls == 2)
    await gone.go()
    assert not gone.serving.done()
    gone.serving.cancel()
    await asyncio.wait_for(gone.serving, 5)
    assert asked.dropped == 2
    await until(lambda: served.shared.meters["local"].calls == 0)


HELD = {**DIALOGUE, "model": "held"}


@pytest.fixture
def mock() -> Iterator[str]:
    """A model's server that answers nothing until it is let."""
    with mock_server() as url:
        hold(url, 0)
        yield url


def held(mock: str) -> dict[str, Any]:
    return {"held": mock_model(mock) | {"timeout": 600.0}}


def leave_under_way(server: ServerProcess, mock: str) -> None:
    """Post a dialogue, and go when its first call is under way."""
    body = orjson.dumps(HELD)
    head = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    with connect(server) as connection, httpx2.Client() as client:
        connection.sendall(f"POST /v1/dialogues HTTP/1.1\r\n{head}\r\n\r\n".encode() + body)
        stats = f"{mock.removesuffix('/v1')}/stats"
        see(lambda: client.get(stats).json()["under_way"] == 1)


def test_a_draining_server_keeps_the_call_of_a_client_that_left(start: Servers, mock: str) -> None:
    server = start(models=held(mock))
    leave_under_way(server, mock)
    server.terminate()
    hold(mock, None)
    assert server.ended() == 0
    with httpx2.Client(base_url=start(models=held(mock)).url) as client:
        answer = client.post("/v1/dialogues", json=HELD, timeout=60)
        assert answer.json()["usage"]["requested"] == 2


BOUNDARY = b"multipart/form-data; boundary=x"


UPLOADS = (
    ("images", b"image/png", b"\x89PNG"),
    ("images", BOUNDARY, b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n'),
    ("chat/completions", b"application/json", b'{"model": '),
    ("images", b"image/png", b""),
)


def test_a_client_that_disconnects_during_its_upload_is_not_a_server_error(start: Servers) -> None:
    server = start()
    with httpx2.Client(base_url=server.url) as client:
        for path, kind, sent in UPLOADS:
            head = f"POST /v1/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n"
            with connect(server) as connection:
                connection.sendall(head.encode() + b"Content-Type: " + kind + b"\r\n\r\n" + sent)
                see(lambda: "mmconv_open_requests 2.0" in client.get("/metrics").text)
            see(lambda: "mmconv_open_requests 1.0" in client.get("/metrics").text)
        page = client.get("/metrics").text
    statuses = re.findall(r'requests_total\{method="POST".*status="(\d+)"\} (.*)', page)
    assert sum(float(count) for _, count in statuses) == len(UPLOADS)
    assert {status for status, _ in statuses} == {"499"}
    assert "Traceback" not in server.output
    assert "failed" not in server.output
