"""A dataset as a run takes it: which records it chooses, which are bad, and the samples.

Every record that a run will use is checked before anything is paid for, and all problems go into
one message. Files are read once; the samples are held in memory.

A run takes all samples, the first ones, some drawn at random, or named ones. What is drawn depends
on the seed and the keys alone: not on the order of the data, the machine or the models. A run that
is scored again takes the samples that it chose at its start (`RunSpec.chosen`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from heapq import nsmallest
from pathlib import Path, PurePath
from typing import Any, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from mmconv.benchmarks.base.sample import IMAGES, has_images, problems_of
from mmconv.benchmarks.data_files.parquet import EmbeddedImage
from mmconv.benchmarks.data_files.records import (
    Record,
    bad_records_note,
    bad_records_table,
    name_few,
    refusal,
    scan_records,
    text,
)
from mmconv.benchmarks.options import Options
from mmconv.core.config import RunSpec
from mmconv.core.documents import Place, name_place, nearest
from mmconv.core.errors import ConfigError, DataError, ImageError
from mmconv.core.keys import hash_json
from mmconv.core.protocols import ImageSink
from mmconv.core.types import Image, Table

S = TypeVar("S", bound=BaseModel)
T = TypeVar("T")

Problems: TypeAlias = tuple[str, ...]
Faults: TypeAlias = Callable[[S], Iterable[tuple[Place, str]]]
"""What a sample lacks for a run: where in it, and a message."""

ALIKE = 0.9
"""How alike two names of columns are, from 0 to 1, if one is a misspelling of the other."""

THREADS = min(4, os.cpu_count() or 1)
_SHOWN = 200  # characters of an image's name: a record may hold the image itself in base64
GROUP = 32  # records that are checked at a time, with their images


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The samples that a run takes; by default all.

    `limit` is the number of first ones. `keys` are those of drawn or named samples among all
    `records`; the two never go together. `seed` is what they were drawn by. `earlier` are the keys
    that the run chose at its start and that the data still have: no others are taken then.
    """

    limit: int | None = None
    keys: frozenset[str] | None = None
    records: int = 0
    seed: int | None = None
    earlier: frozenset[str] | None = None

    @property
    def passed_over(self) -> int:
        """How many records were neither drawn nor named."""
        return 0 if self.keys is None else self.records - len(self.keys)

    def takes(self, key: str) -> bool:
        """Whether the record of this key is drawn or named, or none had to be."""
        return self.keys is None or key in self.keys


def choose(spec: RunSpec, keys: Iterable[str]) -> Choice:
    """What a run chooses among the samples of these keys, which are read only if needed.

    Raises `ConfigError` that names the keys which no record has.
    """
    if spec.chosen is None:
        return _choose_new(spec, keys)
    known = dict.fromkeys(keys)
    earlier = frozenset(key for key in spec.chosen if key in known)
    named = None if spec.samples is None else tuple(key for key in spec.samples if key in known)
    choice = _choose_new(spec.model_copy(update={"samples": named}), known)
    if not earlier:  # the data are others, which `Evaluation` says
        return choice
    if choice.keys is None:
        return replace(choice, earlier=earlier)
    # bad records are drawn again, to the same number; other data may draw others
    bad = sorted(choice.keys - earlier)[: len(choice.keys) - len(earlier)]
    return replace(choice, keys=earlier.union(bad), earlier=earlier)


def _choose_new(spec: RunSpec, keys: Iterable[str]) -> Choice:
    if spec.samples is None and spec.shuffle is None:
        return Choice(limit=spec.limit)
    known = dict.fromkeys(keys)
    if spec.samples is None:
        drawn = nsmallest(spec.limit or 0, known, key=lambda key: hash_json([spec.shuffle, key]))
        return Choice(keys=frozenset(drawn), records=len(known), seed=spec.shuffle)
    if unknown := [key for key in spec.samples if key not in known]:
        like = nearest(unknown[0], list(known)) or f"; the first one is {next(iter(known), 'none')}"
        raise ConfigError(f"samples: no sample has the key {name_few(unknown)}{like}")
    return Choice(keys=frozenset(spec.samples), records=len(known))


def key_or_place(record: Record, field: str) -> str:
    """The key of a record's sample, which is in this field, or the record's place without one."""
    try:
        return text(record, field) or record.where
    except DataError:
        return record.where


@dataclass(frozen=True, slots=True)
class Dataset(Generic[S]):
    """The samples of a run, in the file's order, and what it leaves out.

    `bad` maps the place of a record to what is wrong with it. `beyond` counts the records after the
    first ones that were chosen; they were not checked. `other_problems` are those of columns and
    annotations, by place.
    """

    samples: tuple[S, ...]
    choice: Choice
    bad: Mapping[str, Problems]
    beyond: int = 0
    other_problems: Mapping[str, Problems] = field(default_factory=dict)

    @property
    def is_part(self) -> bool:
        """Whether there are samples that the run does not take."""
        return bool(self.beyond or self.choice.passed_over)

    @property
    def left_out(self) -> list[dict[str, Any]]:
        """The bad records, as the manifest lists them."""
        bad = {**self.other_problems, **self.bad}
        return [{"where": where, "reasons": list(faults)} for where, faults in bad.items()]

    def notes(self) -> Iterator[str]:
        """Lines for all tables: which samples the run takes, and which records it leaves out."""
        good, choice = len(self.samples), self.choice
        if self.bad and self.beyond:
            yield (
                f"The first {good} good samples of the data (--limit); the {self.beyond} "
                "records after them were not checked."
            )
        elif choice.keys is None:
            if choice.limit is not None and choice.limit < good + self.beyond:
                first = "first" if choice.limit == 1 else f"first {choice.limit}"
                yield f"The {first} of {good + self.beyond} samples of the data (--limit)."
        elif choice.passed_over:
            drawn = f"drawn at random (--shuffle {choice.seed})"
            how = "named (--sample-id)" if choice.seed is None else drawn
            yield f"{len(choice.keys)} of {choice.records} samples, {how}."
        yield from bad_records_note(self.bad, good, beyond=self.beyond)

    def tables(self) -> Iterator[Table]:
        """The records that are left out, if there are any."""
        return bad_records_table({**self.other_problems, **self.bad})


class ImageFolder:
    """Adds the images of records to a store; `path` is the folder of those that are files.

    Raises `DataError` if `path` is not a folder.
    """

    def __init__(self, path: Path | None, store: ImageSink) -> None:
        self._path = path
        self._store = store
        self._by_stem: dict[str, str] = {}
        if path is not None:
            if not path.is_dir():
                problem = "this is a file" if path.exists() else "folder does not exist"
                raise DataError(str(path), [problem], "Name the folder of the images.")
            self._by_stem = {each.stem.casefold(): each.name for each in sorted(path.iterdir())}

    def open(self, image: str | EmbeddedImage) -> Image:
        """The image, by its file name if it is a file; raises `ImageError` naming it."""
        if isinstance(image, EmbeddedImage):
            return self._store.add_bytes(image.read(), image.name)
        name = image[:_SHOWN]
        if self._path is None:
            raise ImageError(f"image {name!r} is a file name; give the images folder as --images")
        inside = PurePath(image)
        if inside.is_absolute() or ".." in inside.parts:
            raise ImageError(f"image {name!r} is not inside the images folder")
        if not os.path.isfile(self._path / inside):  # noqa: PTH113 - False for too long a name
            similar = self._by_stem.get(inside.stem.casefold())
            hint = f"; did you mean {similar}?" if similar else ""
            raise ImageError(f"image {name} is not in {self._path.name}{hint}")
        return self._store.add_file(str(self._path / inside))


def load_dataset(
    kind: type[S],
    options: Options,
    spec: RunSpec,
    images: ImageSink,
    faults: Faults[S] = lambda _: (),
) -> Dataset[S]:
    """Read the file of records as samples of this kind.

    Its suffix says its format (`scan_records`). `faults` are those of `Benchmark.faults`. Raises
    `DataError` with all problems in one message; with `skip_bad_records` only if no record is left.
    `images` may be called from several threads.
    """
    path = options.data
    fields = {_column(kind, name): field for name, field in kind.model_fields.items()}
    required = [column for column, field in fields.items() if field.is_required()]
    context = {}
    if has_images(kind):
        context[IMAGES] = ImageFolder(getattr(options, "images", None), images).open
    columns: dict[str, None] = {}

    def read(record: Record) -> S:
        columns.update(dict.fromkeys(record.fields))
        return kind.model_validate(record.fields, context=context)

    def advice() -> Iterator[str]:
        yield f"Every record needs {', '.join(required)}."
        if unread := [name for name in columns if name not in fields]:
            yield f"Columns that nothing reads: {', '.join(unread)}."

    records = list(scan_records(path, options.sheet, columns=required))
    return choose_samples(
        records,
        read,
        spec,
        path,
        faults=faults,
        advice=advice,
        key=_column(kind, "id"),
        other_problems=misspelt_columns(path, records, fields),
        skip_bad=options.skip_bad_records,
    )


def _column(kind: type[BaseModel], name: str) -> str:
    field = kind.model_fields.get(name)
    alias = None if field is None else field.validation_alias
    return alias if isinstance(alias, str) else name


def misspelt_columns(
    path: Path, records: Iterable[Record], known: Collection[str]
) -> dict[str, Problems]:
    """Columns that nothing reads, but that look like one that the file does not have."""

    def bare(name: str) -> str:
        return re.sub(r"[\W_]", "", name.casefold())

    columns = dict.fromkeys(name for record in records for name in record.fields)
    missing = {bare(name): name for name in known if name not in columns}
    problems = []
    for name in columns:
        if name not in known and (close := get_close_matches(bare(name), missing, 1, ALIKE)):
            meant = missing[close[0]]
            problems.append(f"nothing reads the column {name!r}; rename it to {meant!r}")
    return {path.name: tuple(problems)} if problems else {}


def choose_samples(  # noqa: PLR0913 - what is read, how, and what to say if that fails
    records: Sequence[Record],
    read: Callable[[Record], S],
    spec: RunSpec,
    where: str | Path,
    *,
    faults: Faults[S] = lambda _: (),
    advice: Callable[[], Iterable[str]],
    key: str = "id",
    other_problems: Mapping[str, Problems] | None = None,
    skip_bad: bool = False,
) -> Dataset[S]:
    """The samples of the records that a run chooses; `read` raises for a bad record.

    `key` names the field with a sample's id. `other_problems` are those of other places. Several
    threads call `read`. Raises as `load_dataset`.
    """
    choice = choose(spec, (key_or_place(record, key) for record in records))
    chosen = [record for record in records if choice.takes(key_or_place(record, key))]
    samples: list[S] = []
    bad: dict[str, Problems] = {}
    others = other_problems or {}
    first: dict[str, str] = {}
    missing = {*(choice.earlier or ())}
    beyond = 0
    read = partial(_read_whole, read=read, faults=faults)
    for number, (record, sample, problems) in enumerate(_read_all(chosen, read)):
        taken = len(samples) if skip_bad else len(samples) + len(bad)
        full = not missing if choice.earlier is not None else taken >= (choice.limit or taken + 1)
        if choice.limit is not None and full:
            beyond = len(chosen) - number
            break
        name = key_or_place(record, key)
        missing.discard(name)
        earlier = first.setdefault(name, record.where)
        if earlier != record.where:
            problems = (*problems, f"{key} is that of {earlier}")
        is_chosen = choice.earlier is None or name in choice.earlier
        if problems and (is_chosen or skip_bad):
            place = record.where if name == record.where else f"{record.where} ({key} {name})"
            bad[place] = problems
        elif sample is not None and is_chosen and not problems:
            samples.append(sample)
    everything = {**others, **bad}
    if not samples or (everything and not skip_bad):
        more = bool(beyond and bad)
        raise refusal(where, everything, len(samples), "\n".join(advice()), more=more)
    return Dataset(tuple(samples), choice, bad, beyond, others)


def _read_whole(record: Record, read: Callable[[Record], S], faults: Faults[S]) -> S:
    sample = read(record)
    if problems := [f"{name_place(place, first=1)}: {fault}" for place, fault in faults(sample)]:
        raise DataError(record.where, problems)
    return sample


_Read: TypeAlias = tuple[Record, T | None, Problems]


def _read_all(records: Sequence[Record], read: Callable[[Record], S]) -> Iterator[_Read[S]]:
    """Each record with its sample or its problems, in order; a group at a time is read ahead."""
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(records), GROUP):
            group = records[start : start + GROUP]
            yield from pool.map(partial(read_record, read=read), group)


def read_record(record: Record, read: Callable[[Record], T]) -> _Read[T]:
    """The record with what `read` makes of it, or with its problems."""
    if record.fault:
        return record, None, (record.fault,)
    try:
        return record, read(record), ()
    except ValidationError as error:
        return record, None, problems_of(error)
    except DataError as error:
        return record, None, tuple(error.problems)
