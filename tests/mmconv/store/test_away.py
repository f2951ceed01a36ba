"""A database that is away while replies come in: they are remembered, and kept when it is back."""

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Table

from mmconv.core.errors import StoreAway, StoreError, StoreFull
from mmconv.core.types import Failure, Reply
from mmconv.store import Store
from mmconv.store import store as module
from mmconv.store.rows import insert_new
from tests.mmconv.store.conftest import key

HELLO = Reply(text="hello")


class Outage:
    """While it lasts, whatever is written fails by `error`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: Exception | None = None
        self.written: list[int] = []
        really = insert_new

        def insert(connection: Connection, table: Table, rows: Sequence[Any]) -> int:
            if self.error is not None:
                raise self.error
            self.written.append(len(rows))
            return really(connection, table, rows)

        monkeypatch.setattr(module, "insert_new", insert)


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Outage:
    return Outage(monkeypatch)


async def kept(path: Path, *numbers: int) -> list[str | None]:
    """What another process finds under some keys."""
    store = Store(str(path))
    found = [await store.get(key(number)) for number in numbers]
    await store.aclose()
    return [None if reply is None else reply.text for reply in found]


async def fail(store: Store, *numbers: int) -> None:
    puts = (store.put(key(number), "model", Reply(text=str(number))) for number in numbers)
    results = await asyncio.gather(*puts, return_exceptions=True)
    assert [type(each) for each in results] == [StoreError] * len(numbers)


async def test_replies_of_an_outage_are_kept_with_the_next(tmp_path: Path, outage: Outage) -> None:
    path = tmp_path / "store.sqlite"
    store = Store(str(path))
    outage.error = StoreError("away")
    await fail(store, 1, 2)
    outage.error = None
    assert await store.put(key(3), "model", HELLO) == HELLO
    assert outage.written == [3]
    assert await kept(path, 1, 2, 3) == ["1", "2", "hello"]
    await store.put(key(4), "model", HELLO)
    assert outage.written == [3, 1]
    await store.aclose()


async def test_whoever_asks_for_one_gets_it_once_it_is_kept(tmp_path: Path, outage: Outage) -> None:
    path = tmp_path / "store.sqlite"
    store = Store(str(path))
    outage.error = StoreError("away")
    await fail(store, 1)
    with pytest.raises(StoreError, match="away"):
        await store.get(key(1))
    outage.error = None
    assert await store.get(key(1)) == Reply(text="1")
    assert await kept(path, 1) == ["1"]
    await store.aclose()


async def test_at_the_end_a_database_that_is_away_is_waited_for(
    tmp_path: Path, outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.sqlite"
    store = Store(str(path))
    outage.error = StoreError("away")
    await fail(store, 1, 2)

    async def come_back() -> None:
        await asyncio.sleep(0.1)
        outage.error = None

    await asyncio.gather(store.aclose(), come_back())
    assert await kept(path, 1, 2) == ["1", "2"]
    assert "2 replies are not cached yet; trying again" in caplog.text
    assert "lost" not in caplog.text


@pytest.mark.parametrize("error", [StoreError("away"), StoreFull("the disk is full")])
async def test_what_is_lost_after_all_is_told(
    tmp_path: Path, outage: Outage, error: StoreError, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk is not waited for."""
    timeout = 3600 if isinstance(error, StoreFull) else 0
    store = Store(f"sqlite:///{tmp_path}/store.sqlite?store_timeout={timeout}")
    outage.error = StoreError("away")
    await fail(store, 1)
    outage.error = error
    async with asyncio.timeout(20):
        await store.aclose()
    assert f"1 replies are lost, and will be requested again ({error})" in caplog.text
    caplog.clear()
    await store.aclose()
    assert not caplog.records


async def test_a_bug_is_not_repeated_with_every_later_reply(tmp_path: Path, outage: Outage) -> None:
    store = Store(str(tmp_path / "store.sqlite"))
    outage.error = ValueError("no such column")
    with pytest.raises(ValueError, match="column"):
        await store.put(key(1), "model", HELLO)
    outage.error = None
    await store.put(key(2), "model", HELLO)
    assert outage.written == [1]
    await store.aclose()


async def test_of_failures_only_the_history_suffers(tmp_path: Path, outage: Outage) -> None:
    path = tmp_path / "store.sqlite"
    store = Store(str(path))
    outage.error = StoreError("away")
    failed = Failure(kind="server", message="no", attempts=1)
    results = await asyncio.gather(
        store.put(key(1), "model", HELLO), store.add_failure(key(2), failed), return_exceptions=True
    )
    assert [type(each) for each in results] == [StoreError, StoreError]
    outage.error = None
    await store.aclose()
    assert await kept(path, 1, 2) == ["hello", None]


async def test_a_changed_reply_is_replaced_after_an_outage(tmp_path: Path, outage: Outage) -> None:
    path = tmp_path / "store.sqlite"
    store = Store(str(path))
    await store.put(key(1), "model", HELLO)
    await store.aclose()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE replies SET text = 'no'")
    connection.close()
    store = Store(str(path))
    assert await store.get(key(1)) is None
    outage.error = StoreError("away")
    await fail(store, 1)
    outage.error = None
    await store.put(key(1), "model", HELLO)
    await store.aclose()
    assert await kept(path, 1) == ["hello"]


async def test_a_server_that_comes_back_fails_no_call(
    tmp_path: Path, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(str(tmp_path / "store.sqlite"))
    tries = 0

    def come_back(_seconds: float) -> None:
        nonlocal tries
        tries += 1
        if tries == 3:
            outage.error = None

    monkeypatch.setattr("mmconv.store.store.time.sleep", come_back)
    outage.error = StoreAway("connection refused")
    assert await store.put(key(1), "model", HELLO) == HELLO
    assert tries == 3
    await store.aclose()


async def test_a_server_that_stays_away_longer_than_its_timeout_ends_the_run(
    tmp_path: Path, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)
    store = Store(f"sqlite:///{tmp_path}/store.sqlite?store_timeout=0.01")
    outage.error = StoreAway("connection refused")
    with pytest.raises(StoreAway, match="refused"):
        await store.put(key(1), "model", HELLO)
    await store.aclose()


def test_a_timeout_that_is_not_a_number_of_seconds_is_refused(tmp_path: Path) -> None:
    for given in ("soon", "-1", "inf"):
        with pytest.raises(StoreError, match=f"store_timeout={given}: write a number of seconds"):
            Store(f"sqlite:///{tmp_path}/store.sqlite?store_timeout={given}")
