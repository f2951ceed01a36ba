"""Dialogues as the authors store them: lists of utterances in JSON, in cells of a table.

`MuTual_test.xlsx` has the human ones in the column `conv-GT`; `MuTualTest-convs.tsv` has one column
per model. Which record is used for what is the callers' business.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from mmconv.benchmarks.data_files.records import Record, read_records, text
from mmconv.core.errors import DataError

INDEX = "index"
ROUNDS = "nround"
HUMAN = "GT"
HUMAN_COLUMN = "conv-GT"
TITLE = "title"
DOCUMENT = "text"

END = "<chat_end>"
"""What ends an utterance in a judge's prompt (paper, appendix B.3)."""

_COLUMN_PREFIX = "conv-"
_NO_MODELS = {INDEX, ROUNDS, TITLE, DOCUMENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDialogue:
    """A dialogue from a file: whose it is, the index of its seed, its utterances, its place."""

    where: str
    model: str
    index: str
    utterances: tuple[str, ...]


def read_dialogues(path: Path) -> Iterator[StoredDialogue]:
    """Stream the dialogues of all models in a file: every column but the record's own is a model.

    A model without a dialogue in a record is passed over. Raises `DataError` naming the record and
    the column of what is no dialogue, of two dialogues of one index, or of a file without models.
    """
    seen: dict[str, str] = {}
    models: set[str] = set()
    for record in read_records(path):
        models.update(model_columns(record))
        yield from record_dialogues(record, seen)
    if not models:
        raise DataError(str(path), ["holds no dialogues"], "Give a table with a column per model.")


def model_columns(record: Record) -> list[str]:
    """The columns that hold a model's dialogues."""
    return [column for column in record.fields if column not in _NO_MODELS]


def record_dialogues(record: Record, seen: MutableMapping[str, str]) -> list[StoredDialogue]:
    """The dialogues of one record; `seen` has the places of earlier ones by index.

    Raises `DataError` as `read_dialogues` does; the record is not among the seen ones then.
    """
    index = text(record, INDEX)
    if index is None:
        raise DataError(record.where, [f"no {INDEX}"], "Every record needs one.")
    if index in seen:
        raise DataError(record.where, [f"{INDEX} {index!r} is that of {seen[index]}"])
    found = []
    wrong: list[str] = []
    for column in model_columns(record):
        if record.fields[column] in (None, ""):
            continue
        utterances, faults = read_utterances(record, column)
        wrong += faults
        model = column.removeprefix(_COLUMN_PREFIX)
        found.append(
            StoredDialogue(where=record.where, model=model, index=index, utterances=utterances)
        )
    if wrong:
        raise DataError(record.where, wrong, "Give dialogues as JSON lists of texts.")
    seen[index] = record.where
    return found


def read_utterances(record: Record, column: str) -> tuple[tuple[str, ...], list[str]]:
    """The utterances in a cell, and what is wrong with them; none where anything is."""
    value = record.fields.get(column)
    if value is None or value == "":
        return (), [f"{column} is missing"]
    found = _decoded(value)
    if not isinstance(found, list) or not found:
        return (), [f"{column} is no JSON list of utterances: {_short(value)}"]
    faults = [
        f"{column}: utterance {number} {_wrong(each)}"
        for number, each in enumerate(found, start=1)
        if not isinstance(each, str) or not each.strip()
    ]
    return ((), faults) if faults else (tuple(found), [])


def speaker(place: int) -> str:
    """Who says the utterance at this place, counted from 0: A, B, A, B, ..."""
    return "AB"[place % 2]


def take_apart(conversation: str) -> tuple[str, ...]:
    """The utterances of a JSON list, or of a dialogue as judges read it; none if it is neither.

    There `A: ...<chat_end>` and `B: ...<chat_end>` take turns, a line each. Speakers must
    alternate, A first, so that nothing is taken for a dialogue that is none.
    """
    found = _decoded(conversation)
    if isinstance(found, list):
        return tuple(found) if all(isinstance(each, str) for each in found) else ()
    chats = [chat.strip() for chat in conversation.split(END)]
    if chats and not chats[-1]:
        chats.pop()
    starts = [f"{speaker(place)}:" for place in range(len(chats))]
    if not all(chat.startswith(start) for chat, start in zip(chats, starts, strict=True)):
        return ()
    return tuple(
        chat.removeprefix(start).strip() for chat, start in zip(chats, starts, strict=True)
    )


def _decoded(value: Any) -> Any:
    """JSON text as what it stands for, anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


def _wrong(utterance: Any) -> str:
    return "is empty" if isinstance(utterance, str) else f"is no text: {_short(utterance)}"


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}..."
