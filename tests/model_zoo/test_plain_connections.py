"""When a plain connection is used again, what is sent over it, and who gets the answer."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from collections.abc import Iterator

import pytest

from mmconv.errors import Transient
from model_zoo.openai_api.endpoint import Endpoint
from model_zoo.openai_api.plain_http import PlainHttp
from model_zoo.openai_api.transport import Answer, open_transport
from tests.model_zoo.openai_support import unused_url
from tests.model_zoo.raw_server import WHOLE, Body, Server, echoing, listening, running, sending


async def test_a_connection_that_was_closed_meanwhile_is_not_used_again() -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(WHOLE)
        await writer.drain()
        asyncio.get_running_loop().call_later(0.01, writer.close)

    async with running(hang_up) as (transport, server):
        for _ in range(3):
            assert (await transport.post(b"{}")).status == 200
            await asyncio.sleep(0.05)
    assert server.connections == 3


async def test_a_connection_that_was_idle_for_long_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("model_zoo.openai_api.plain_connection._LONGEST_IDLE", 0.0)
    async with running(sending(WHOLE)) as (transport, server):
        for _ in range(2):
            assert (await transport.post(b"{}")).data == b"yes."
    assert server.connections == 2


async def test_connections_that_were_idle_for_long_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("model_zoo.openai_api.plain_connection._LONGEST_IDLE", 0.2)
    left = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.02)
        writer.write(WHOLE)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        try:
            await server.serve(reader, writer)
        finally:
            left += 1

    server = Server(answer)
    async with listening(serve) as transport:
        await asyncio.gather(*(transport.post(b"{}") for _ in range(5)))
        for _ in range(4):
            await asyncio.sleep(0.1)
            await transport.post(b"{}")
        await asyncio.sleep(0.05)
        assert (server.connections, left) == (5, 4)


async def test_a_connection_that_is_not_taken_is_no_slow_reply() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        url = f"http://127.0.0.1:{full.getsockname()[1]}/v1"
        with socket.create_connection(full.getsockname()):  # and there is no room for another
            transport = PlainHttp(Endpoint(url=url, model="m"), 0.2, 1)
            with pytest.raises(Transient, match=r"^Connection timeout: .* did not take one in 0.2"):
                await transport.post(b"{}")


@pytest.mark.parametrize("more", [WHOLE.replace(b"yes", b"no!"), b"HTTP/1.1 200 OK\r\nConte", b"?"])
async def test_of_two_answers_at_once_the_first_is_meant(more: bytes) -> None:
    async with running(sending(WHOLE + more)) as (transport, server):
        for _ in range(3):
            assert (await transport.post(b"{}")).data == b"yes."
    assert server.connections == 3


@pytest.mark.parametrize("more", [WHOLE, b"?"])
async def test_a_connection_that_says_more_than_was_asked_is_not_used_again(more: bytes) -> None:
    async def go_on(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(WHOLE)
        await writer.drain()
        await asyncio.sleep(0.01)
        writer.write(more)

    async with running(go_on) as (transport, server):
        for _ in range(2):
            assert (await transport.post(b"{}")).data == b"yes."
            await asyncio.sleep(0.05)
    assert server.connections == 2


@pytest.mark.parametrize("closing", [False, True])
async def test_an_answer_to_half_a_request_ends_the_connection(closing: bool) -> None:
    """A large picture may be refused before it is read, by its length."""
    refused = WHOLE.replace(b"200 OK", b"413 Content Too Large")
    connections = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(refused if b"Content-Length: 2\r\n" not in head else WHOLE)
        if closing:
            writer.write_eof()
        await reader.read()
        writer.close()

    async with listening(refuse) as transport:
        assert (await transport.post(b" " * 2**25)).status == 413
        async with asyncio.timeout(2):
            assert (await transport.post(b"{}")).status == 200
    assert connections == 2


async def test_a_server_that_hangs_up_amid_a_request_is_told_at_once() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write_eof()
        await asyncio.Event().wait()

    async with listening(hang_up) as transport, asyncio.timeout(2):
        with pytest.raises(Transient, match="closed the connection"):
            await transport.post(b" " * 2**25)


async def test_a_cancelled_request_takes_its_connection_along() -> None:
    """So that the server, too, may give up."""
    asked, hung_up = asyncio.Event(), asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if server.connections == 1:
            asked.set()
            assert await reader.read() == b""
            hung_up.set()
        else:
            writer.write(WHOLE)

    async with running(wait) as (transport, server):
        request = asyncio.create_task(transport.post(b"{}"))
        await asked.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        async with asyncio.timeout(5):
            await hung_up.wait()
        assert (await transport.post(b"{}")).data == b"yes."
    assert server.connections == 2


async def test_requests_at_once_have_connections_of_their_own_and_each_its_answer() -> None:
    bodies = [b"%d" % number * size for number, size in enumerate([1, 10, 2**17, 2**22] * 2)]
    async with running(echoing(lambda: server)) as (transport, server):
        for _ in range(2):
            answers: list[Answer] = await asyncio.gather(*map(transport.post, bodies))
            assert [answer.data for answer in answers] == bodies
    assert server.connections == len(bodies)


async def fail(transport: PlainHttp) -> weakref.ref[Body]:
    body = Body(2**20)
    with pytest.raises(Transient):
        await transport.post(body)  # type: ignore[arg-type]  # is as good as bytes
    return weakref.ref(body)


@pytest.fixture
def no_garbage_is_collected() -> Iterator[None]:
    """As in a run, nearly."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_is_collected")
@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.6\r\n"])
async def test_the_body_of_a_request_that_failed_is_not_kept(answer: bytes) -> None:
    async with running(sending(answer, closing=True)) as (transport, _):
        kept = await fail(transport)
        await asyncio.sleep(0.01)
        assert kept() is None


@pytest.mark.usefixtures("no_garbage_is_collected")
@pytest.mark.parametrize("url", [unused_url(), "http://localhost:1/v1", "http://a..b/v1"])
async def test_nor_is_that_of_one_that_reached_nobody(url: str) -> None:
    transport = PlainHttp(Endpoint(url=url, model="m"), 5.0, 1)
    kept = [await fail(transport), await fail(transport)]
    await asyncio.sleep(0.01)
    assert [each() for each in kept] == [None, None]


async def test_a_name_that_no_host_can_have_is_told() -> None:
    transport = open_transport(Endpoint(url="http://a..b/v1", model="m"), 5.0, 1)
    with pytest.raises(Transient, match=r"a\.\.b") as raised:
        await transport.post(b"{}")
    assert raised.value.kind == "connection"


async def test_a_request_has_the_path_query_and_headers_of_its_endpoint() -> None:
    query = {"api-version": "2024 06", "ä": "1&2"}
    headers = {"user-agent": "lab", "X-Team": "Prüfstand"}
    async with running(sending(WHOLE), query=query, headers=headers, key="k") as (
        transport,
        server,
    ):
        await transport.post(b'{"a": 1}')
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    first, *others = head.decode().split("\r\n")
    assert first == "POST /v1/chat/completions?api-version=2024+06&%C3%A4=1%262 HTTP/1.1"
    assert {"user-agent: lab", "X-Team: Prüfstand", "Authorization: Bearer k"} <= set(others)
    assert len([each for each in others if each.lower().startswith("user-agent")]) == 1
    assert body == b'{"a": 1}'


def test_the_served_apis_event_loop_carries_it_too() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def ask() -> list[Answer]:
        async with running(sending(WHOLE)) as (transport, _):
            return [await transport.post(b"{}" * size) for size in (1, 2**20)]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert [answer.data for answer in runner.run(ask())] == [b"yes."] * 2


@pytest.mark.parametrize(
    "url", ["https://host/v1", "http://me:word@host/v1", "http://schlüssel.example/v1"]
)
async def test_what_needs_more_than_a_plain_connection_is_left_to_aiohttp(url: str) -> None:
    transport = open_transport(Endpoint(url=url, model="m"), 5.0, 1)
    assert not isinstance(transport, PlainHttp)
    await transport.aclose()
