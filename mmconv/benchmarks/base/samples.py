"""The samples of a benchmark over one file of records: texts by field, and the images they name.

The file is read as ConvBench's is: `survey` checks every record that is wanted, and its images,
before anything is paid for; `load` then streams. What the fields mean is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from mmconv.benchmarks.choosing import EVERYTHING, Choice, all_keys
from mmconv.benchmarks.data_files.image_folder import ImageFolder, check_ahead
from mmconv.benchmarks.data_files.intake import Found, Intake, find_samples
from mmconv.benchmarks.data_files.records import Record, scan_records, text, texts
from mmconv.core.errors import DataError
from mmconv.core.protocols import ImageSink
from mmconv.core.types import Image

Value = TypeVar("Value")

ID = "id"


class Fields(dict[str, str]):
    """A sample: the declared fields of its record and its `id`, as text.

    `images` holds the images of each declared image field, in the record's order. All conditions
    share it, so that it cannot be changed: `Fields({**sample, ...}, sample.images)` is another.
    """

    def __init__(
        self, given: Mapping[str, str], images: Mapping[str, tuple[Image, ...]] | None = None
    ) -> None:
        super().__init__(given)
        self.images: Mapping[str, tuple[Image, ...]] = images or {}

    def _refuse(self, *given: Any, **named: Any) -> NoReturn:
        raise TypeError(
            "all conditions share a sample, so that it cannot be changed: make another, "
            "Fields({**sample, ...}, sample.images)"
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = setdefault = pop = popitem = clear = _refuse


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
    intake = Intake(choice=source.choice, skip_bad=source.skip_bad)
    missing: set[str] = set()
    columns: dict[str, None] = {}

    def wanted(found: Found[_Named]) -> Iterable[str]:
        return () if intake.is_full or found.sample is None else found.sample.images

    if source.image_fields:
        folder = ImageFolder(source.images, library)
        for found, faults in check_ahead(_find(source, columns), wanted, folder):
            intake.add(found, faults)
        missing = folder.missing
    else:
        for found in _find(source, columns):
            intake.add(found)
    advice = [f"Every record needs {', '.join(source.columns)}."]
    if unread := [name for name in columns if name not in source.columns]:
        advice.append(f"Columns that nothing reads: {', '.join(unread)}.")
    if any(missing.intersection(faults) for faults in intake.bad.values()):
        advice.append(f"Put the images that are missing into {source.images}.")
    intake.check(source.data, "\n".join(advice))
    return intake


def load(source: Source, library: ImageSink, intake: Intake) -> Iterator[Fields]:
    """Stream the samples that the survey found good, in the file's order, as many as are wanted.

    Raises `DataError` for a record, and `ImageError` for an image, that has gone bad since.
    """
    for found in intake.stream(_find(source)):
        images = {
            name: tuple(library.add_file(str(source.images / each)) for each in names)
            for name, names in found.names.items()
        }
        yield Fields(found.texts, images)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """What a record holds: its texts and the names of its images, by field."""

    texts: Mapping[str, str]
    names: Mapping[str, tuple[str, ...]]

    @property
    def images(self) -> Iterator[str]:
        """The names of all images."""
        return (name for each in self.names.values() for name in each)


def _find(source: Source, columns: dict[str, None] | None = None) -> Iterator[Found[_Named]]:
    """What is found of each record; `columns` takes in the names of all their fields."""

    def read(record: Record) -> Found[_Named]:
        if columns is not None:
            columns.update(dict.fromkeys(record.fields))
        faults: list[str] = []
        given = {
            name: value
            for name in (ID, *source.fields)
            if (value := _given(record, name, text, faults)) is not None
        }
        names = {name: _given(record, name, texts, faults) or () for name in source.image_fields}
        place = f"{record.where} (id {given[ID]})" if ID in given else record.where
        return Found(place=place, sample=_Named(texts=given, names=names), faults=tuple(faults))

    scanned = scan_records(source.data, source.sheet, columns=source.columns)
    return find_samples(scanned, source.choice, _key, read, key_field=ID)


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
