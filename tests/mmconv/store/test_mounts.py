"""A store on a network file system is kept without a write-ahead log, which does not work there."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mmconv.core.types import Reply
from mmconv.store import Store, connections
from mmconv.store.connections import is_on_network
from tests.mmconv.store.conftest import key


def mount(monkeypatch: pytest.MonkeyPatch, folder: Path, *lines: str) -> None:
    """Have the kernel say what is mounted."""
    mounts = folder / "mounts"
    mounts.write_text("".join(f"{line} rw,relatime 0 0\n" for line in lines))
    monkeypatch.setattr(connections, "MOUNTS", mounts)


def journal(path: Path) -> str:
    with closing(sqlite3.connect(path)) as database:
        return str(database.execute("PRAGMA journal_mode").fetchone()[0])


def test_the_innermost_mount_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mount(
        monkeypatch,
        tmp_path,
        "/dev/sda / ext4",
        "auto /share autofs",
        "server:/share /share nfs4",
        "tmpfs /share/ann/tmp tmpfs",
        "fs:/my\\040data /my\\040data lustre",
    )
    assert is_on_network(Path("/share/ann/runs/store.sqlite"))
    assert is_on_network(Path("/my data/store.sqlite"))
    assert not is_on_network(Path("/share/ann/tmp/store.sqlite"))
    assert not is_on_network(Path("/shares/store.sqlite"))
    monkeypatch.setattr(connections, "MOUNTS", tmp_path / "none")
    assert not is_on_network(Path("/share/ann/runs/store.sqlite"))


async def test_a_moved_store_loses_its_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = Store(str(path))
    await store.put(key(1), "model", Reply(text="one"))
    await store.aclose()
    assert journal(path) == "wal"
    mount(monkeypatch, tmp_path, f"server:/data {tmp_path} nfs4")
    first, second = Store(str(path)), Store(str(path))
    for number, kept in enumerate((first, second), start=2):
        await kept.put(key(number), "model", Reply(text=str(number)))
    assert [await second.get(key(number)) for number in (1, 2, 3)] == [
        Reply(text="one"),
        Reply(text="2"),
        Reply(text="3"),
    ]
    await first.aclose()
    await second.aclose()
    assert journal(path) == "delete"
    assert not path.with_name("store.sqlite-wal").exists()
