"""ConvBench's rows: the authors' spreadsheet joined with images, A/B sides and annotations.

Columns have the names that the authors' scripts read; `status` is our own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Final, Literal, TypeAlias

from mmconv.benchmarks.base.dataset import (
    Dataset,
    ImageFolder,
    Problems,
    choose_samples,
    misspelt_columns,
)
from mmconv.benchmarks.base.review import REVIEWED, REVIEWER, STATUSES
from mmconv.benchmarks.base.sample import ImageFile, Sample
from mmconv.benchmarks.convbench.options import ConvBenchOptions
from mmconv.benchmarks.data_files.parquet import EmbeddedImage
from mmconv.benchmarks.data_files.records import Record, scan_records, text
from mmconv.core.config import RunSpec
from mmconv.core.errors import DataError, ImageError
from mmconv.core.protocols import ImageSink
from mmconv.core.types import Image

ID: Final = "ID"
IMAGE: Final = "image_id"
INSTRUCTIONS: Final = (
    "The_first_turn_instruction",
    "The_second_turn_instruction",
    "The_third_turn_instruction",
)
CAPTION: Final = "instruction-conditioned-caption"
CATEGORIES: Final = (
    "First_turn_instruction_category",
    "Second_turn_instruction_category",
    "Third_turn_instruction_category",
)
REFERENCES: Final = ("first_turn_answer", "second_turn_answer", "third_turn_answer")
FOCUS_POINTS: Final = "third_turn_demands"
STATUS: Final = "status"
"""Our own column: "draft" for what a model wrote, "verified" (also if empty) for the rest.

A draft that a person "rejected" is not used.
"""

REQUIRED: Final = (ID, IMAGE, *INSTRUCTIONS)
"""The columns that every row must fill, whatever the run."""

REVIEW: Final = (REVIEWER, REVIEWED)
"""The columns that `mmconv review` writes next to the status."""

DRAFTED: Final = (CAPTION, *CATEGORIES, *REFERENCES, FOCUS_POINTS)
"""The columns that a model can draft."""

COLUMNS: Final = (*REQUIRED, *DRAFTED, STATUS)
"""All columns that are read."""

_EMPTY_MARKS = frozenset({"nan", "none", "null", "<na>"})
"""What programs write for an empty cell."""

_STRIPPED = (ID, IMAGE, *CATEGORIES, STATUS)

Triple: TypeAlias = tuple[str | None, str | None, str | None]
Texts: TypeAlias = dict[str, str]

Side: TypeAlias = Literal["A", "B"]
"""Where the candidate is in a comparison."""

LISTS = {
    turn: tuple(names.splitlines())
    for turn, names in enumerate(
        (resources.files(__package__) / "categories.txt").read_text("utf-8").split("\n\n"), start=1
    )
}
"""Turn -> its task categories, as the paper's Appendix B prints them.

The spelling is the authors', slips included, because the names are matched against their data: of
"Weather Recogntion" and "Weather Recognition" both are categories. The paper counts 71 + 65 + 79 =
215 tasks. Its figure prints 71 + 64 + 79 names, "Physical Knowledge Reasoning" twice, so 213 are in
the file. Rows may have other categories: nothing is validated against this list.
"""

_ENDS = re.compile(r"^[\W_]+|[\W_]+$")


def folded(name: str) -> str:
    """A category without decoration and capitals, as names are compared."""
    return " ".join(_ENDS.sub("", name).replace("’", "'").casefold().split())


_SPELT = {turn: {folded(name): name for name in names} for turn, names in LISTS.items()}


def as_listed(turn: int, name: str) -> str | None:
    """How the list of a turn spells a category, None where it is not there."""
    return _SPELT[turn].get(folded(name))


class Row(Sample):
    """One conversation: an image, three instructions, and what people wrote about them.

    `position` is the candidate's side in the authors' file of positions. A `draft` was written by a
    model and not yet verified by a person.
    """

    image: ImageFile
    instructions: tuple[str, str, str]
    caption: str | None = None
    references: Triple = (None, None, None)
    focus_points: str | None = None
    categories: Triple = (None, None, None)
    position: Side | None = None
    draft: bool = False


def load_rows(
    options: ConvBenchOptions,
    spec: RunSpec,
    library: ImageSink,
    *,
    needs: Collection[str] = (),
    needs_if_any: Collection[str] = (),
) -> Dataset[Row]:
    """The rows that a run takes.

    `needs` names the columns that no row may lack, besides those that are `REQUIRED`;
    `needs_if_any` those that no row may lack if any row has them. Raises as `choose_samples`.
    """
    records = [*map(_with_plain_id, scan_records(options.data, options.sheet, columns=REQUIRED))]
    annotations = read_annotations(options.annotations)
    positions = options.positions if options.order == "authors" else None
    sides = {} if positions is None else read_sides(positions)
    folder = ImageFolder(options.images, library)
    needs = {*needs, *_filled(needs_if_any, [*records, *annotations.records])}
    needed = [column for column in COLUMNS if column in {*REQUIRED, *needs}]
    lacked: set[str] = set()  # by rows of any thread

    def read(record: Record) -> Row:
        row_id, texts, problems = annotations.complete(record)
        problems += _refused(texts.get(STATUS), options.allow_drafts) if needs else ()
        missing = [column for column in needed if column not in texts]
        lacked.update(missing)
        problems += [f"no {column}" for column in missing]
        if row_id is not None and positions is not None and int(row_id) not in sides:
            problems.append(f"{positions.name} ends at ID {len(sides)}")
        image = _open_image(folder, record, texts, problems)
        if problems or image is None or row_id is None:
            raise DataError(record.where, problems)
        return _make_row(row_id, image, texts, sides.get(int(row_id)))

    def advice() -> Iterator[str]:
        yield f"Every row needs {', '.join(needed)}."
        if not lacked.isdisjoint(needs):
            yield DRAFTING

    return choose_samples(
        records,
        read,
        spec,
        options.data,
        key=ID,
        advice=advice,
        other_problems=annotations.problems(options.data, records),
        skip_bad=options.skip_bad_records,
    )


def _refused(status: str | None, allow_drafts: bool) -> Iterator[str]:
    if status == "draft" and not allow_drafts:
        yield NOT_VERIFIED
    if status == "rejected":
        yield REJECTED


def _with_plain_id(record: Record) -> Record:
    key = read_id(read_texts(record)[0])
    return record if key is None else replace(record, fields={**record.fields, ID: key})


def _open_image(
    folder: ImageFolder, record: Record, texts: Texts, problems: list[str]
) -> Image | None:
    """The row's image; None if it has none, and if it cannot be opened, which is a problem."""
    image = record.fields.get(IMAGE)
    try:
        if texts.get(IMAGE):
            return folder.open(image if isinstance(image, EmbeddedImage) else texts[IMAGE])
    except ImageError as error:
        problems.append(str(error))
    return None


def _make_row(row_id: str, image: Image, texts: Texts, position: Side | None) -> Row:
    categories = [
        (name := texts.get(column)) and (as_listed(turn, name) or name)
        for turn, column in enumerate(CATEGORIES, start=1)
    ]
    fields = {
        "id": row_id,
        "image": image,
        "instructions": [texts[column] for column in INSTRUCTIONS],
        "caption": texts.get(CAPTION),
        "references": [texts.get(column) for column in REFERENCES],
        "focus_points": texts.get(FOCUS_POINTS),
        "categories": categories,
        "position": position,
        "draft": texts.get(STATUS) == "draft",
    }
    return Row.model_validate(fields)


def _filled(columns: Collection[str], records: Iterable[Record]) -> set[str]:
    if not columns:
        return set()
    texts = (read_texts(record)[0] for record in records)
    return {column for each in texts for column, text in each.items() if text and column in columns}


@dataclass(slots=True)
class Annotations:
    """A file's annotations by ID, each with its place, and what is wrong with others, by place."""

    path: Path | None = None
    records: list[Record] = field(default_factory=list)
    by_id: dict[str, tuple[str, Texts]] = field(default_factory=dict)
    bad: dict[str, Problems] = field(default_factory=dict)

    def complete(self, record: Record) -> tuple[str | None, Texts, list[str]]:
        """A row's ID, its texts with those that only its annotation has, and what is wrong."""
        texts, problems = read_texts(record)
        row_id = read_id(texts)
        where, annotation = self.by_id.get(row_id or "", ("", {}))
        problems += [
            f"{column} differs from {where}"
            for column, value in annotation.items()
            if column not in (ID, IMAGE) and texts.get(column, value).strip() != value.strip()
        ]
        return row_id, {**annotation, **texts}, problems

    def problems(self, data: Path, rows: Sequence[Record]) -> dict[str, Problems]:
        """Misspelt columns of both files, the bad annotations, and those of IDs that no row has."""
        known = {record.fields.get(ID) for record in rows}
        strays = {
            f"{where} (ID {key})": ("no row has this ID",)
            for key, (where, _) in self.by_id.items()
            if rows and key not in known  # a file without rows is a problem of its own
        }
        misspelt = misspelt_columns(data, rows, COLUMNS)
        if self.path is not None:
            misspelt |= misspelt_columns(self.path, self.records, COLUMNS)
        return {**misspelt, **self.bad, **strays}


DRAFTING = (
    "`mmconv annotate convbench` drafts captions and references; --no-judge needs none in the free "
    "setting."
)
REJECTED = "was rejected in a review: correct it (mmconv review), or remove its line"
NOT_VERIFIED = "is a draft: set status to verified when a person has checked it, or --allow-drafts"


def read_annotations(path: Path | None) -> Annotations:
    """Read an annotations file; raises `DataError` as `scan_records` does."""
    annotations = Annotations(path)
    if path is None:
        return annotations
    annotations.records = [*scan_records(path, columns=COLUMNS)]
    for record in annotations.records:
        if record.fault:
            annotations.bad[record.where] = (record.fault,)
            continue
        texts, problems = read_texts(record)
        key = read_id(texts)
        if ID not in texts:
            problems.append(f"no {ID}")
        if key in annotations.by_id:
            problems.append(f"{annotations.by_id[key][0]} annotates this ID already")
        if key is not None and not problems:
            annotations.by_id[key] = record.where, texts
        else:
            place = record.where if key is None else f"{record.where} (ID {key})"
            annotations.bad[place] = tuple(problems)
    if not annotations.records:
        annotations.bad[path.name] = ("holds no records",)
    return annotations


def read_sides(path: Path) -> Mapping[int, Side]:
    """The candidate's side by row ID, from an int array[n] of 0 (A) and 1 (B) for the IDs 1 to n.

    The authors' script reads it as `pairwise[ID - 1]`. Raises `DataError` for any other file.
    """
    # Imported here: numpy is slow to load, and a run without positions does not need it.
    import numpy as np

    try:
        with path.open("rb") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            str(path), [f"not a readable .npy file: {error}"], "Give the authors' pairwise.npy."
        ) from error
    if array.ndim != 1 or array.dtype.kind not in "iu" or not np.isin(array, (0, 1)).all():
        raise DataError(
            str(path),
            ["not a plain row of zeros and ones"],
            "It must hold one integer per ID: 0 if the model is A, 1 if it is B.",
        )
    return {number: "B" if side else "A" for number, side in enumerate(array.tolist(), start=1)}


def read_texts(record: Record) -> tuple[dict[str, str], list[str]]:
    """The columns that hold more than blanks, and one line per value that cannot be used.

    Names, categories and the status lose stray blanks; what goes into prompts stays as it is. An
    unusable value is kept as an empty text, so that it does not count as missing too.
    """
    texts: dict[str, str] = {}
    faults: list[str] = []
    for column in (*COLUMNS, *REVIEW):
        try:
            value = _read(record, column)
        except DataError as error:
            faults += error.problems
            texts[column] = ""
            continue
        if column in DRAFTED and (value or "").strip().lower() in _EMPTY_MARKS:
            faults.append(f"{column} holds {value!r}, as programs write an empty cell: empty it")
            texts[column] = ""
        elif value is not None and value.strip():
            texts[column] = value.strip() if column in _STRIPPED else value
    if texts.get(ID) and read_id(texts) is None:
        faults.append(f"{ID} is {texts[ID]!r}, which is not a whole number from 1")
    if texts.get(STATUS, "verified") not in (*STATUSES, ""):
        faults.append(f"{STATUS} is {texts[STATUS]!r}; write draft or verified")
    return texts, faults


def _read(record: Record, column: str) -> str | None:
    """A column as text: the ID however a spreadsheet shows it, of an image in the file its name."""
    value = record.fields.get(column)
    if column == IMAGE and isinstance(value, EmbeddedImage):
        return value.name
    if column == ID and isinstance(value, float):
        return f"{value:.15g}"
    return text(record, column)


def read_id(texts: dict[str, str]) -> str | None:
    """The row's ID without leading zeros; None if it is absent or not a whole number from 1.

    Programs that take a column with a gap for fractions write 2.0 for 2.
    """
    written = re.sub(r"\.0+$", "", texts.get(ID, ""))
    if not (written.isascii() and written.isdecimal()):
        return None
    return written.lstrip("0") or None
