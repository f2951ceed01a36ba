"""Merging into SQLite and into a real PostgreSQL: once is enough, and times stay what they were."""

from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from sqlalchemy import func, select

from mmconv.core.errors import StoreError
from mmconv.core.types import Failure, Reply
from mmconv.store import Store
from mmconv.store.connections import connect
from mmconv.store.jobs import utc
from mmconv.store.merging import merge
from mmconv.store.schema import failures, replies, runs

KEY = "ab" * 32
LOST = Failure(kind="server", message="500 \x00", attempts=1)


def elsewhere(url: str) -> str:
    """The same database in sessions that do not count their time in UTC."""
    return f"{url}?options=-c%20timezone%3DAsia/Tokyo" if "://" in url else url


async def filled(url: str) -> None:
    store = Store(url)
    await store.put(KEY, "model", Reply(text="yes"))
    await store.add_failure(KEY, LOST)
    store.add_run("run", "{}")
    await store.aclose()


def times(url: str) -> list[datetime]:
    engine = connect(url)
    with engine.connect() as connection:
        found = [
            utc(connection.scalars(select(table.c.created)).one())
            for table in (replies, failures, runs)
        ]
    engine.dispose()
    return found


async def test_merging_twice_adds_nothing_and_moves_no_time(url: str, tmp_path: Path) -> None:
    source, back = str(tmp_path / "source.sqlite"), str(tmp_path / "back.sqlite")
    before = datetime.now(UTC)
    await filled(source)
    after = datetime.now(UTC)
    target = elsewhere(url)
    assert [merge(target, [source]).added for _ in range(2)] == [1, 0]
    assert [merge(back, [target]).added for _ in range(2)] == [1, 0]
    assert times(source) == times(target) == times(back)
    assert all(before <= time <= after for time in times(source))


async def test_who_answered_comes_along(url: str, tmp_path: Path) -> None:
    source = str(tmp_path / "source.sqlite")
    store = Store(source)
    reply = Reply(text="yes", answered_by="gpt-4o-2024-08-06")
    await store.put(KEY, "model", reply)
    await store.aclose()
    merge(url, [source])
    merged = Store(url)
    assert await merged.get(KEY) == reply
    await merged.aclose()


async def test_what_is_merged_is_found_by_an_open_store(url: str, tmp_path: Path) -> None:
    source = str(tmp_path / "source.sqlite")
    await filled(source)
    store = Store(url)
    assert await store.get(KEY) is None
    merge(url, [source])
    assert await store.get(KEY) == Reply(text="yes")
    assert await store.last_failure(KEY) == LOST
    await store.aclose()


async def test_a_source_that_is_not_there_leaves_no_other_open(tmp_path: Path) -> None:
    source = tmp_path / "source.sqlite"
    await filled(str(source))
    with pytest.raises(StoreError, match=r"gone\.sqlite: no cache found") as refused:
        merge(str(tmp_path / "all.sqlite"), [str(source), str(tmp_path / "gone.sqlite")])
    # The traceback keeps whatever was opened alive, if nothing closed it.
    assert refused.tb is not None
    assert str(source) not in {file.path for file in psutil.Process().open_files()}


async def test_failures_of_several_sources_are_all_kept(url: str, tmp_path: Path) -> None:
    sources = [str(tmp_path / f"{name}.sqlite") for name in "ab"]
    for source in sources:
        await filled(source)
    merge(url, sources)
    engine = connect(url)
    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(failures)) == 2
    engine.dispose()
