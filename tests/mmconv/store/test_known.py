"""What several processes keep in one database, each finds; what nobody keeps costs no query.

A second `Store` on the same database stands for another process: the two share nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, create_engine, event, insert

from mmconv.core.types import Reply
from mmconv.store import Store, known
from mmconv.store.connections import connect, read_address
from mmconv.store.known import KnownKeys
from mmconv.store.schema import replies
from tests.mmconv.store.conftest import migrate

YES = Reply(text="yes")


def key(number: int) -> str:
    """Keys that differ in their first digits, as hashes do."""
    return f"{number:06x}{0:058x}"


@pytest.fixture
async def stores(url: str) -> AsyncIterator[tuple[Store, Store]]:
    pair = Store(url), Store(url)
    yield pair
    for store in pair:
        await store.aclose()


def row(number: int) -> dict[str, object]:
    return {
        "key": key(number),
        "fingerprint": "model",
        "text": "yes",
        "finish": "stop",
        "seconds": 0.0,
        "dropped": 0,
        "created": datetime.now(UTC),
    }


def finds(keys: KnownKeys, connection: Connection, number: int) -> bool:
    """Whether the key is known after the table has been looked at once more."""
    keys.doubt()
    keys.catch_up(connection)
    return keys.may_hold(key(number))


async def test_who_looks_again_finds_all_that_others_have_kept(
    stores: tuple[Store, Store],
) -> None:
    here, there = stores
    for number in range(3):
        await there.put(key(number), "model", YES)
        here.look_again()
        assert await here.get(key(number)) == YES
    assert await here.get(key(9)) is None


async def test_what_others_have_kept_is_found_by_itself_after_a_moment(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "FRESH_SECONDS", 0.2)
    here, there = stores
    assert await here.get(key(1)) is None
    await there.put(key(1), "model", YES)
    await asyncio.sleep(0.25)
    assert await here.get(key(1)) == YES


async def test_a_reply_is_found_though_nobody_waited_for_its_commit(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "FRESH_SECONDS", 60.0)
    here, _ = stores
    assert await here.get(key(1)) is None
    putting = asyncio.create_task(here.put(key(1), "model", YES))
    await asyncio.sleep(0)
    putting.cancel()
    await here.put(key(2), "model", YES)  # It shares the transaction, or comes after it.
    assert await here.get(key(1)) == YES


async def test_calls_that_nobody_has_asked_cost_no_queries(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "FRESH_SECONDS", 60.0)
    here, _ = stores
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        statements.append(statement)

    event.listen(here._engine, "before_cursor_execute", note)
    here.look_again()
    for number in range(1000):
        assert await here.get(key(number)) is None
    assert len(statements) == 2, statements


def test_a_transaction_that_ends_after_a_later_one_is_not_missed(url: str) -> None:
    """On SQLite there is none such: the second one waits."""
    engine = connect(url)
    keys = KnownKeys()
    with engine.connect() as reading, engine.connect() as slow:
        if engine.dialect.name == "postgresql":
            slow.execute(insert(replies), row(1))
        for number in range(2, 5):
            with engine.begin() as quick:
                quick.execute(insert(replies), row(number))
            assert finds(keys, reading, number)
            reading.rollback()
        if engine.dialect.name == "sqlite":
            slow.execute(insert(replies), row(1))
        assert not finds(keys, reading, 1)
        reading.rollback()
        slow.commit()
        assert finds(keys, reading, 1)
    engine.dispose()


def test_only_new_rows_are_read_again(url: str) -> None:
    engine = connect(url)
    keys = KnownKeys()
    seen: list[str] = []
    add = keys.add

    def note(*entered: str) -> None:
        seen.extend(entered)
        add(*entered)

    keys.add = note  # type: ignore[method-assign]  # the test watches what is read
    for number in range(5):
        with engine.begin() as connection:
            connection.execute(insert(replies), row(number))
        with engine.connect() as connection:
            assert finds(keys, connection, number)
    assert seen == [key(number) for number in range(5)]
    engine.dispose()


def test_rows_of_another_server_are_read_once(url: str) -> None:
    """Those of a dump have the numbers of the server that it was taken from."""
    engine = connect(url)
    keys = KnownKeys()
    with engine.begin() as connection:
        connection.execute(insert(replies), [row(1) | {"written": 10**15}])
    with engine.connect() as connection:
        assert finds(keys, connection, 1)
        keys._bits = bytearray(len(keys._bits))
        assert not finds(keys, connection, 1)
    engine.dispose()


async def test_replies_of_an_older_database_are_found_and_new_ones_too(url: str) -> None:
    engine = create_engine(read_address(url))
    with engine.begin() as connection:
        migrate(connection, "0002")
        connection.exec_driver_sql(
            "insert into replies (key, fingerprint, text, finish, seconds, dropped, created) "
            f"values ('{key(1)}', 'model', 'yes', 'stop', 0, 0, '2026-01-01 00:00:00')"
        )
    engine.dispose()
    here, there = Store(url), Store(url)
    await there.put(key(2), "model", YES)
    here.look_again()
    assert [await here.get(key(number)) for number in (1, 2, 3)] == [YES, YES, None]
    here.add_run("r" * 255, "{}")
    await here.aclose()
    await there.aclose()


def test_nothing_is_ruled_out_before_the_table_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = KnownKeys()
    assert not keys.rules_out(key(1))
    engine = connect("sqlite://")
    with engine.connect() as connection:
        keys.catch_up(connection)
    assert keys.rules_out(key(1))
    keys.doubt()
    assert not keys.rules_out(key(1))
    now = time.monotonic()
    with engine.connect() as connection:
        keys.catch_up(connection)
    monkeypatch.setattr(time, "monotonic", lambda: now + known.FRESH_SECONDS + 1)
    assert not keys.rules_out(key(1))
    engine.dispose()
