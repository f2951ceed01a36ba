"""The store: what is put is found, the first reply stands, shards merge, the schema is one."""

import _sqlite3
import asyncio
import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, inspect

from mmconv.core.errors import StoreError
from mmconv.core.types import Failure, Reply, SeenImage
from mmconv.store import Store
from mmconv.store.connections import connect, read_address
from mmconv.store.merging import merge
from mmconv.store.queue import Queue
from mmconv.store.schema import versions
from tests.mmconv.store.conftest import create_older_store, key

REPLY = Reply(
    text="yes \x00 ünï",
    reasoning="hm",
    finish="length",
    input_tokens=3,
    output_tokens=None,
    seconds=0.25,
    dropped=2,
    seen=(SeenImage(sha256="ab", width=3, height=4),),
    answered_by="gpt-4o-2024-08-06 \x00, fingerprint fp_1",
)


async def test_a_reply_comes_back_whole(store: Store, tmp_path: Path) -> None:
    assert await store.get(key(1)) is None
    assert await store.put(key(1), "model", REPLY) == REPLY
    assert await store.get(key(1)) == REPLY
    await store.aclose()
    again = Store(str(tmp_path / "store.sqlite"))
    assert await again.get(key(1)) == REPLY
    await again.aclose()


@pytest.mark.parametrize(
    ("fields", "change"),
    [
        ({"cached_tokens": 2}, "cached_tokens = 3"),
        ({"cached_tokens": 2, "batched": True}, "batched = NULL"),
        ({"batched": True}, "cached_tokens = 3"),
    ],
)
async def test_later_columns_come_back_and_are_part_of_the_checksum(
    store: Store, tmp_path: Path, fields: dict[str, Any], change: str
) -> None:
    reply = replace(REPLY, **fields)
    await store.put(key(1), "model", reply)
    await store.aclose()
    url = str(tmp_path / "store.sqlite")
    again = Store(url)
    assert await again.get(key(1)) == reply
    await again.aclose()
    _execute(url, f"UPDATE replies SET {change}")
    again = Store(url)
    assert await again.get(key(1)) is None
    await again.aclose()


async def test_replies_of_one_model_share_its_name(store: Store, tmp_path: Path) -> None:
    for number in range(2):
        await store.put(key(number), "model", REPLY)
    await store.aclose()
    again = Store(str(tmp_path / "store.sqlite"))
    found = [await again.get(key(number)) for number in range(2)]
    await again.aclose()
    first, second = (reply and reply.answered_by for reply in found)
    assert first == REPLY.answered_by
    assert first is second


def tables_of(url: str) -> dict[str, Any]:
    """The columns and indexes of a store's tables."""
    engine = create_engine(read_address(url))
    inspector = inspect(engine)
    found = {
        name: (
            {column["name"]: str(column["type"]) for column in inspector.get_columns(name)},
            sorted(str(index["name"]) for index in inspector.get_indexes(name)),
        )
        for name in inspector.get_table_names()
    }
    engine.dispose()
    return found


async def test_an_older_store_is_brought_up_to_date(url: str) -> None:
    connect(url).dispose()
    newest = tables_of(url)
    create_older_store(url)
    assert tables_of(url) != newest
    store = Store(url)
    assert await store.get(key(1)) == Reply(text="yes")
    assert await store.put(key(2), "model", REPLY) == REPLY
    assert await store.get(key(2)) == REPLY
    await store.aclose()
    assert tables_of(url) == newest
    queue = Queue(url)
    job = await queue.get("run")
    await queue.aclose()
    assert job is not None
    assert (job.spec, job.progress) == (
        '{"data":"x","models":{"candidate":"m"}}',
        {"requested": 3, "cached": 4},
    )


async def test_the_first_reply_stands(store: Store, tmp_path: Path) -> None:
    """Also where another process put it after this store was opened."""
    other = Store(str(tmp_path / "store.sqlite"))
    await other.put(key(1), "model", Reply(text="first"))
    assert (await store.put(key(1), "model", Reply(text="second"))).text == "first"
    assert await store.get(key(1)) == Reply(text="first")
    await other.aclose()


async def test_many_at_once_share_transactions(store: Store) -> None:
    replies = [Reply(text=str(number)) for number in range(1200)]
    put = [store.put(key(number), "model", reply) for number, reply in enumerate(replies)]
    assert await asyncio.gather(*put) == replies
    got = [store.get(key(number)) for number in range(1200)]
    assert await asyncio.gather(*got) == replies


async def test_batches_of_every_size_leave_little_in_memory(store: Store) -> None:
    """SQLite keeps what each prepared insert was last given: once that was megabytes."""
    used = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
    used.restype = ctypes.c_longlong
    reply = Reply(text="long " * 400)
    before = used()
    for count in range(1, 80):
        keys = [key(100 * count + number) for number in range(count)]
        await asyncio.gather(*(store.put(each, "model", reply) for each in keys))
    assert used() - before < 5_000_000


async def test_the_latest_failures_of_many_calls_are_read_together(store: Store) -> None:
    """A run that is half done is scored or listed by looking up each call that it lacks."""
    for attempts in (1, 2):
        failed = Failure(kind="timeout", message="slow", attempts=attempts)
        await asyncio.gather(*(store.add_failure(key(number), failed) for number in range(30)))
    queries: list[str] = []

    def count(*fields: Any) -> None:
        queries.append(fields[2])

    event.listen(Engine, "before_cursor_execute", count)
    try:
        found = await asyncio.gather(*(store.last_failure(key(number)) for number in range(40)))
    finally:
        event.remove(Engine, "before_cursor_execute", count)
    assert found == [failed] * 30 + [None] * 10
    assert len(queries) == 1


async def test_failures_are_history_and_never_answers(store: Store) -> None:
    await store.add_failure(key(1), Failure(kind="timeout", message="slow", attempts=3))
    assert await store.get(key(1)) is None


async def test_the_first_metadata_of_an_image_stays(store: Store, tmp_path: Path) -> None:
    image = {"media_type": "image/png", "width": 4, "height": 3, "mode": "RGB", "frames": 1}
    first, other = ({"sha256": "ab", **image, "byte_count": size} for size in (7, 8))
    store.add_image_facts([first])
    store.add_image_facts([other])
    again = Store(str(tmp_path / "store.sqlite"))
    assert again.image_facts() == {"ab": first}
    await again.aclose()


async def test_stores_merge_by_key(tmp_path: Path) -> None:
    names = [str(tmp_path / f"{name}.sqlite") for name in ("a", "b")]
    for name, texts in zip(names, ({1: "one", 2: "two"}, {2: "other", 3: "three"}), strict=True):
        store = Store(name)
        for number, text in texts.items():
            await store.put(key(number), "model", Reply(text=text))
        await store.add_failure(key(9), Failure(kind="server", message="500", attempts=1))
        await store.aclose()
    target = str(tmp_path / "all.sqlite")
    report = merge(target, names)
    assert (report.added, report.present, report.conflicts) == (3, 1, 1)
    assert merge(target, names).added == 0
    store = Store(target)
    found = [await store.get(key(number)) for number in (1, 2, 3)]
    assert [reply and reply.text for reply in found] == ["one", "two", "three"]
    await store.aclose()


def test_merging_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"gone\.sqlite: no cache found"):
        merge(str(tmp_path / "all.sqlite"), [str(tmp_path / "gone.sqlite")])


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_text("this is no database, whatever its name says")
    with pytest.raises(StoreError, match=r"cannot open the store .*store\.sqlite"):
        Store(str(tmp_path / "store.sqlite"))


async def test_a_newer_database_is_refused(store: Store, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'store.sqlite'}")
    with engine.begin() as connection:
        connection.execute(versions.update(), {"version_num": "9999"})
    engine.dispose()
    with pytest.raises(StoreError, match="newer mmconv"):
        Store(str(tmp_path / "store.sqlite"))


def test_a_table_of_another_program_is_left_alone(url: str) -> None:
    engine = create_engine(read_address(url))
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE replies (id INTEGER)")
    with pytest.raises(StoreError, match="has a table 'replies' of another program"):
        Store(url)
    engine.dispose()


async def test_a_changed_reply_is_replaced(url: str, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(url)
    for number in (1, 2):
        await store.put(key(number), "model", REPLY)
    await store.aclose()
    _execute(url, f"UPDATE replies SET text = text || '.' WHERE key = '{key(1)}'")
    again = Store(url)
    assert await again.get(key(1)) is None
    assert f"{key(1)} was changed in the store after it was written" in caplog.text
    assert await again.get(key(2)) == REPLY
    assert await again.put(key(1), "model", REPLY) == REPLY
    await again.aclose()
    last = Store(url)
    assert await last.get(key(1)) == REPLY
    await last.aclose()


async def test_changed_replies_are_not_merged(tmp_path: Path) -> None:
    old, new = str(tmp_path / "old.sqlite"), str(tmp_path / "new.sqlite")
    store = Store(old)
    for number in (1, 2):
        await store.put(key(number), "model", REPLY)
    await store.aclose()
    _execute(old, f"UPDATE replies SET text = 'no' WHERE key = '{key(1)}'")
    report = merge(new, [old])
    assert (report.added, report.changed) == (1, 1)
    joined = Store(new)
    assert [await joined.get(key(number)) for number in (1, 2)] == [None, REPLY]
    await joined.aclose()


def _execute(url: str, statement: str) -> None:
    engine = create_engine(read_address(url))
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()
