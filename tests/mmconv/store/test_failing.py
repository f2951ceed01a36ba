"""A database that fails while it is in use: told in one line, and what was acknowledged is kept."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import IntegrityError, OperationalError

from mmconv.core.errors import StoreError
from mmconv.core.types import Failure, Reply
from mmconv.store import Store
from mmconv.store.connections import connect
from mmconv.store.merging import merge
from tests.mmconv.store.conftest import PAGES, key, small_disk

LONG = Reply(text="x" * 20_000)


async def fill(store: Store) -> int:
    """Put replies until that fails; returns how many were acknowledged."""
    for number in range(PAGES):
        try:
            await store.put(key(number), "model", LONG)
        except StoreError as error:
            message = str(error)
            assert (
                "store.sqlite fails: database or disk is full; earlier replies are cached"
                in message
            )
            assert "run the same command again" in message
            return number
    raise AssertionError("the disk was not small")


async def test_a_full_disk_is_told_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    address = str(tmp_path / "store.sqlite")
    with small_disk():
        store = Store(address)
        kept = await fill(store)
        with pytest.raises(StoreError, match="disk is full"):
            await store.add_failure(
                key(99), Failure(kind="server", message="x" * 99_999, attempts=1)
            )
        await store.aclose()
    assert kept > 0
    again = Store(address)
    assert [await again.get(key(number)) for number in range(kept)] == [LONG] * kept
    assert await again.get(key(kept)) is None
    await again.put(key(kept), "model", LONG)
    await again.aclose()


@pytest.mark.real
async def test_a_database_that_was_restarted_is_connected_to_anew(postgres_url: str) -> None:
    store = Store(postgres_url)
    await store.put(key(1), "model", LONG)
    engine = create_engine(postgres_url)
    with engine.connect() as connection:
        others = "select pg_terminate_backend(pid) from pg_stat_activity where datname = "
        others += "current_database() and pid <> pg_backend_pid()"
        assert connection.scalars(text(others)).all()
    engine.dispose()
    assert await store.get(key(1)) == LONG
    await store.put(key(2), "model", LONG)
    await store.aclose()


async def test_a_full_disk_stops_merging_too(tmp_path: Path) -> None:
    source = Store(str(tmp_path / "source.sqlite"))
    for number in range(PAGES):
        await source.put(key(number), "model", LONG)
    await source.aclose()
    with small_disk(), pytest.raises(StoreError, match=r"all\.sqlite fails: .* full"):
        merge(str(tmp_path / "all.sqlite"), [str(tmp_path / "source.sqlite")])


def test_what_is_wrong_with_a_statement_stays_a_bug(tmp_path: Path) -> None:
    engine = connect(str(tmp_path / "store.sqlite"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE words (word TEXT PRIMARY KEY)"))
        connection.execute(text("INSERT INTO words VALUES ('a')"))
    for statement, error in (
        ("SELECT * FROM nowhere", OperationalError),
        ("INSERT INTO words VALUES ('a')", IntegrityError),
    ):
        with pytest.raises(error), engine.connect() as connection:
            connection.execute(text(statement))
    engine.dispose()


def test_a_damaged_file_is_told_with_what_recovers_it(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.write_bytes(b"\xff" * 8192)
    with pytest.raises(StoreError, match=rf"; `sqlite3 {path} \.recover \| sqlite3 NEW` copies"):
        connect(str(path))


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is a folder; .* as in .*store\.sqlite"):
        Store(str(tmp_path))


def test_a_folder_that_is_closed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite itself says only that it is unable to open a file."""

    def refuse(_engine: Engine) -> None:
        raise OperationalError("", {}, sqlite3.OperationalError("unable to open database file"))

    monkeypatch.setattr("mmconv.store.connections.create_tables", refuse)
    monkeypatch.setattr("os.access", lambda *_: False)
    message = rf"unable to open database file; {tmp_path} cannot be written"
    with pytest.raises(StoreError, match=message):
        Store(str(tmp_path / "store.sqlite"))


def test_a_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot make .*file.*: (File exists|Not a directory)"):
        Store(str(tmp_path / "file" / "store.sqlite"))


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
async def test_a_missing_store_stops_runs_without_a_loss(tmp_path: Path, *, replaced: bool) -> None:
    folder = tmp_path / "runs"
    path = folder / "store.sqlite"
    store = Store(str(path))
    await store.put(key(1), "model", LONG)
    if replaced:
        other = tmp_path / "other.sqlite"
        await Store(str(other)).aclose()
        other.replace(path)
    else:
        shutil.rmtree(folder)
    with pytest.raises(StoreError, match="was deleted or replaced"):
        await store.put(key(2), "model", LONG)
    with pytest.raises(StoreError, match="was deleted or replaced"):
        await store.get(key(1))
    await store.aclose()
    [copy] = folder.glob("store.sqlite.rescued-*")
    rescued = Store(str(copy), create=False)
    assert [await rescued.get(key(number)) for number in (1, 2)] == [LONG, LONG]
    await rescued.aclose()
