"""Files that are whole or not there."""

import os
from pathlib import Path

import pytest

from mmconv.core.atomic_writes import atomic_write
from mmconv.core.errors import ConfigError


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with atomic_write(path) as one:
        one.write_bytes(b"one")
        with atomic_write(path) as other:
            other.write_bytes(b"other")
        assert path.read_bytes() == b"other"
    assert path.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [path]


def test_what_breaks_off_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with pytest.raises(RuntimeError, match="stopped"), atomic_write(path) as part:
        part.write_bytes(b"aft")
        raise RuntimeError("stopped")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_take_its_place_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    with pytest.raises(IsADirectoryError), atomic_write(folder) as part:
        part.write_bytes(b"all")
        folder.mkdir()
    assert list(tmp_path.iterdir()) == [folder]


def test_devices_and_folders_are_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for there in (pipe, tmp_path, Path(os.devnull)):
        with pytest.raises(ConfigError, match="is not a file, and would be replaced by one"):
            atomic_write(there).__enter__()
    assert pipe.is_fifo()
    assert Path(os.devnull).is_char_device()


def test_a_link_stays_one(tmp_path: Path) -> None:
    link, path = tmp_path / "link", tmp_path / "file"
    link.symlink_to(path)
    for text in ("new", "again"):
        with atomic_write(link) as part:
            part.write_text(text, encoding="utf-8")
        assert (link.readlink(), path.read_text(encoding="utf-8")) == (path, text)


def test_a_file_is_on_disk_before_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    seen: list[tuple[bytes, bool]] = []

    def fsync(number: int) -> None:
        seen.append((os.pread(number, 9, 0), path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    with atomic_write(path) as part:
        part.write_bytes(b"quick")
    path.unlink()
    with atomic_write(path, sync=True) as part:
        part.write_bytes(b"sure")
    assert seen == [(b"sure", False)]
