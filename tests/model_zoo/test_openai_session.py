"""The HTTP session of the chat-completions provider against a server of raw bytes."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest

from mmconv.core.errors import Transient
from model_zoo.openai_api.client import Answer, Session
from model_zoo.openai_api.endpoint import Endpoint
from tests.model_zoo.openai_support import unused_url
from tests.model_zoo.raw_server import LAST, WHOLE, echoing, listening, resetting, running, sending

FRAMED = {
    "by its length": WHOLE,
    "in chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nyes\r\n1\r\n.\r\n0\r\n\r\n",
    "by the end of the connection": b"HTTP/1.0 200 OK\r\n\r\nyes.",
    "after interim answers": b"HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n"
    b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE,
    "and closed": LAST,
}
BROKEN = {
    "not HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "half a body": WHOLE[:-1],
    "half a chunk": FRAMED["in chunks"][:-5],
}


def packed(encoding: str, data: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(data)}\r\nContent-Encoding: {encoding}\r\n\r\n"
    return head.encode() + data


PACKED = {
    "gzip": packed("gzip", gzip.compress(b"yes.")),
    "deflate": packed("Deflate", zlib.compress(b"yes.")),
    "not at all": packed("Identity", b"yes."),
}


@pytest.mark.parametrize("answer", FRAMED.values(), ids=FRAMED)
async def test_an_answer_may_end_in_any_way_that_http_knows(answer: bytes) -> None:
    closing = b"HTTP/1.0" in answer or b"close" in answer
    async with running(sending(answer, closing=closing)) as (session, server):
        for _ in range(2):
            got = await session.post(b"{}")
            assert (got.status, got.data) == (200, b"yes.")
            assert b"X-Said" not in answer or got.headers["x-said"] == "jä"
    assert server.connections == (2 if closing else 1)


@pytest.mark.parametrize("sent", BROKEN.values(), ids=BROKEN)
async def test_an_incomplete_answer_is_a_connection_failure(sent: bytes) -> None:
    async with running(sending(sent, closing=True)) as (session, _):
        for _ in range(2):
            with pytest.raises(Transient) as raised:
                await session.post(b"{}")
            assert raised.value.kind == "connection"


@pytest.mark.parametrize("answer", PACKED.values(), ids=PACKED)
async def test_a_compressed_answer_is_read_though_none_was_requested(answer: bytes) -> None:
    async with running(sending(answer)) as (session, server):
        assert (await session.post(b"{}")).data == b"yes."
    assert b"\r\nAccept-Encoding: identity\r\n" in server.requests[0]


async def test_the_bound_of_an_answer_counts_decompressed_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("model_zoo.openai_api.client._LARGEST_ANSWER", 200)
    async with running(sending(packed("gzip", gzip.compress(b"yes." * 100)))) as (session, _):
        with pytest.raises(Transient, match="an answer over") as raised:
            await session.post(b"{}")
    assert raised.value.kind == "malformed"


async def test_an_answer_without_a_body_is_given_once() -> None:
    async def answer_once(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(server.requests) == 1:
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        else:
            writer.close()

    async with running(answer_once) as (session, server):
        assert (await session.post(b"{}")).status == 204
        with pytest.raises(Transient, match="Server disconnected"):
            await session.post(b"{}")


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
    [(0, 9.0, 1), (1, 9.0, 3), (1, 0.0, 2)],
    ids=["a fresh connection", "a reused connection", "worked on"],
)
async def test_only_a_request_dropped_at_once_on_a_reused_connection_is_sent_again(
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


async def test_a_server_that_closes_every_connection_unannounced_loses_no_request() -> None:
    async with running(sending(WHOLE, closing=True), most=2) as (session, server):
        answers = await asyncio.gather(*(session.post(b"{}") for _ in range(20)))
    assert [answer.data for answer in answers] == [b"yes."] * 20
    assert server.connections >= 20


async def test_an_idle_connection_is_given_up_before_servers_close_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("model_zoo.openai_api.client._LONGEST_IDLE", 0.0)
    async with running(sending(WHOLE)) as (session, server):
        for _ in range(2):
            assert (await session.post(b"{}")).data == b"yes."
    assert server.connections == 2


@pytest.mark.parametrize("more", [WHOLE.replace(b"yes", b"no!"), b"HTTP/1.1 200 OK\r\nConte"])
async def test_bytes_after_an_answer_are_not_the_next_answer(more: bytes) -> None:
    async with running(sending(WHOLE + more)) as (session, _):
        for _ in range(3):
            assert (await session.post(b"{}")).data == b"yes."


async def test_a_large_request_may_be_refused_before_it_is_read() -> None:
    """Servers refuse a large image by its length; their connection is not used again."""
    refused = WHOLE.replace(b"200 OK", b"413 Content Too Large")

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(refused if b"Content-Length: 2\r\n" not in head else WHOLE)
        await reader.read()
        writer.close()

    async with listening(refuse) as session, asyncio.timeout(10):
        assert (await session.post(b" " * 2**25)).status == 413
        assert (await session.post(b"{}")).status == 200


async def test_a_refusal_counts_though_the_connection_is_reset_after_it() -> None:
    async with running(resetting(b"HTTP/1.1 413 No\r\nContent-Length: 3\r\n\r\nno.")) as (
        session,
        _,
    ):
        answer = await session.post(b"{}")
    assert (answer.status, answer.data) == (413, b"no.")


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


async def test_concurrent_requests_have_their_own_connections_and_answers() -> None:
    bodies = [b"%d" % number * size for number, size in enumerate([1, 10, 2**17, 2**22] * 2)]
    async with running(echoing(lambda: server)) as (session, server):
        for _ in range(2):
            answers: list[Answer] = await asyncio.gather(*map(session.post, bodies))
            assert [answer.data for answer in answers] == bodies
    assert server.connections == len(bodies)


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


async def test_requests_that_wait_for_a_connection_fail_too_if_none_can_be_opened() -> None:
    session = Session(Endpoint(url=unused_url(), model="m"), 5.0, 1)
    posts = [session.post(b"{}") for _ in range(3)]
    async with asyncio.timeout(5):
        ended = await asyncio.gather(*posts, return_exceptions=True)
    assert [getattr(each, "kind", None) for each in ended] == ["connection"] * 3
    await session.aclose()


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


async def test_an_impossible_host_name_is_a_connection_failure() -> None:
    session = Session(Endpoint(url="http://a..b/v1", model="m"), 5.0, 1)
    with pytest.raises(Transient, match=r"a\.\.b") as raised:
        await session.post(b"{}")
    assert raised.value.kind == "connection"
    await session.aclose()


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


def test_uvloop_carries_it_too() -> None:
    """The event loop of the served API."""
    uvloop = pytest.importorskip("uvloop")

    async def ask() -> list[Answer]:
        async with running(sending(WHOLE)) as (session, _):
            return [await session.post(b"{}" * size) for size in (1, 2**20)]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert [answer.data for answer in runner.run(ask())] == [b"yes."] * 2
