"""What comes over a plain connection: how answers may be framed, and when one is used again."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from mmconv.errors import Transient
from model_zoo.openai_api.endpoint import Endpoint
from model_zoo.openai_api.plain_http import PlainHttp
from model_zoo.openai_api.transport import Answer, open_transport

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Said: j\xc3\xa4\r\n\r\nyes."
FRAMED = {
    "by its length": WHOLE,
    "in chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nyes\r\n1\r\n.\r\n0\r\n\r\n",
    "by the end of the connection": b"HTTP/1.0 200 OK\r\n\r\nyes.",
    "announced": b"HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    + WHOLE,
    "and closed": WHOLE.replace(b"X-Said", b"Connection: close\r\nX-Said"),
}
BROKEN = {
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n", "is no HTTP"),
    "nothing": (b"", "closed the connection"),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-Le", "closed the connection"),
    "half a body": (WHOLE[:-1], "closed the connection"),
    "half a chunk": (FRAMED["in chunks"][:-5], "closed the connection"),
    "another protocol": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", "is no HTTP"),
}


class Server:
    """Reads whole requests and answers each by `talk`; counts connections, keeps requests."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.connections = 0
        self.requests: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.rpartition(b"Content-Length: ")[2])
                self.requests.append(head + await reader.readexactly(length))
                await self.talk(reader, writer)
                await writer.drain()
                if writer.is_closing():
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def running(talk: Talk, **fields: object) -> AsyncIterator[tuple[PlainHttp, Server]]:
    server = Server(talk)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    endpoint = Endpoint(url=f"http://127.0.0.1:{port}/v1", model="m", **fields)  # type: ignore[arg-type]  # are the endpoint's own
    transport = open_transport(endpoint, 5.0)
    assert isinstance(transport, PlainHttp)
    try:
        yield transport, server
    finally:
        await transport.aclose()
        listening.close()
        await listening.wait_closed()


def test_the_served_apis_event_loop_carries_it_too() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def ask() -> list[Answer]:
        async with running(sending(WHOLE)) as (transport, _):
            return [await transport.post(b"{}" * size) for size in (1, 2**20)]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert [answer.data for answer in runner.run(ask())] == [b"yes."] * 2


def sending(answer: bytes, *, closing: bool = False) -> Talk:
    async def send(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        if closing:
            writer.close()

    return send


@pytest.mark.parametrize("answer", FRAMED.values(), ids=FRAMED)
async def test_an_answer_may_end_in_any_way_that_http_knows(answer: bytes) -> None:
    closing = b"HTTP/1.0" in answer or b"close" in answer
    async with running(sending(answer, closing=closing)) as (transport, server):
        for _ in range(2):
            status, headers, data = await transport.post(b"{}")
            assert (status, data) == (200, b"yes.")
            assert b"X-Said" not in answer or headers["x-said"] == "jä"
    assert server.connections == (2 if closing else 1)


@pytest.mark.parametrize("answer", FRAMED.values(), ids=FRAMED)
async def test_an_answer_may_come_byte_by_byte(answer: bytes) -> None:
    async def trickle(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(len(answer)):
            writer.write(answer[number : number + 1])
            await writer.drain()
            await asyncio.sleep(0)
        if b"HTTP/1.0" in answer:
            writer.close()

    async with running(trickle) as (transport, _):
        assert (await transport.post(b"{}")).data == b"yes."


async def test_an_answer_that_ends_with_its_connection_may_not_end_with_a_reset() -> None:
    async def reset(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(FRAMED["by the end of the connection"])
        await writer.drain()
        await asyncio.sleep(0.01)
        no_lingering = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, no_lingering
        )
        writer.transport.abort()

    async with running(reset) as (transport, _):
        with pytest.raises(Transient, match="reset by peer"):
            await transport.post(b"{}")


async def test_only_the_bytes_of_one_answer_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model_zoo.openai_api.plain_http.LARGEST_ANSWER", len(WHOLE))
    async with running(sending(WHOLE)) as (transport, server):
        for _ in range(3):
            assert (await transport.post(b"{}")).data == b"yes."
    assert server.connections == 1


@pytest.mark.parametrize(("sent", "told"), BROKEN.values(), ids=BROKEN)
async def test_what_is_no_whole_answer_is_told(sent: bytes, told: str) -> None:
    async with running(sending(sent, closing=True)) as (transport, server):
        for _ in range(2):
            with pytest.raises(Transient, match=told) as raised:
                await transport.post(b"{}")
            assert raised.value.kind == "connection"
    assert server.connections == 2


async def test_a_packed_answer_is_refused_since_none_was_asked_for() -> None:
    packed = WHOLE.replace(b"X-Said: j\xc3\xa4", b"Content-Encoding: br")
    async with running(sending(packed)) as (transport, server):
        with pytest.raises(Transient, match=r"packed \(br\)") as raised:
            await transport.post(b"{}")
    assert raised.value.kind == "malformed"
    assert b"\r\nAccept-Encoding: identity\r\n" in server.requests[0]


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
    async def echo(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = server.requests[-1].partition(b"\r\n\r\n")[2]
        await asyncio.sleep(0.01)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    bodies = [b"%d" % number * size for number, size in enumerate([1, 10, 2**17, 2**22] * 2)]
    async with running(echo) as (transport, server):
        for _ in range(2):
            answers: list[Answer] = await asyncio.gather(*map(transport.post, bodies))
            assert [answer.data for answer in answers] == bodies
    assert server.connections == len(bodies)


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


@pytest.mark.parametrize(
    "url", ["https://host/v1", "http://me:word@host/v1", "http://schlüssel.example/v1"]
)
async def test_what_needs_more_than_a_plain_connection_is_left_to_aiohttp(url: str) -> None:
    transport = open_transport(Endpoint(url=url, model="m"), 5.0)
    assert not isinstance(transport, PlainHttp)
    await transport.aclose()
