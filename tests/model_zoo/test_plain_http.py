"""How answers over a plain connection may be framed and packed, and what is none."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest

from mmconv.errors import Transient
from tests.model_zoo.raw_server import LAST, WHOLE, resetting, running, sending

FRAMED = {
    "by its length": WHOLE,
    "in chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nyes\r\n1\r\n.\r\n0\r\n\r\n",
    "in odd chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
    b"4  \r\nyes.\r\n0\r\n\r\n",
    "by the end of the connection": b"HTTP/1.0 200 OK\r\n\r\nyes.",
    "announced": b"HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    + WHOLE,
    "by the end, unwrapped": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: identity\r\n\r\nyes.",
    "with bare line feeds": WHOLE.replace(b"\r\n", b"\n"),
    "with a folded header": WHOLE.replace(b"X-Said", b"X-Long: a\r\n b\r\nX-Said"),
    "and closed": LAST,
}
BROKEN = {
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n", "is no HTTP"),
    "nothing": (b"", "closed the connection"),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-Le", "closed the connection"),
    "half a body": (WHOLE[:-1], "closed the connection"),
    "half a chunk": (FRAMED["in chunks"][:-5], "closed the connection"),
    "another protocol": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", "is no HTTP"),
}


@pytest.mark.parametrize("answer", FRAMED.values(), ids=FRAMED)
async def test_an_answer_may_end_in_any_way_that_http_knows(answer: bytes) -> None:
    closing = b"HTTP/1.0" in answer or b"close" in answer
    async with running(sending(answer, closing=closing)) as (transport, server):
        for _ in range(2):
            got = await transport.post(b"{}")
            assert (got.status, got.data) == (200, b"yes.")
            assert b"X-Said" not in answer or got.headers["x-said"] == "jä"
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
    async with running(resetting(b"HTTP/1.0 200 OK\r\n\r\nyes.")) as (transport, _):
        with pytest.raises(Transient, match="reset by peer"):
            await transport.post(b"{}")


async def test_a_refusal_may_for_the_request_was_not_read() -> None:
    async with running(resetting(b"HTTP/1.0 413 No\r\n\r\nno.")) as (transport, _):
        answer = await transport.post(b"{}")
    assert (answer.status, answer.data) == (413, b"no.")


async def test_only_the_bytes_of_one_answer_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model_zoo.openai_api.plain_connection.LARGEST_ANSWER", len(WHOLE))
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


def packed(way: str, data: bytes, status: int = 200) -> bytes:
    head = f"HTTP/1.1 {status} OK\r\nContent-Length: {len(data)}\r\nContent-Encoding: {way}\r\n\r\n"
    return head.encode() + data


PACKED = {
    "gzip": packed("gzip", gzip.compress(b"yes.")),
    "deflate": packed("Deflate", zlib.compress(b"yes.")),
    "not at all": packed("Identity", b"yes."),
    "a slip": packed("utf-8", b"yes."),
}


@pytest.mark.parametrize("answer", PACKED.values(), ids=PACKED)
async def test_an_answer_may_be_packed_though_none_is_asked_to_be(answer: bytes) -> None:
    async with running(sending(answer)) as (transport, server):
        assert (await transport.post(b"{}")).data == b"yes."
    assert b"\r\nAccept-Encoding: identity\r\n" in server.requests[0]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (packed("br", b"?", 401), "HTTP 401, packed in a way not known: br"),
        (packed("gzip", b"no gzip at all"), "HTTP 200, not gzip: "),
        (packed("gzip", gzip.compress(b"yes.")[:-1]), "not gzip to its end"),
        (packed("gzip", gzip.compress(b"yes." * 100)), "an answer of more than"),
    ],
)
async def test_what_cannot_be_unpacked_is_told(
    answer: bytes, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model_zoo.openai_api.plain_http.LARGEST_ANSWER", 200)
    async with running(sending(answer)) as (transport, _):
        with pytest.raises(Transient, match=told) as raised:
            await transport.post(b"{}")
    assert raised.value.kind == "malformed"


async def test_an_answer_without_a_body_is_given_once() -> None:
    async def answer_once(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(server.requests) == 1:
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        else:
            writer.close()

    async with running(answer_once) as (transport, server):
        assert (await transport.post(b"{}")).status == 204
        with pytest.raises(Transient, match="closed the connection"):
            await transport.post(b"{}")
