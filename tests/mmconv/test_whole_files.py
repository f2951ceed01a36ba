"""Files that are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mmconv.whole_files import whole


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with whole(path) as one:
        one.write_bytes(b"one")
        with whole(path) as other:
            other.write_bytes(b"other")
        assert path.read_bytes() == b"other"
    assert path.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [path]


def test_what_breaks_off_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with pytest.raises(RuntimeError, match="stopped"), whole(path) as part:
        part.write_bytes(b"aft")
        raise RuntimeError("stopped")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_take_its_place_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.mkdir()
    with pytest.raises(IsADirectoryError), whole(folder) as part:
        part.write_bytes(b"all")
    assert list(tmp_path.iterdir()) == [folder]


def test_a_file_is_on_disk_before_it_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    seen: list[tuple[bytes, bool]] = []

    def fsync(number: int) -> None:
        seen.append((os.pread(number, 9, 0), path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    with whole(path) as part:
        part.write_bytes(b"quick")
    path.unlink()
    with whole(path, sync=True) as part:
        part.write_bytes(b"sure")
    assert seen == [(b"sure", False)]
