"""ConvBench's rows: the authors' spreadsheet joined with images, A/B sides and annotations.

The file is read twice. `survey` checks every record, and every image that is wanted, before
anything is paid for, and tells all that is wrong in one message; `load_rows` then streams. Nothing
is drafted, prompted or scored here, and no image bytes are held.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

import orjson

from mmconv.benchmarks.convbench.columns import (
    CAPTION,
    CATEGORIES,
    COLUMNS,
    FOCUS_POINTS,
    ID,
    IMAGE,
    INSTRUCTIONS,
    REFERENCES,
    REQUIRED,
    STATUS,
    read_id,
    read_texts,
)
from mmconv.benchmarks.convbench.pictures import ImageFolder, check_ahead
from mmconv.benchmarks.convbench.sides import Position, read_sides
from mmconv.benchmarks.records import Record, read_records
from mmconv.errors import DataError
from mmconv.protocols import ImageSink
from mmconv.values import Image

Status: TypeAlias = Literal["draft", "verified"]
Triple: TypeAlias = tuple[str | None, str | None, str | None]

_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where ConvBench's data lies, and what the run asks of it.

    `data` and `annotations` are files of records; `positions` is the authors' pairwise.npy.
    `needs` names the columns that no row may lack, beside ID, image and instructions. `skip_bad`
    leaves bad records out instead of refusing the file. `limit` is how many good rows are wanted:
    the images of rows after them are not looked at.
    """

    data: Path
    images: Path
    annotations: Path | None = None
    positions: Path | None = None
    needs: Collection[str] = ()
    skip_bad: bool = False
    allow_drafts: bool = False
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One conversation: an image, three instructions, and what people wrote about them.

    `position` is the model's side in pairwise grading, None without a file of positions. A `draft`
    was written by a model and not yet checked by a person.
    """

    id: str
    image: Image
    instructions: tuple[str, str, str]
    caption: str | None
    references: Triple
    focus_points: str | None
    categories: Triple
    position: Position | None
    draft: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A record that is not used: `where` it stands, its ID if it has a valid one, and why."""

    where: str
    id: str | None
    reasons: tuple[str, ...]

    @property
    def name(self) -> str:
        """The ID, or where the record stands if it has none."""
        return self.id or self.where

    def line(self, reason: str) -> str:
        """One of the reasons, with where it is."""
        known = "" if self.id is None else f" (ID {self.id})"
        return f"{self.where}{known}: {reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a file holds: good `rows`, how many of them are `drafts`, and what is not used.

    `unread` names columns that nothing here reads; a misspelt column turns up among them.
    """

    rows: int
    drafts: int
    left_out: tuple[LeftOut, ...]
    unused_annotations: tuple[LeftOut, ...]
    unread: tuple[str, ...]


def survey(source: Source, library: ImageSink) -> Survey:
    """Check all records, annotations and wanted images, and add these to the library.

    `library.add_file` is called from several threads. Raises `DataError` with all problems in one
    message; with `source.skip_bad` only where a file cannot be read or no row is left.
    """
    if not source.images.is_dir():
        raise DataError(str(source.images), ["there is no such folder"], "Check the images folder.")
    joined = _Pass(source)
    tally = _Tally(limit=source.limit)
    images = ImageFolder(source.images, library)

    def wanted(candidate: _Candidate) -> str | None:
        return None if tally.is_full else candidate.texts.get(IMAGE)

    for candidate, fault in check_ahead(joined, wanted, images):
        # an image that was looked at ahead of its turn may turn out not to be wanted
        tally.add(candidate, None if tally.is_full else fault)
    unused = joined.unused_annotations()
    wrong = bool(tally.left_out or unused)
    if not tally.good or (wrong and not source.skip_bad):
        raise _refusal(source, tally, unused, joined.unread)
    return Survey(
        rows=tally.good,
        drafts=tally.drafts,
        left_out=tuple(tally.left_out),
        unused_annotations=tuple(unused),
        unread=tuple(joined.unread),
    )


def load_rows(source: Source, library: ImageSink, found: Survey) -> Iterator[Row]:
    """Stream the rows that the survey found good, in the file's order, as many as are wanted.

    Raises `DataError` for a row, and `ImageError` for an image, that has gone bad since.
    """
    left_out = {each.where for each in found.left_out}
    good = (candidate for candidate in _Pass(source) if candidate.where not in left_out)
    for candidate in islice(good, source.limit):
        if candidate.id is None or candidate.reasons:
            raise DataError(
                candidate.where, candidate.reasons, "The file has changed: start the run again."
            )
        image = library.add_file(str(source.images / candidate.texts[IMAGE]))
        yield _row(candidate, candidate.id, image)


def annotation_line(
    row_id: str,
    caption: str | None,
    references: Triple,
    focus_points: str | None,
    categories: Triple,
    status: Status,
) -> str:
    """One line of an annotations file, without its line break; what is None is left out."""
    values = {
        CAPTION: caption,
        **dict(zip(CATEGORIES, categories, strict=True)),
        **dict(zip(REFERENCES, references, strict=True)),
        FOCUS_POINTS: focus_points,
        STATUS: status,
    }
    given = {column: value for column, value in values.items() if value is not None}
    return orjson.dumps({ID: int(row_id), **given}).decode()


def append_annotation(path: Path, line: str) -> None:
    """Add a line to an annotations file and have it on disk before returning."""
    with path.open("a+b") as file:
        # Whoever verified the drafts before may have saved without a last line break.
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else f"\n{line}"
        file.write(f"{line}\n".encode())
        file.flush()
        os.fsync(file.fileno())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A data record joined with its annotation: what it holds, and what is wrong but its image.

    `gaps` are columns that must be filled and are not; `refused` marks a draft that the run would
    read without leave.
    """

    where: str
    id: str | None
    texts: Mapping[str, str]
    position: Position | None
    gaps: tuple[str, ...]
    draft: bool
    refused: bool
    faults: tuple[str, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Everything that keeps the row out."""
        gaps = (f"no {', '.join(self.gaps)}",) if self.gaps else ()
        refused = ("a draft that nobody has verified",) if self.refused else ()
        return (*gaps, *refused, *self.faults)


class _Pass:
    """One pass over the data file; afterwards it knows the annotations that met no row."""

    def __init__(self, source: Source) -> None:
        self.unread: dict[str, None] = {}
        self._source = source
        needed = {*REQUIRED, *source.needs}
        self._needed = [column for column in COLUMNS if column in needed]
        self._sides = {} if source.positions is None else read_sides(source.positions)
        self._seen: set[str] = set()
        self._bad_annotations: list[LeftOut] = []
        self._annotations: dict[str, tuple[str, Mapping[str, str]]] = {}
        if source.annotations is not None:
            self._index(source.annotations)

    def __iter__(self) -> Iterator[_Candidate]:
        for record in read_records(self._source.data):
            yield self._join(record)

    def unused_annotations(self) -> list[LeftOut]:
        """The annotations that no row took: bad ones first, each in the order of the file."""
        strays = [
            LeftOut(where=where, id=key, reasons=("no row has this ID",))
            for key, (where, _) in self._annotations.items()
            if key not in self._seen
        ]
        return [*self._bad_annotations, *strays]

    def _index(self, path: Path) -> None:
        for record in read_records(path):
            texts, faults = self._read(record)
            key = read_id(texts)
            if ID not in texts:
                faults.append(f"no {ID}")
            if key in self._annotations:
                faults.append(f"{self._annotations[key][0]} annotates this ID already")
            if key is None or faults:
                reasons = tuple(faults)
                self._bad_annotations.append(LeftOut(where=record.where, id=key, reasons=reasons))
            else:
                self._annotations[key] = record.where, texts

    def _join(self, record: Record) -> _Candidate:
        texts, faults = self._read(record)
        key = read_id(texts)
        if key is not None:
            faults += self._clashes(key, texts)
            self._seen.add(key)
        draft = texts.get(STATUS) == "draft"
        return _Candidate(
            where=record.where,
            id=key,
            texts=texts,
            position=None if key is None else self._sides.get(int(key)),
            gaps=tuple(column for column in self._needed if column not in texts),
            draft=draft,
            refused=draft and bool(self._source.needs) and not self._source.allow_drafts,
            faults=tuple(faults),
        )

    def _clashes(self, key: str, texts: dict[str, str]) -> Iterator[str]:
        """Fill `texts` from the row's annotation; yields what does not fit together."""
        if key in self._seen:
            yield "an earlier row has this ID"
        if self._source.positions is not None and int(key) not in self._sides:
            yield f"{self._source.positions.name} ends at ID {len(self._sides)}"
        where, annotation = self._annotations.get(key, ("", {}))
        for column, value in annotation.items():
            if column != ID and texts.setdefault(column, value).strip() != value.strip():
                yield f"{column} differs from {where}"

    def _read(self, record: Record) -> tuple[dict[str, str], list[str]]:
        self.unread.update(dict.fromkeys(name for name in record.fields if name not in COLUMNS))
        return read_texts(record)


@dataclass(slots=True)
class _Tally:
    """What a survey has counted so far; rows go by their ID, or by where they stand."""

    limit: int | None
    rows: int = 0
    good: int = 0
    drafts: int = 0
    gaps: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether as many good rows are found as are wanted."""
        return self.limit is not None and self.good >= self.limit

    def add(self, candidate: _Candidate, image_fault: str | None) -> None:
        """Count a row as good, or under everything that is wrong with it."""
        self.rows += 1
        images = () if image_fault is None else (image_fault,)
        reasons = (*candidate.reasons, *images)
        if not reasons:
            self.good += 1
            self.drafts += candidate.draft
            return
        out = LeftOut(where=candidate.where, id=candidate.id, reasons=reasons)
        self.left_out.append(out)
        if candidate.gaps:
            self.gaps.setdefault(candidate.gaps, []).append(out.name)
        if candidate.refused:
            self.refused.append(out.name)
        self.faults += [out.line(fault) for fault in candidate.faults]
        self.images += [out.line(fault) for fault in images]


def _row(candidate: _Candidate, key: str, image: Image) -> Row:
    texts = candidate.texts
    first, second, third = (texts[column] for column in INSTRUCTIONS)
    return Row(
        id=key,
        image=image,
        instructions=(first, second, third),
        caption=texts.get(CAPTION),
        references=_triple(texts, REFERENCES),
        focus_points=texts.get(FOCUS_POINTS),
        categories=_triple(texts, CATEGORIES),
        position=candidate.position,
        draft=candidate.draft,
    )


def _triple(texts: Mapping[str, str], columns: tuple[str, str, str]) -> Triple:
    first, second, third = (texts.get(column) for column in columns)
    return first, second, third


def _refusal(
    source: Source, tally: _Tally, unused: Iterable[LeftOut], unread: Collection[str]
) -> DataError:
    """All that is wrong in one message: what many rows lack last, where it is still on screen."""
    problems = [*tally.images, *tally.faults]
    problems += [out.line(reason) for out in unused for reason in out.reasons]
    if tally.refused:
        problems.append(f"{STATUS}: draft in {_shown(tally.refused, tally.rows)}")
    problems += [
        f"{', '.join(columns)}: nothing in {_shown(rows, tally.rows)}"
        for columns, rows in tally.gaps.items()
    ]
    advice = []
    if any(column not in REQUIRED for columns in tally.gaps for column in columns):
        advice.append(
            "--generate-only asks the models in the free setting, which needs no references; "
            "`mmconv annotate convbench` drafts what is missing."
        )
    if tally.refused:
        advice.append("Check the drafts and set status to verified, or run with --allow-drafts.")
    if tally.images:
        advice.append(f"Put the images that are missing into {source.images}.")
    if unread:
        advice.append(f"Columns that nothing reads: {', '.join(unread)}.")
    if tally.good:
        complete = f"{tally.good} of {tally.rows}"
        advice.append(f"--skip-bad-records goes on with the complete rows: {complete}.")
    return DataError(str(source.data), problems or ["holds no records"], "\n".join(advice))


def _shown(names: list[str], rows: int) -> str:
    more = "" if len(names) <= _SHOWN else f" and {len(names) - _SHOWN} more"
    return f"{len(names)} of {rows} rows, by ID: {', '.join(names[:_SHOWN])}{more}"
