"""A drafting job and the file that it writes: an annotations file, one line per row.

The file is complete: it takes over what an earlier annotations file says of a row, so it can be
given as `--annotations` in its place. A line is never changed, since a person may have verified it.
A row has a line only if all that it lacked was drafted. Lines are added as drafts come, and sorted
in the order of the rows at the end.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import IO, Literal, TypeAlias

import orjson

from mmconv.benchmarks.convbench.annotation import Annotator, gaps, read_draft
from mmconv.benchmarks.convbench.data import (
    DRAFTED,
    ID,
    STATUS,
    Row,
    read_annotations,
    read_id,
    read_texts,
)
from mmconv.benchmarks.data_files.records import Record
from mmconv.core.atomic_writes import atomic_write
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.plans import Finished, Plan

Texts: TypeAlias = Mapping[str, str]
"""What an annotation holds, by column."""

Status: TypeAlias = Literal["draft", "verified"]


class DraftFile:
    """An annotations file that drafts are added to; lock it with `held` meanwhile.

    `earlier` is the annotations file that it completes; it may be the same file. Raises
    `ConfigError` if `path` does not end in .jsonl, and `DataError` if the file has a bad line.
    """

    def __init__(self, path: Path, earlier: Path | None = None) -> None:
        self.path = path
        if path.suffix.lower() != ".jsonl":
            raise ConfigError(f"--out {path}: drafts are JSON Lines; name it .jsonl")
        self._lines, faults = _read(path) if path.exists() else ({}, [])
        if faults:
            raise DataError(str(path), faults, "Fix the lines, or give another --out.")
        # bad lines of the earlier file were refused, or left out on request, with the dataset
        self._earlier = {} if earlier is None else _read(earlier)[0]

    def line(self, row_id: str) -> Texts | None:
        """What the row's line holds, None if it has none."""
        return self._lines.get(row_id)

    def copy(self, row_id: str) -> bool:
        """Take over the row's line of the earlier file as it is; False if there is none."""
        texts = self._earlier.get(row_id)
        if texts is None:
            return False
        status: Status = "draft" if texts.get(STATUS) == "draft" else "verified"
        self._append(row_id, texts, status)
        return True

    def add(self, row_id: str, drafted: Texts) -> None:
        """Write a row's draft, and return once it is on disk.

        A line has one status: what a person wrote becomes part of a draft if a model completes it.
        """
        self._append(row_id, {**self._earlier.get(row_id, {}), **drafted}, "draft")

    def arrange(self, order: Mapping[str, int]) -> None:
        """Move the lines into this order of rows, byte for byte; those of other rows come last.

        The file is left as it is where that cannot be done.
        """
        content = self.path.read_bytes().removeprefix(BOM_UTF8)
        lines = [line for line in content.split(b"\n") if line.strip()]
        rows = [_row_of(line) for line in lines]
        places = [order.get(row or "", len(order)) for row in rows]
        if None in rows or places == sorted(places):
            return
        arranged = sorted(zip(places, lines, strict=True), key=itemgetter(0))
        # All lines are there, whatever their order.
        with suppress(OSError):
            _replace(self.path.resolve(), b"".join(line + b"\n" for _, line in arranged))

    def _append(self, row_id: str, texts: Texts, status: Status) -> None:
        given = {column: texts[column] for column in DRAFTED if column in texts}
        _append_line(self.path, orjson.dumps({ID: int(row_id), **given, STATUS: status}))
        self._lines[row_id] = texts


@dataclass(slots=True, kw_only=True)
class Drafting:
    """Which rows are asked about, and what has become of them so far.

    `lacking` counts the rows to ask about, `written` drafts, `copied` the rows taken over from the
    earlier file, `present` those that had a line before. By row: the columns that such a line
    `lacks`, those left empty because the categories were `unreadable`, and the `faults` for which
    nothing was written.
    """

    annotator: Annotator
    file: DraftFile
    lacking: int = 0
    written: int = 0
    copied: int = 0
    present: int = 0
    lacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unreadable: dict[str, tuple[str, ...]] = field(default_factory=dict)
    faults: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _under_way: dict[int, Row] = field(default_factory=dict, init=False)
    _order: dict[str, int] = field(default_factory=dict, init=False)

    @property
    def rows(self) -> int:
        """How many rows there are in all."""
        return len(self._order)

    def settle(self, rows: Iterable[Row]) -> None:
        """Settle the rows that need no model, and count the others as `lacking`."""
        for order, row in enumerate(rows):
            self._order[row.id] = order
            missing = gaps(row)
            line = self.file.line(row.id)
            if line is not None:
                self.present += 1
                if lacks := tuple(column for column in missing if column not in line):
                    self.lacks[row.id] = lacks
            elif missing:
                self.lacking += 1
            else:
                self.copied += self.file.copy(row.id)

    def plans(self, rows: Iterable[Row]) -> Iterator[Plan]:
        """A plan for every row without a line that lacks something, streamed."""
        for order, row in enumerate(rows):
            if self.file.line(row.id) is None and gaps(row):
                self._under_way[order] = row
                calls = self.annotator.calls(row)
                yield Plan(order=order, sample=row.id, condition="annotate", calls=calls)

    def finish(self, finished: Finished) -> None:
        """Write the row's line, unless something that it lacks could not be drafted.

        Categories that could not be read do not hold the rest back.
        """
        row = self._under_way.pop(finished.plan.order)
        draft = read_draft(row, finished.plan.calls, finished.outcomes)
        if draft.faults:
            self.faults[row.id] = draft.faults
            return
        if draft.unreadable:
            self.unreadable[row.id] = draft.unreadable
        if draft.texts:
            self.file.add(row.id, draft.texts)
            self.written += 1
        else:
            self.copied += self.file.copy(row.id)

    def arrange(self) -> None:
        """Put the file's lines and the rows of messages into the rows' order."""
        self.file.arrange(self._order)
        for by_row in (self.unreadable, self.faults):
            ordered = sorted(by_row.items(), key=lambda item: self._order[item[0]])
            by_row.clear()
            by_row.update(ordered)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Lock the file for this process; a new file is not left empty.

    Raises `ConfigError` if it cannot be written, or if another process holds it.
    """
    there = path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _locked(path)
    except BlockingIOError as error:
        raise ConfigError(
            f"--out {path}: another `mmconv annotate` is writing this file; wait until it has "
            "ended, or name another"
        ) from error
    except OSError as error:
        raise ConfigError(f"--out {path}: {error.strerror or error}") from error
    with file:
        try:
            yield
        finally:
            if not there and path.exists() and not path.stat().st_size:
                path.unlink()


def _locked(path: Path) -> IO[bytes]:
    """The file, locked until it is closed; raises `BlockingIOError` if another has locked it."""
    while True:
        file = path.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise
        # the process before may have replaced or removed it
        if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
            return file
        file.close()


def _append_line(path: Path, line: bytes) -> None:
    """Add a line and have it on disk before returning."""
    with path.open("a+b") as file:
        # an editor may have saved it without a last line break
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else b"\n" + line
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _replace(path: Path, content: bytes) -> None:
    """Put a new file in the place of one, which is there whole until the new one is."""
    with atomic_write(path, sync=True) as part:
        part.write_bytes(content)
        shutil.copymode(path, part)


def _row_of(line: bytes) -> str | None:
    """The row that a line annotates; None if the line was damaged meanwhile."""
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(fields, dict):
        return None
    return read_id(read_texts(Record(where="", fields=fields))[0])


def _read(path: Path) -> tuple[dict[str, Texts], list[str]]:
    """The annotations by row, and what is wrong with the other lines."""
    annotations = read_annotations(path)
    texts: dict[str, Texts] = {key: texts for key, (_, texts) in annotations.by_id.items()}
    bad = [*annotations.bad.items(), *annotations.bad_ids.values()] if annotations.records else []
    return texts, [f"{where}: {problem}" for where, problems in bad for problem in problems]
