"""The columns of ConvBench's files, by the names that the authors' scripts read, and `status`.

A record is read here as texts by column, with what is wrong with them; how files are joined and
which columns a run needs is told in `mmconv.benchmarks.convbench.data`.
"""

from __future__ import annotations

import re
from typing import Final

from mmconv.benchmarks.data_files.parquet import EmbeddedImage
from mmconv.benchmarks.data_files.records import Record, text
from mmconv.core.errors import DataError

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
"""Our own column: "draft" for what a model wrote, "verified" (also if empty) for the rest."""

REQUIRED: Final = (ID, IMAGE, *INSTRUCTIONS)
"""The columns that every row must fill, whatever the run."""

DRAFTED: Final = (CAPTION, *CATEGORIES, *REFERENCES, FOCUS_POINTS)
"""The columns that a model can draft."""

COLUMNS: Final = (*REQUIRED, *DRAFTED, STATUS)
"""All columns that are read."""

_EMPTY_MARKS = frozenset({"nan", "none", "null", "<na>"})
"""What programs write for an empty cell."""

_STRIPPED = (ID, IMAGE, *CATEGORIES, STATUS)


def read_texts(record: Record) -> tuple[dict[str, str], list[str]]:
    """The columns that hold more than blanks, and one line per value that cannot be used.

    Names, categories and the status lose stray blanks; what goes into prompts stays as it is. An
    unusable value is kept as an empty text, so that it does not count as missing too.
    """
    texts: dict[str, str] = {}
    faults: list[str] = []
    for column in COLUMNS:
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
        faults.append(f"{ID} is {texts[ID]!r}, which is no whole number from 1")
    if texts.get(STATUS, "verified") not in ("draft", "verified", ""):
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
    """The row's ID without leading zeros; None where it is absent or no whole number from 1.

    Programs that take a column with a gap for fractions write 2.0 for 2.
    """
    written = re.sub(r"\.0+$", "", texts.get(ID, ""))
    if not (written.isascii() and written.isdecimal()):
        return None
    return written.lstrip("0") or None
