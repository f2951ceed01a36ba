"""The authors' published judgements: what a file is, and what each of its rows says.

`UniEval.tsv` has one row per model and dialogue, `GTEval.tsv` and files like it one per comparison;
the judge's reply stands in a column named after the judge. Scores and tables are made in `rescore`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from mmconv.benchmarks.botchat.dialogue_files import INDEX, model_columns, take_apart
from mmconv.benchmarks.data_files.records import Record, scan_records, text
from mmconv.core.errors import DataError

Kind: TypeAlias = Literal["alone", "compared", "dialogues"]

EXACT_MATCH = "EM"
"""What stands for a judge's reply where both dialogues are the same."""

_ALONE = ("model", INDEX, "conversation")
_COMPARED = ("cmp_index", "A", "B", "conversation1", "conversation2")
_BESIDE = {"qidx", INDEX, "nround", "result", "match", "winner"}
ADVICE = "Give the authors' files as they are."


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """A judgement of one dialogue; `reply` is None for an empty cell.

    A conversation in no known form is one utterance.
    """

    index: str
    model: str
    utterances: tuple[str, ...]
    reply: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A judgement of two dialogues, the first of them `left`'s; see `Alone`.

    `same` says that the authors' code or the texts themselves tell them equal.
    """

    index: str
    left: str
    right: str
    conversations: tuple[tuple[str, ...], tuple[str, ...]]
    same: bool
    reply: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgements:
    """A file of judgements: its kind, and the column that holds the judge's replies."""

    path: Path
    kind: Kind
    judge: str


def recognise(path: Path) -> Judgements:
    """Tell a file's kind by its columns; raises `DataError` if it is none of the authors'."""
    first = next((row for row in scan_records(path) if isinstance(row, Record)), None)
    if first is None:
        raise DataError(str(path), ["holds no rows"], ADVICE)
    columns = tuple(first.fields)
    if set(_COMPARED) <= set(columns):
        return Judgements(path=path, kind="compared", judge=_judge(path, columns, _COMPARED))
    if set(_ALONE) <= set(columns):
        return Judgements(path=path, kind="alone", judge=_judge(path, columns, _ALONE))
    if INDEX in columns and model_columns(first):
        return Judgements(path=path, kind="dialogues", judge="")
    raise DataError(
        str(path),
        [f"has the columns {', '.join(columns)}"],
        f"UniEval needs {', '.join(_ALONE)}, comparisons {', '.join(_COMPARED)}, each with the "
        "judge's column; dialogues need index and a column per model.",
    )


def read_alone(record: Record, judge: str) -> Alone:
    """A row of UniEval; raises `DataError` naming the row and the field."""
    model, index, conversation = _texts(record, _ALONE)
    return Alone(
        index=index,
        model=model,
        utterances=_utterances(conversation),
        reply=text(record, judge),
    )


def read_compared(record: Record, judge: str) -> Compared:
    """A row of comparisons; raises `DataError` naming the row and the field."""
    name, left, right, first, second = _texts(record, _COMPARED)
    index, *players = name.rsplit(";", 2)
    if sorted(players) != sorted((left, right)):
        raise DataError(
            record.where,
            [f"cmp_index {name!r} does not name {left} and {right}: it is <index>;<A>;<B>"],
        )
    reply = text(record, judge)
    return Compared(
        index=index,
        left=left,
        right=right,
        conversations=(_utterances(first), _utterances(second)),
        same=first == second or (reply or "").strip() == EXACT_MATCH,
        reply=reply,
    )


def _judge(path: Path, columns: Iterable[str], known: Sequence[str]) -> str:
    left = [column for column in columns if column not in {*known, *_BESIDE}]
    if len(left) == 1 or "gpt4" in left:
        return "gpt4" if "gpt4" in left else left[0]
    raise DataError(
        str(path),
        [f"which column holds the judge's replies: {', '.join(left) or 'there is none'}?"],
        "Leave one column beside the authors' own.",
    )


def _utterances(conversation: str) -> tuple[str, ...]:
    return take_apart(conversation) or (conversation,)


def _texts(record: Record, names: Sequence[str]) -> list[str]:
    values = [text(record, name) for name in names]
    missing = [
        f"{name} is missing" for name, value in zip(names, values, strict=True) if value is None
    ]
    if missing:
        raise DataError(record.where, missing)
    return [value for value in values if value is not None]
