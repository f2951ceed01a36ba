"""Requests that wait for one of a few plain connections."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from mmconv.errors import Transient
from model_zoo.openai_api.endpoint import Endpoint
from model_zoo.openai_api.plain_connection import PlainConnection
from model_zoo.openai_api.plain_http import PlainHttp
from model_zoo.openai_api.replies import read_reply
from model_zoo.openai_api.transport import Answer
from tests.model_zoo.openai_support import ask, asked, opened, unused_url
from tests.model_zoo.raw_server import LAST, WHOLE, Body, echoing, listening, running, sending


async def test_requests_wait_for_the_few_connections_there_may_be() -> None:
    bodies = [b"%d" % number for number in range(7)]
    async with running(echoing(lambda: server), most=2) as (transport, server):
        answers = await asyncio.gather(*map(transport.post, bodies))
    assert [answer.data for answer in answers] == bodies
    assert all(answer.seconds >= 0.02 for answer in answers)
    assert server.connections == 2


@pytest.mark.parametrize("passed", [0.0, 0.03])
async def test_a_request_that_is_cancelled_holds_up_nobody(passed: float) -> None:
    """Neither while it waits, nor when it was just sent."""
    async with running(echoing(lambda: server), most=1) as (transport, server):
        first, second, third = (
            asyncio.create_task(transport.post(body)) for body in (b"1", b"2", b"3")
        )
        await asyncio.sleep(passed)
        second.cancel()
        async with asyncio.timeout(2):
            assert [(await task).data for task in (first, third)] == [b"1", b"3"]
    assert second.cancelled()
    assert len(server.requests) == (3 if passed else 2)


@pytest.mark.parametrize("kept", [True, False])
async def test_nor_one_that_is_cancelled_in_the_moment_in_which_its_turn_comes(
    monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    deliver = PlainConnection._deliver

    def deliver_and_cancel(connection: PlainConnection) -> None:
        deliver(connection)
        second.cancel()

    lost = PlainConnection.connection_lost

    def lose_and_cancel(connection: PlainConnection, error: Exception | None) -> None:
        lost(connection, error)
        second.cancel()

    monkeypatch.setattr(PlainConnection, "_deliver", deliver_and_cancel if kept else deliver)
    monkeypatch.setattr(PlainConnection, "connection_lost", lost if kept else lose_and_cancel)
    answer = WHOLE if kept else LAST
    async with running(sending(answer), most=1) as (transport, server):
        first, second, third = (asyncio.create_task(transport.post(b"{}")) for _ in range(3))
        async with asyncio.timeout(2):
            assert [(await task).data for task in (first, third)] == [b"yes."] * 2
    assert second.cancelled()
    assert server.connections == 2


async def test_nor_one_that_was_cancelled_just_before(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = PlainConnection._deliver

    def cancel_and_deliver(connection: PlainConnection) -> None:
        second.cancel()
        deliver(connection)

    monkeypatch.setattr(PlainConnection, "_deliver", cancel_and_deliver)
    async with running(sending(WHOLE), most=1) as (transport, server):
        first, second, third = (asyncio.create_task(transport.post(b"{}")) for _ in range(3))
        async with asyncio.timeout(2):
            assert [(await task).data for task in (first, third)] == [b"yes."] * 2
    assert second.cancelled()
    assert (server.connections, len(server.requests)) == (1, 2)


@pytest.mark.parametrize("answer", [b"", LAST])
async def test_where_a_connection_ends_another_is_opened_for_who_waits(answer: bytes) -> None:
    async with running(sending(answer, closing=True), most=1) as (transport, server):
        posts = [transport.post(b"{}") for _ in range(3)]
        async with asyncio.timeout(2):
            ended = await asyncio.gather(*posts, return_exceptions=True)
    assert [isinstance(each, Answer) for each in ended] == [bool(answer)] * 3
    assert server.connections == 3


async def test_who_waits_while_none_can_be_opened_is_told_too() -> None:
    transport = PlainHttp(Endpoint(url=unused_url(), model="m"), 5.0, 1)
    posts = [transport.post(b"{}") for _ in range(3)]
    async with asyncio.timeout(2):
        ended = await asyncio.gather(*posts, return_exceptions=True)
    assert [getattr(each, "kind", None) for each in ended] == ["connection"] * 3


async def test_what_waits_when_connections_are_closed_is_sent_nowhere() -> None:
    async with running(echoing(lambda: server), most=1) as (transport, server):
        tasks = [asyncio.create_task(transport.post(b"{}")) for _ in range(3)]
        await asyncio.sleep(0.01)
        await transport.aclose()
        async with asyncio.timeout(2):
            sent, *waited = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(sent, Transient)
    assert [type(each) for each in waited] == [RuntimeError] * 2
    assert len(server.requests) == 1


async def test_nor_while_the_first_connection_is_being_opened() -> None:
    async def serve(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        came.append(await reader.read())
        ended.set()

    came: list[bytes] = []
    ended = asyncio.Event()
    async with listening(serve, most=1) as transport, asyncio.timeout(2):
        tasks = [asyncio.create_task(transport.post(b"{}")) for _ in range(3)]
        await asyncio.sleep(0)
        await transport.aclose()
        told = await asyncio.gather(*tasks, return_exceptions=True)
        await ended.wait()
    assert [type(each) for each in told] == [RuntimeError] * 3
    assert came == [b""]


async def test_a_server_that_hangs_up_without_a_word_is_noticed_though_requests_wait() -> None:
    async with running(sending(WHOLE, closing=True), most=2) as (transport, server):
        answers = await asyncio.gather(*(transport.post(b"{}") for _ in range(20)))
    assert [answer.data for answer in answers] == [b"yes."] * 20
    assert server.connections == 20


@pytest.mark.parametrize("hangs_up", [False, True])
async def test_an_error_that_nobody_waits_for_is_not_reported(
    monkeypatch: pytest.MonkeyPatch, hangs_up: bool
) -> None:
    """The request is sent over a connection that is gone, and cancelled in that moment."""
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: reported.append(told))
    deliver = PlainConnection._deliver

    def deliver_and_cancel(connection: PlainConnection) -> None:
        deliver(connection)
        if hangs_up:
            connection._fail(ConnectionResetError("gone"))
        waiting[0].cancel()

    monkeypatch.setattr(PlainConnection, "_deliver", deliver_and_cancel)
    async with running(sending(WHOLE), most=1) as (transport, _):
        first = asyncio.create_task(transport.post(b"{}"))
        waiting = [asyncio.create_task(transport.post(b"{}"))]
        await asyncio.wait([first, *waiting])
        assert waiting.pop().cancelled()
        gc.collect()
    assert not reported


async def test_a_request_that_is_cancelled_while_it_waits_leaves_nothing_behind() -> None:
    async with running(echoing(lambda: server), most=1) as (transport, server):
        first = asyncio.create_task(transport.post(b"{}"))
        await asyncio.sleep(0)
        body = Body(2**20)
        kept = weakref.ref(body)
        waiting = asyncio.create_task(transport.post(body))  # type: ignore[arg-type]  # is as good
        del body
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        del waiting
        assert kept() is None
        assert (await first).data == b"{}"


async def test_a_request_that_waits_goes_out_before_a_reply_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[str] = []

    def noted(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def note_and_work(*args: Any, **options: Any) -> Any:
            events.append(name)
            return work(*args, **options)

        return note_and_work

    monkeypatch.setattr(PlainConnection, "send", noted("sent", PlainConnection.send))
    monkeypatch.setattr("model_zoo.openai_api.client.read_reply", noted("read", read_reply))
    async with opened(max_concurrency=1) as (backend, _):
        await asyncio.gather(*(ask(backend, asked(text)) for text in ("one", "two")))
    assert events == ["sent", "sent", "read", "read"]
