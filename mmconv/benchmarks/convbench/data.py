"""ConvBench's rows: the authors' spreadsheet joined with images, A/B sides and annotations.

The file is read twice. `survey` checks every record that is wanted, and its image, before anything
is paid for, and tells all that is wrong in one message; `load_rows` then streams. Nothing is
drafted, prompted or scored here, and no image bytes are held.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from mmconv.benchmarks.choosing import EVERYTHING, Choice, all_keys, key_or_place
from mmconv.benchmarks.convbench.categories import as_listed
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
from mmconv.benchmarks.convbench.sides import Side, read_sides
from mmconv.benchmarks.data_files.bad_records import BadRecords, refusal
from mmconv.benchmarks.data_files.image_folder import ImageFolder, check_ahead
from mmconv.benchmarks.data_files.intake import Found, Intake
from mmconv.benchmarks.data_files.records import Record, Unreadable, scan_records
from mmconv.core.protocols import ImageSink
from mmconv.core.types import Image

Triple: TypeAlias = tuple[str | None, str | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where ConvBench's data lies, and what the run asks of it.

    `data` and `annotations` are files of records; `positions` is the authors' pairwise.npy.
    `sheet` names one of the data's, where they are a workbook. `needs` names the columns that no
    row may lack, beside ID, image and instructions. `skip_bad` leaves bad records out instead of
    refusing the file. `choice` says which rows are wanted; of the first ones, with `skip_bad`, the
    first good ones. No other row is checked.
    """

    data: Path
    images: Path
    sheet: str | None = None
    annotations: Path | None = None
    positions: Path | None = None
    needs: Collection[str] = ()
    skip_bad: bool = False
    allow_drafts: bool = False
    choice: Choice = EVERYTHING


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
    position: Side | None
    draft: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What the files hold: the rows taken in, and what is not used.

    Of the good rows some are `drafts`, and some `without_focus_points`. `unread` names columns that
    nothing here reads; `misspelt` tells of those that look like one that their file lacks.
    """

    intake: Intake
    drafts: int
    without_focus_points: int
    unused_annotations: BadRecords
    unread: tuple[str, ...]
    misspelt: BadRecords

    @property
    def bad(self) -> BadRecords:
        """All that is not used; two files of one name may have a place in common.

        Columns and annotations come first: rows lack what these would have given them.
        """
        parts = (self.misspelt, self.unused_annotations, self.intake.bad)
        places = dict.fromkeys(place for part in parts for place in part)
        return {
            place: tuple(fault for part in parts for fault in part.get(place, ()))
            for place in places
        }


def source_keys(source: Source) -> Iterator[str]:
    """The IDs of all rows, wanted or not; see `mmconv.benchmarks.choosing.all_keys`."""
    return all_keys(scan_records(source.data, source.sheet, columns=REQUIRED), _key)


def filled_columns(source: Source, columns: Collection[str]) -> Set[str]:
    """Those of the columns that any row or annotation fills in."""
    records = scan_records(source.data, source.sheet, columns=REQUIRED)
    if source.annotations is not None:
        records = chain(scan_records(source.annotations, columns=COLUMNS), records)
    empty = set(columns)
    for record in records:
        if isinstance(record, Record):
            empty -= {column for column, value in read_texts(record)[0].items() if value}
        if not empty:
            break
    return {*columns} - empty


def survey(source: Source, library: ImageSink) -> Survey:
    """Check all records, annotations and images that are wanted, and add these to the library.

    `library.add_file` is called from several threads. Raises `DataError` with all problems in one
    message; with `source.skip_bad` only where a file cannot be read or no row is left.
    """
    images, joined = ImageFolder(source.images, library), _Pass(source)
    intake = Intake(choice=source.choice, skip_bad=source.skip_bad)
    drafts = without_focus_points = 0

    def wanted(row: Found[_Joined]) -> tuple[str, ...]:
        name = None if row.sample is None else row.sample.texts.get(IMAGE)
        return () if intake.is_full or not name else (name,)

    for row, image_faults in check_ahead(joined, wanted, images):
        # an image that was looked at ahead of its turn may turn out not to be wanted
        if not intake.is_full:
            joined.keep(row)
        good = intake.add(row, image_faults)
        if good and row.sample is not None:
            drafts += row.sample.draft
            without_focus_points += not row.sample.texts.get(FOCUS_POINTS)
    found = Survey(
        intake=intake,
        drafts=drafts,
        without_focus_points=without_focus_points,
        unused_annotations=joined.unused_annotations(),
        unread=joined.unread,
        misspelt=joined.misspelt(),
    )
    if not (intake.good or intake.bad):
        raise refusal(source.data, {}, 0)
    if not intake.good or (found.bad and not source.skip_bad):
        advice, more = _advice(source, found, images.missing), bool(intake.beyond and intake.bad)
        raise refusal(source.data, found.bad, intake.good, advice, more=more)
    return found


def load_rows(source: Source, library: ImageSink, found: Survey) -> Iterator[Row]:
    """Stream the rows that the survey found good, in the file's order, as many as are wanted.

    Raises `DataError` for a row, and `ImageError` for an image, that has gone bad since.
    """
    for joined in found.intake.stream(_Pass(source)):
        yield _row(joined, library.add_file(str(source.images / joined.texts[IMAGE])))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joined:
    """A data record joined with its annotation; `id` is empty where it has no valid one."""

    id: str
    texts: Mapping[str, str]
    position: Side | None
    draft: bool


class _Pass:
    """One pass over the data file; afterwards it knows the annotations that met no row."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._names: dict[Path, dict[str, None]] = {}
        needed = {*REQUIRED, *source.needs}
        self._needed = [column for column in COLUMNS if column in needed]
        self._sides = {} if source.positions is None else read_sides(source.positions)
        self._seen: set[str] = set()
        self._kept: set[str] = set()
        self._bad_annotations: dict[str, tuple[str | None, tuple[str, ...]]] = {}
        self._annotations: dict[str, tuple[str, Mapping[str, str]]] = {}
        self._spoilt: dict[str, str] = {}
        if source.annotations is not None:
            self._index(source.annotations)

    def __iter__(self) -> Iterator[Found[_Joined]]:
        source = self._source
        for record in scan_records(source.data, source.sheet, columns=REQUIRED):
            if not source.choice.takes(record, _key):
                self._seen.add(key_or_place(record, _key))
            elif isinstance(record, Unreadable):
                yield Found(place=record.where, key=record.where, faults=(record.fault,))
            else:
                yield self._join(record)

    @property
    def unread(self) -> tuple[str, ...]:
        """The columns of both files that nothing reads."""
        names = (name for held in self._names.values() for name in held if name not in COLUMNS)
        return tuple(dict.fromkeys(names))

    def misspelt(self) -> BadRecords:
        """By file: columns that nothing reads, and that look like one which the file lacks."""
        found: dict[str, tuple[str, ...]] = {}
        for path, held in self._names.items():
            lacking = {_bare(column): column for column in COLUMNS if column not in held}
            unread = [(name, _bare(name)) for name in held if name not in COLUMNS]
            close = [(name, get_close_matches(bare, lacking, 1, _ALIKE)) for name, bare in unread]
            if faults := [_misspelt(name, lacking[like[0]]) for name, like in close if like]:
                found[path.name] = tuple(faults)
        return found

    def keep(self, row: Found[_Joined]) -> None:
        """Note that the row is wanted: what is wrong with its annotations counts."""
        if row.sample is not None and row.sample.id:
            self._kept.add(row.sample.id)

    def unused_annotations(self) -> BadRecords:
        """The annotations that no row took: bad ones first, each in the order of the file.

        Those of rows that are not wanted are no bad ones.
        """
        beyond = self._seen - self._kept
        strays = {
            _place(where, key): ("no row has this ID",)
            for key, (where, _) in self._annotations.items()
            if key not in self._seen
        }
        bad = {
            place: faults
            for place, (key, faults) in self._bad_annotations.items()
            if key not in beyond
        }
        return {**bad, **strays}

    def _index(self, path: Path) -> None:
        for record in scan_records(path, columns=COLUMNS):
            if isinstance(record, Unreadable):
                self._bad_annotations[record.where] = None, (record.fault,)
                continue
            texts, faults = self._read(path, record)
            key = read_id(texts)
            if ID not in texts:
                faults.append(_no(ID))
            if key in self._annotations:
                faults.append(f"{self._annotations[key][0]} annotates this ID already")
            if key is None or faults:
                self._bad_annotations[_place(record.where, key)] = key, tuple(faults)
                if key is not None and key not in self._annotations:
                    self._spoilt[key] = f"its annotation in {path.name} is bad"
            else:
                self._annotations[key] = record.where, texts
        if not (self._annotations or self._bad_annotations):
            self._bad_annotations[path.name] = None, ("holds no records",)

    def _join(self, record: Record) -> Found[_Joined]:
        texts, faults = self._read(self._source.data, record)
        key = read_id(texts)
        draft_in = self._source.data if STATUS in texts else self._source.annotations
        if key is not None:
            faults += self._annotate(key, texts)
            self._seen.add(key)
        joined = _Joined(
            id=key or "",
            texts=texts,
            position=None if key is None else self._sides.get(int(key)),
            draft=texts.get(STATUS) == "draft",
        )
        faults = [*self._lacks(key, texts, draft_in), *faults]
        return Found(
            place=_place(record.where, key),
            key=key or record.where,
            sample=joined,
            faults=tuple(faults),
        )

    def _annotate(self, key: str, texts: dict[str, str]) -> list[str]:
        """Fill `texts` from the row's annotation; returns what does not fit together."""
        faults = ["an earlier row has this ID"] if key in self._seen else []
        if self._source.positions is not None and int(key) not in self._sides:
            faults.append(f"{self._source.positions.name} ends at ID {len(self._sides)}")
        where, annotation = self._annotations.get(key, ("", {}))
        for column, value in annotation.items():
            if column != ID and texts.setdefault(column, value).strip() != value.strip():
                faults.append(f"{column} differs from {where}")
        return faults

    def _lacks(
        self, key: str | None, texts: Mapping[str, str], draft_in: Path | None
    ) -> Iterator[str]:
        """What the run needs of a row and this one does not have: columns, a person's check."""
        lacking = [column for column in self._needed if column not in texts]
        if key in self._spoilt and not set(lacking) <= set(REQUIRED):
            yield self._spoilt[key]
            lacking = [column for column in lacking if column in REQUIRED]
        yield from map(_no, lacking)
        unverified = texts.get(STATUS) == "draft" and not self._source.allow_drafts
        if unverified and self._source.needs:
            yield _unverified(draft_in)

    def _read(self, path: Path, record: Record) -> tuple[dict[str, str], list[str]]:
        self._names.setdefault(path, {}).update(dict.fromkeys(record.fields))
        return read_texts(record)


_ALIKE = 0.9
"""How like each other two names of columns are, of 1, for one to be a slip for the other."""


def _bare(column: str) -> str:
    """A column's name without capitals, blanks, hyphens and underlines."""
    return re.sub(r"[\W_]", "", column.casefold())


def _key(record: Record) -> str | None:
    texts, _ = read_texts(record)
    return read_id(texts)


def _row(joined: _Joined, image: Image) -> Row:
    texts = joined.texts
    first, second, third = (texts[column] for column in INSTRUCTIONS)
    return Row(
        id=joined.id,
        image=image,
        instructions=(first, second, third),
        caption=texts.get(CAPTION),
        references=_triple(texts, REFERENCES),
        focus_points=texts.get(FOCUS_POINTS),
        categories=_categories(texts),
        position=joined.position,
        draft=joined.draft,
    )


def _triple(texts: Mapping[str, str], columns: tuple[str, str, str]) -> Triple:
    first, second, third = (texts.get(column) for column in columns)
    return first, second, third


def _categories(texts: Mapping[str, str]) -> Triple:
    """As the paper's lists spell them, so that one category is one row of a table."""
    first, second, third = (
        (name := texts.get(column)) and (as_listed(turn, name) or name)
        for turn, column in enumerate(CATEGORIES, start=1)
    )
    return first, second, third


def _place(where: str, key: str | None) -> str:
    """Where a record stands, with its ID if it has a valid one."""
    return where if key is None else f"{where} (ID {key})"


def _no(column: str) -> str:
    return f"no {column}"


def _misspelt(name: str, meant: str) -> str:
    return f"nothing reads the column {name!r}, and {meant} is not there: rename it"


def _unverified(path: Path | None) -> str:
    return f"a draft in {path and path.name} that nobody has verified"


def _advice(source: Source, found: Survey, missing: Set[str]) -> str:
    """What can be done about the faults; `missing` are those of images that are not there."""
    faults = {fault for each in found.bad.values() for fault in each}
    advice = []
    if faults.intersection(map(_no, source.needs)):
        advice.append(
            "--generate-only asks the models in the free setting, which needs no references; "
            "`mmconv annotate convbench` drafts what is missing."
        )
    if faults.intersection(map(_unverified, (source.data, source.annotations))):
        advice.append("Check the drafts and set status to verified, or run with --allow-drafts.")
    if faults & missing:
        advice.append(f"Put the images that are missing into {source.images}.")
    if found.unread:
        advice.append(f"Columns that nothing reads: {', '.join(found.unread)}.")
    return "\n".join(advice)
