"""A server's name is looked up once for many connections, and no dead address holds them up."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from model_zoo.openai_api import server_address
from model_zoo.openai_api.server_address import HEAD_START_SECONDS, ServerAddress


class Names:
    """Answers lookups, after a moment, with what it is told, and counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.answer: Sequence[tuple[str, int]] | OSError = ()
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", self.look_up)

    async def look_up(self, host: str, _port: int, **_: Any) -> list[tuple[Any, ...]]:
        self.asked.append(host)
        await asyncio.sleep(0.01)
        if isinstance(self.answer, OSError):
            raise self.answer
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", each) for each in self.answer]


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


@pytest.fixture
async def live() -> AsyncIterator[tuple[str, int]]:
    """An address that takes connections."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    yield server.sockets[0].getsockname()
    server.close()
    await server.wait_closed()


async def connected(address: ServerAddress) -> tuple[str, int]:
    """Whom a connection reaches."""
    with await address.connect() as made:
        reached: tuple[str, int] = made.getpeername()
    return reached


async def test_a_name_is_looked_up_once_for_connections_that_are_made_at_once(
    names: Names, live: tuple[str, int]
) -> None:
    names.answer = [live]
    address = ServerAddress("vision.lab", 80)
    assert await asyncio.gather(*(connected(address) for _ in range(8))) == [live] * 8
    assert await connected(address) == live
    assert names.asked == ["vision.lab"]


async def test_it_is_looked_up_again_after_a_while(
    names: Names, live: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_address, "REMEMBERED_SECONDS", 0.0)
    names.answer = [live]
    address = ServerAddress("vision.lab", 80)
    for _ in range(2):
        assert await connected(address) == live
    assert len(names.asked) == 2


async def test_a_lookup_that_failed_is_not_remembered(names: Names, live: tuple[str, int]) -> None:
    names.answer = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    address = ServerAddress("vision.lab", 80)
    given = await asyncio.gather(*(connected(address) for _ in range(3)), return_exceptions=True)
    told = f"[Errno {socket.EAI_AGAIN}] Temporary failure in name resolution"
    assert [str(each) for each in given] == [told] * 3
    # each has an error of its own, which holds nobody else
    assert len({id(each) for each in given}) == 3
    assert len(names.asked) == 1
    names.answer = [live]
    assert await connected(address) == live


async def test_who_gives_up_lets_others_wait_on(names: Names, live: tuple[str, int]) -> None:
    names.answer = [live]
    address = ServerAddress("vision.lab", 80)
    first = asyncio.create_task(connected(address))
    second = asyncio.create_task(connected(address))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == live
    assert first.cancelled()
    assert len(names.asked) == 1


async def test_a_dead_address_is_not_waited_for(names: Names, live: tuple[str, int]) -> None:
    """Such as one behind a firewall: it neither takes nor refuses a connection."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with socket.create_connection(full.getsockname()):  # and there is no room for another
            names.answer = [full.getsockname(), live]
            loop = asyncio.get_running_loop()
            begun = loop.time()
            assert await connected(ServerAddress("vision.lab", 80)) == live
            assert loop.time() - begun >= HEAD_START_SECONDS


async def test_a_closed_address_gives_way_at_once_and_all_of_them_are_told(names: Names) -> None:
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        names.answer = [first.getsockname(), second.getsockname()]
        with pytest.raises(ConnectionRefusedError) as raised:
            await connected(ServerAddress("vision.lab", 80))
    for _, port in names.answer:
        assert str(port) in str(raised.value)
