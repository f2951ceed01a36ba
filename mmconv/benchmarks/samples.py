"""The samples of a benchmark over one file of records: texts by field, and the images they name.

The file is read as ConvBench's is: `survey` checks every record that is wanted, and its images,
before anything is paid for; `load` then streams. What the fields mean is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeVar

from mmconv.benchmarks.bad_records import BadRecords, Intake, refusal
from mmconv.benchmarks.choosing import EVERYTHING, Choice, all_keys
from mmconv.benchmarks.pictures import ImageFolder, check_ahead
from mmconv.benchmarks.records import Record, Unreadable, scan_records, text, texts
from mmconv.errors import DataError
from mmconv.protocols import ImageSink
from mmconv.values import Image

Value = TypeVar("Value")

ID = "id"


class Fields(dict[str, str]):
    """A sample: the declared fields of its record and its `id`, as text.

    `images` holds the images of each declared image field, in the record's order.
    """

    def __init__(
        self, given: Mapping[str, str], images: Mapping[str, tuple[Image, ...]] | None = None
    ) -> None:
        super().__init__(given)
        self.images: Mapping[str, tuple[Image, ...]] = images or {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the records and their images lie, and what a run asks of them.

    `fields` hold a text each, `image_fields` the name of a file in the folder `images`, or a list
    of names. `skip_bad` leaves bad records out instead of refusing the file. `choice` says which
    samples are wanted; records of others, and those after the last of the first ones, are not
    checked.
    """

    data: Path
    sheet: str | None
    fields: tuple[str, ...]
    image_fields: tuple[str, ...]
    images: Path
    skip_bad: bool
    choice: Choice = EVERYTHING

    @property
    def columns(self) -> tuple[str, ...]:
        """All that no record may lack."""
        return (ID, *self.fields, *self.image_fields)


def source_keys(source: Source) -> Iterator[str]:
    """The ids of all records, wanted or not; see `mmconv.benchmarks.choosing.all_keys`."""
    return all_keys(scan_records(source.data, source.sheet, columns=source.columns), _key)


def survey(source: Source, library: ImageSink) -> Intake:
    """Check all records and images that are wanted, and add the images to the library.

    `library.add_file` is called from several threads. Raises `DataError` with all problems in one
    message; with `source.skip_bad` only where the file cannot be read or no record is left.
    """
    intake = Intake(limit=source.choice.limit, skip_bad=source.skip_bad)
    missing: set[str] = set()

    def wanted(found: _Found) -> Iterable[str]:
        return () if intake.is_full else (name for each in found.names.values() for name in each)

    if source.image_fields:
        folder = ImageFolder(source.images, library)
        for found, faults in check_ahead(_find(source), wanted, folder):
            intake.add(found.place, (*found.faults, *faults))
        missing = folder.missing
    else:
        for found in _find(source):
            intake.add(found.place, found.faults)
    if not intake.good or (intake.bad and not source.skip_bad):
        advice = [f"Every record needs {', '.join(source.columns)}."]
        if any(missing.intersection(faults) for faults in intake.bad.values()):
            advice.append(f"Put the images that are missing into {source.images}.")
        more = bool(intake.beyond and intake.bad)
        raise refusal(source.data, intake.bad, intake.good, "\n".join(advice), more=more)
    return intake


def load(source: Source, library: ImageSink, bad: BadRecords) -> Iterator[Fields]:
    """Stream the samples that the survey found good, in the file's order, as many as are wanted.

    Raises `DataError` for a record, and `ImageError` for an image, that has gone bad since.
    """
    good = (found for found in _find(source) if found.place not in bad)
    for found in islice(good, source.choice.limit):
        if found.faults:
            advice = "The file has changed: start the run again."
            raise DataError(found.place, found.faults, advice)
        images = {
            name: tuple(library.add_file(str(source.images / each)) for each in names)
            for name, names in found.names.items()
        }
        yield Fields(found.texts, images)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A record as it was found: its texts and its images' names by field, and what is wrong."""

    place: str
    texts: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    faults: tuple[str, ...]


def _find(source: Source) -> Iterator[_Found]:
    first: dict[str, str] = {}
    scanned = scan_records(source.data, source.sheet, columns=source.columns)
    for record in source.choice.among(scanned, _key):
        if isinstance(record, Unreadable):
            yield _Found(place=record.where, faults=(record.fault,))
            continue
        faults: list[str] = []
        given = {
            name: value
            for name in (ID, *source.fields)
            if (value := _given(record, name, text, faults)) is not None
        }
        names = {name: _given(record, name, texts, faults) or () for name in source.image_fields}
        key = given.get(ID)
        if key in first:
            faults.append(f"id {key!r} is that of {first[key]}")
        if key is not None:
            first.setdefault(key, record.where)
        place = record.where if key is None else f"{record.where} (id {key})"
        yield _Found(place=place, texts=given, names=names, faults=tuple(faults))


def _key(record: Record) -> str | None:
    return text(record, ID)


def _given(
    record: Record,
    name: str,
    read: Callable[[Record, str], Value | None],
    faults: list[str],
) -> Value | None:
    """What `read` finds in a field; where that is nothing, what is wrong goes to `faults`."""
    try:
        value = read(record, name)
    except DataError as error:
        faults += error.problems
        return None
    if value is None:
        faults.append(f"no {name}")
    return value
