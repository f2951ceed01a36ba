"""CMT-Eval's dialogues: what a record holds, what is wrong with it, and two passes over the files.

`survey` checks every record before anything is paid for and tells all that is wrong in one message;
`load_dialogues` then streams. Files are found in `mmconv.benchmarks.cmteval.subset_files`; nothing
is prompted or scored here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from mmconv.benchmarks.choosing import EVERYTHING, Choice, all_keys
from mmconv.benchmarks.cmteval.fields import (
    ACT,
    ACTS,
    IDS,
    NUMBER,
    PATTERN,
    PATTERNS,
    PERSONA,
    QUERY,
    STRATEGIES,
    STRATEGY,
    TURNS,
    Subset,
)
from mmconv.benchmarks.data_files.intake import Found, Intake, find_samples
from mmconv.benchmarks.data_files.records import Reader, Record, read_records, scan_records, text
from mmconv.core.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTurn:
    """What the user says in one turn: `label` names its speech acts as the file does.

    `acts` are the known ones among them, repeated where the label repeats one. `strategy` is the
    letter of Hard's challenge strategy, None where there is none.
    """

    number: int
    query: str
    label: str
    acts: tuple[str, ...]
    strategy: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What a judge reads in place of a long text: its summary, and QA pairs as the file has them.

    The QA pairs are meant to be JSON and are kept as text, since some published ones are not valid.
    """

    summary: str
    qa_pairs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """One dialogue: the user's side of it, and for Long-Text what its text is judged by."""

    subset: Subset
    id: str
    pattern: str
    persona: str
    turns: tuple[UserTurn, ...]
    reference: Reference | None = None

    @property
    def key(self) -> str:
        """Subset and identifier: identifiers repeat between subsets."""
        return f"{self.subset}/{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The dialogue files by subset; `references` None leaves Long-Text without references.

    `skip_bad` leaves bad records out instead of refusing the file; `choice` says which dialogues
    are wanted.
    """

    files: Mapping[Subset, Path]
    references: Path | None = None
    skip_bad: bool = False
    choice: Choice = EVERYTHING


def survey(source: Source) -> Intake:
    """Check all records of all files that are wanted.

    Raises `DataError` with all problems in one message; with `source.skip_bad` only where a file
    cannot be read or no dialogue is left.
    """
    intake = Intake(choice=source.choice, skip_bad=source.skip_bad)
    for _ in intake.take(_find(source)):
        pass
    intake.check(", ".join(map(str, source.files.values())))
    return intake


def load_dialogues(source: Source, intake: Intake) -> Iterator[Dialogue]:
    """Stream the dialogues that the survey found good, file by file.

    Raises `DataError` for a record that has gone bad since.
    """
    return intake.stream(_find(source))


def source_keys(files: Mapping[Subset, Path]) -> Iterator[str]:
    """The keys of all dialogues; see `mmconv.benchmarks.choosing.all_keys`."""
    for subset, path in files.items():
        yield from all_keys(scan_records(path), partial(_key, subset))


def read_dialogue(record: Record, subset: Subset) -> tuple[Dialogue | None, list[str]]:
    """The dialogue of a record, and a line for everything that is wrong with it.

    There is no dialogue only where the record has no identifier or no turns.
    """
    reader = Reader(record)
    key = next((found for name in IDS if (found := reader.optional(name)) is not None), None)
    if key is None:
        reader.faults.append(f"no {' or '.join(IDS)}")
    pattern = reader.required(PATTERN)
    if pattern and pattern not in PATTERNS:
        reader.faults.append(_unknown(PATTERN, pattern, PATTERNS))
    persona = reader.required(PERSONA)
    turns = _turns(record, reader.faults)
    if key is None or not turns:
        return None, reader.faults
    dialogue = Dialogue(subset=subset, id=key, pattern=pattern, persona=persona, turns=turns)
    return dialogue, reader.faults


def split_long_text(query: str) -> tuple[str, str] | None:
    """A Long-Text opening as (text, question), or None unless one line break stands between."""
    long_text, line_break, question = query.partition("\n")
    if not line_break or "\n" in question or not long_text.strip() or not question.strip():
        return None
    return long_text, question


def turn_records(record: Record) -> Iterator[Record]:
    """The turns of a dialogue's record as records of their own, as far as they are objects."""
    turns = record.fields.get(TURNS)
    for number, turn in enumerate(turns if isinstance(turns, list) else (), start=1):
        if isinstance(turn, dict):
            yield Record(where=f"turn {number}", fields=turn)


def subset_by_layout(record: Record) -> Subset:
    """The subset whose fields a dialogue has.

    Only Long-Text calls its identifiers `ID`, and only Hard gives turns a strategy.
    """
    if IDS[1] in record.fields:
        return "long-text"
    strategic = any(STRATEGY in turn.fields for turn in turn_records(record))
    return "hard" if strategic else "standard"


def foreign_fields(record: Record, subset: Subset) -> list[str]:
    """The fault of a dialogue whose fields are those of another subset than its file's."""
    own = subset_by_layout(record)
    if own == subset:
        return []
    return [f"has the fields of {own}, but the file is taken for {subset}"]


def _key(subset: Subset, record: Record) -> str | None:
    found = next((key for name in IDS if (key := Reader(record).optional(name))), None)
    return None if found is None else f"{subset}/{found}"


def _turns(record: Record, faults: list[str]) -> tuple[UserTurn, ...]:
    listed = record.fields.get(TURNS)
    if not isinstance(listed, list) or not listed:
        faults.append(f"{TURNS} must be a list of at least one turn")
        return ()
    found = list(turn_records(record))
    if len(found) < len(listed):
        faults.append(f"{TURNS} holds {len(listed) - len(found)} turn(s) that are no objects")
    turns = []
    for number, turn in enumerate(found, start=1):
        read, wrong = _turn(turn, number)
        faults += [f"{turn.where}: {fault}" for fault in wrong]
        turns.append(read)
    return tuple(turns)


def _turn(record: Record, number: int) -> tuple[UserTurn, list[str]]:
    reader = Reader(record)
    written = reader.required(NUMBER)
    if written and written.strip() != str(number):
        reader.faults.append(f"{NUMBER} is {written}, but this is turn {number} of the list")
    query = reader.required(QUERY)
    label = reader.required(ACT)
    acts = [part.strip() for part in label.replace("＋", "+").split("+")] if label else []
    reader.faults += [_unknown(ACT, act, ACTS) for act in acts if act not in ACTS]
    strategy = reader.optional(STRATEGY)
    if strategy is not None and strategy not in STRATEGIES:
        reader.faults.append(_unknown(STRATEGY, strategy, STRATEGIES))
        strategy = None
    turn = UserTurn(
        number=number,
        query=query,
        label=label,
        acts=tuple(act for act in acts if act in ACTS),
        strategy=strategy,
    )
    return turn, reader.faults


def _find(source: Source) -> Iterator[Found[Dialogue]]:
    """What is found of every record, the references of Long-Text joined to it."""
    references = None if source.references is None else _read_references(source.references)
    names = [path.name for path in source.files.values()]
    for subset, path in source.files.items():
        file = f"{subset}: " if names.count(path.name) > 1 else ""
        read, key_of = partial(_read, subset, references), partial(_key, subset)
        records = scan_records(path)
        for found in find_samples(records, source.choice, key_of, read, key_field="identifier"):
            yield replace(found, place=file + found.place)


def _read(
    subset: Subset, references: Mapping[str, Record] | None, record: Record
) -> Found[Dialogue]:
    dialogue, faults = read_dialogue(record, subset)
    if dialogue is not None:
        faults += foreign_fields(record, subset)
    if dialogue is not None and subset == "long-text":
        dialogue = _with_reference(dialogue, references, faults)
    return Found(place=record.where, sample=dialogue, faults=tuple(faults))


def _with_reference(
    dialogue: Dialogue, references: Mapping[str, Record] | None, faults: list[str]
) -> Dialogue:
    if split_long_text(dialogue.turns[0].query) is None:
        faults.append(f"turn 1: {QUERY} must be a text, one line break, and a question")
    if references is None:
        return dialogue
    record = references.get(dialogue.id)
    if record is None:
        faults.append(f"no reference has the ID {dialogue.id}")
        return dialogue
    reader = Reader(record)
    reference = Reference(summary=reader.required("summary"), qa_pairs=reader.required("qa_pairs"))
    faults += [f"{record.where}: {fault}" for fault in reader.faults]
    return replace(dialogue, reference=reference)


def _read_references(path: Path) -> dict[str, Record]:
    """The records of summaries and QA pairs by ID, their long texts left out."""
    references: dict[str, Record] = {}
    problems = []
    for record in read_records(path):
        key = text(record, IDS[1])
        if key is None:
            problems.append(f"{record.where}: no {IDS[1]}")
        elif key in references:
            problems.append(f"{record.where}: {references[key].where} has the same ID {key}")
        else:
            kept: dict[str, Any] = {
                name: record.fields.get(name) for name in ("summary", "qa_pairs")
            }
            references[key] = Record(where=record.where, fields=kept)
    if problems:
        raise DataError(str(path), problems, "Give each reference an ID of its own.")
    return references


def _unknown(name: str, value: str, known: Mapping[str, str]) -> str:
    return f"{name} holds {value!r}; known are {', '.join(known)}"
