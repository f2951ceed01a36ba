"""The file that drafts are written to: an annotations file, one line per row.

The file is complete: it takes over what an earlier annotations file says of a row, so it can be
given as `--annotations` in its place. A line is never changed, since a person may have verified it.
A row has a line only if all that it lacked was drafted. Lines are added as drafts come, and sorted
in the order of the rows at the end.
"""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from mmconv.benchmarks.ablations.metrics import LEVELS
from mmconv.benchmarks.base.review import DraftField, DraftFile, Shown
from mmconv.benchmarks.convbench.annotation import Annotator, gaps, read_draft
from mmconv.benchmarks.convbench.data import (
    CAPTION,
    CATEGORIES,
    DRAFTED,
    FOCUS_POINTS,
    ID,
    LISTS,
    REFERENCES,
    REVIEW,
    STATUS,
    Row,
    Texts,
    read_annotations,
    read_id,
    read_texts,
)
from mmconv.benchmarks.data_files.records import Record
from mmconv.core.atomic_writes import atomic_write
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.plans import Finished, Plan


class Drafts:
    """An annotations file that drafts of `rows` are added to; lock it with `held` meanwhile.

    `earlier` is the annotations file that it completes; it may be the same file. Raises
    `ConfigError` if `path` does not end in .jsonl, and `DataError` if the file has a bad line.

    `missing` are the rows that a model is asked about, `present` counts those that had a line
    before. `written` counts drafts, `copied` the rows taken over from the earlier file. By row: the
    columns that an earlier line `lacks`, those left empty because the categories were `unreadable`,
    and the `faults` for which nothing was written.
    """

    def __init__(self, path: Path, earlier: Path | None, rows: Sequence[Row]) -> None:
        self.path = path
        if path.suffix.lower() != ".jsonl":
            raise ConfigError(f"--out {path}: drafts are JSON Lines; name it .jsonl")
        lines: dict[str, Texts] = {}
        if path.exists() and path.stat().st_size:
            lines, bad = _read(path)
            if bad:
                raise DataError(str(path), bad, "Fix the lines, or give another --out.")
        # bad lines of the earlier file were refused, or left out on request, with the dataset
        self._earlier = {} if earlier is None else _read(earlier)[0]
        self._order = {row.id: place for place, row in enumerate(rows)}
        self.rows = len(rows)
        lacks = {row.id: gaps(row) for row in rows}
        self.missing = [row for row in rows if row.id not in lines and lacks[row.id]]
        self._whole = [row for row in rows if row.id not in lines and not lacks[row.id]]
        self.present = sum(row.id in lines for row in rows)
        self.lacks = {
            row_id: columns
            for row_id, line in lines.items()
            if (columns := [each for each in lacks.get(row_id, ()) if each not in line])
        }
        self.written = self.copied = 0
        self.unreadable: dict[str, tuple[str, ...]] = {}
        self.faults: dict[str, tuple[str, ...]] = {}

    def copy_whole(self) -> None:
        """Take over the rows that need no model from the earlier file."""
        for row in self._whole:
            self._copy(row)

    def plans(self, annotator: Annotator) -> Iterator[Plan]:
        """A plan for every row that a model is asked about."""
        for order, row in enumerate(self.missing):
            calls = tuple(annotator.calls(row))
            yield Plan(order=order, sample=row.id, condition="annotate", calls=calls)

    def finish(self, finished: Finished) -> None:
        """Write the row's line, unless something that it lacks could not be drafted.

        Categories that could not be read do not hold the rest back. A line has one status: what a
        person wrote becomes part of a draft if a model completes it.
        """
        row = self.missing[finished.plan.order]
        draft = read_draft(row, finished.plan.calls, finished.outcomes)
        if draft.faults:
            self.faults[row.id] = draft.faults
            return
        if draft.unreadable:
            self.unreadable[row.id] = draft.unreadable
        if draft.texts:
            earlier = {k: v for k, v in self._earlier.get(row.id, {}).items() if k not in REVIEW}
            self._append(row, {**earlier, **draft.texts, STATUS: "draft"})
            self.written += 1
        else:
            self._copy(row)

    def sort(self) -> None:
        """Put the lines into the order of the rows."""
        if self.path.exists():
            content = self.path.read_bytes().removeprefix(BOM_UTF8)
            lines = [line for line in content.splitlines() if line.strip()]
            lines.sort(key=self._place)
            with atomic_write(self.path, sync=True) as part:
                part.write_bytes(b"".join(line + b"\n" for line in lines))

    def _place(self, line: bytes) -> int:
        """The row's place; lines of other rows, and what a person spoilt meanwhile, come last."""
        try:
            row_id = _row_id(orjson.loads(line))
        except (orjson.JSONDecodeError, AttributeError):
            return self.rows
        return self._order.get(row_id or "", self.rows)

    def _copy(self, row: Row) -> None:
        if row.id in self._earlier:
            self._append(row, {STATUS: "verified", **self._earlier[row.id]})
            self.copied += 1

    def _append(self, row: Row, texts: Mapping[str, str]) -> None:
        """Add a line and have it on disk before returning."""
        given = {column: texts[column] for column in (*DRAFTED, STATUS, *REVIEW) if column in texts}
        line = orjson.dumps({ID: int(row.id), **given})
        with self.path.open("a+b") as file:
            # an editor may have saved it without a last line break
            if file.tell():
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())


def draft_file(path: Path, rows: Iterable[Row]) -> tuple[DraftFile, list[str]]:
    """The drafts of these rows, to be reviewed, and the IDs of drafts of other rows.

    Raises `DataError` for a file with bad lines.
    """
    lines, bad = _read(path)
    if bad:
        raise DataError(str(path), bad, "Correct the lines.")
    titles = ("caption", *(f"reference {n}, {level}" for n, level in LEVELS.items()))
    fields = [
        DraftField(name=name, title=title)
        for name, title in zip((CAPTION, *REFERENCES), titles, strict=True)
    ]
    fields.append(DraftField(name=FOCUS_POINTS, title="focus points"))
    fields += [
        DraftField(name=name, title=f"category {n}, {LEVELS[n]}", choices=LISTS[n])
        for n, name in enumerate(CATEGORIES, start=1)
    ]
    shown = {
        row.id: Shown(
            images=[row.image.sha256],
            texts={
                f"turn {n}, {LEVELS[n]}": text for n, text in enumerate(row.instructions, start=1)
            },
        )
        for row in rows
    }
    drafts = DraftFile(path=path, identify=_row_id, fields=fields, shown=shown)
    return drafts, [row_id for row_id in lines if row_id not in shown]


def _row_id(entry: dict[str, Any]) -> str | None:
    return read_id(read_texts(Record(where="", fields=entry))[0])


def _read(path: Path) -> tuple[dict[str, Texts], list[str]]:
    """The annotations by row, and what is wrong with the other lines."""
    annotations = read_annotations(path)
    bad = [f"{where}: {each}" for where, problems in annotations.bad.items() for each in problems]
    return {key: texts for key, (_, texts) in annotations.by_id.items()}, bad
