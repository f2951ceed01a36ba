"""The HTTP session of the chat-completions provider against a server of raw bytes."""

import asyncio
import gzip

import pytest

from mmconv.core.errors import Transient
from tests.model_zoo.raw_server import WHOLE, echoing, listening, running, sending

BROKEN = {
    "not HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "half a body": WHOLE[:-1],
}


@pytest.mark.parametrize("sent", BROKEN.values(), ids=BROKEN)
async def test_an_incomplete_answer_is_a_connection_failure(sent: bytes) -> None:
    async with running(sending(sent, closing=True)) as (session, _):
        for _ in range(2):
            with pytest.raises(Transient) as raised:
                await session.post(b"{}")
            assert raised.value.kind == "connection"


async def test_bounds_of_answers_are_of_decompressed_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed = gzip.compress(b"yes." * 100)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nContent-Encoding: gzip\r\n\r\n" % len(packed)
    monkeypatch.setattr("model_zoo.openai_api.client._LARGEST_ANSWER", 200)
    async with running(sending(head + packed)) as (session, _):
        with pytest.raises(Transient, match="an answer over") as raised:
            await session.post(b"{}")
    assert raised.value.kind == "malformed"


async def test_a_request_on_a_connection_that_the_server_closed_is_sent_again() -> None:
    """The server closes every kept connection when the second request on it arrives."""
    connections = 0

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.rpartition(b"Content-Length: ")[2]))
        writer.write(WHOLE)
        await reader.read(1)

    async with listening(answer_once, most=1) as session:
        for body in (b"{}", b"{}", b" " * 2**22):
            assert (await session.post(body)).data == b"yes."
    assert connections == 3


@pytest.mark.parametrize(
    ("earlier", "at_once", "requests"),
    [(0, 9.0, 2), (1, 9.0, 3), (1, 0.0, 2)],
    ids=["a fresh connection", "a reused connection", "worked on"],
)
async def test_a_request_dropped_at_once_is_sent_again(
    monkeypatch: pytest.MonkeyPatch, earlier: int, at_once: float, requests: int
) -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(server.requests) <= earlier:
            writer.write(WHOLE)
        else:
            writer.close()

    monkeypatch.setattr("model_zoo.openai_api.client._AT_ONCE", at_once)
    async with running(hang_up) as (session, server):
        for _ in range(earlier):
            assert (await session.post(b"{}")).data == b"yes."
        with pytest.raises(Transient, match="Server disconnected"):
            await session.post(b"{}")
    assert len(server.requests) == requests


async def test_idle_connections_are_closed_before_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("model_zoo.openai_api.client._LONGEST_IDLE", 0.0)
    async with running(sending(WHOLE)) as (session, server):
        for _ in range(2):
            assert (await session.post(b"{}")).data == b"yes."
    assert server.connections == 2


async def test_a_cancelled_request_closes_its_connection() -> None:
    """So that the server, too, may give up."""
    requested, hung_up = asyncio.Event(), asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if server.connections == 1:
            requested.set()
            assert await reader.read() == b""
            hung_up.set()
        else:
            writer.write(WHOLE)

    async with running(wait, most=1) as (session, server):
        request = asyncio.create_task(session.post(b"{}"))
        await requested.wait()
        waiting = asyncio.create_task(session.post(b"{}"))
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        async with asyncio.timeout(5):
            await hung_up.wait()
            assert (await waiting).data == b"yes."
    assert server.connections == 2


async def test_requests_wait_for_a_free_connection() -> None:
    bodies = [b"%d" % number for number in range(7)]
    async with running(echoing(lambda: server), most=2) as (session, server):
        tasks = [asyncio.create_task(session.post(body)) for body in bodies]
        await asyncio.sleep(0)
        tasks[4].cancel()
        answers = await asyncio.gather(*tasks[:4], *tasks[5:])
    assert [answer.data for answer in answers] == bodies[:4] + bodies[5:]
    assert all(answer.seconds >= 0.02 for answer in answers)
    assert (server.connections, len(server.requests)) == (2, 6)


async def test_requests_that_wait_when_the_session_closes_are_not_sent() -> None:
    async def hold(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        received.set()
        await reader.read()

    received = asyncio.Event()
    async with running(hold, most=1) as (session, server):
        tasks = [asyncio.create_task(session.post(b"{}")) for _ in range(3)]
        await received.wait()
        await session.aclose()
        async with asyncio.timeout(5):
            ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, Transient | RuntimeError) for each in ended)
    assert len(server.requests) == 1


async def test_a_request_has_the_path_query_and_headers_of_its_endpoint() -> None:
    query = {"api-version": "2024 06", "ä": "1&2"}
    headers = {"user-agent": "lab", "X-Team": "Prüfstand"}
    async with running(sending(WHOLE), query=query, headers=headers, key="k") as (session, server):
        await session.post(b'{"a": 1}')
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    first, *others = head.decode().split("\r\n")
    assert first == "POST /v1/chat/completions?api-version=2024+06&%C3%A4=1%262 HTTP/1.1"
    assert {"user-agent: lab", "X-Team: Prüfstand", "Authorization: Bearer k"} <= set(others)
    assert len([each for each in others if each.lower().startswith("user-agent")]) == 1
    assert body == b'{"a": 1}'
