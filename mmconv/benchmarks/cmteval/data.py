"""CMT-Eval's dialogues: field names, samples, faults of records, and which file has which subset.

The authors' folder has a file for each subset, and for Long-Text a file of references. Nothing is
prompted or scored here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias

from mmconv.benchmarks.choosing import Choice, all_keys
from mmconv.benchmarks.data_files.intake import Found, find_samples
from mmconv.benchmarks.data_files.records import Reader, Record, read_records, scan_records, text
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.types import UNPARSED

Subset: TypeAlias = Literal["standard", "hard", "long-text"]

SUBSETS: Final[tuple[Subset, ...]] = ("standard", "hard", "long-text")
"""The paper's three subsets (Table 2), in its order."""

REFERENCES: Final = "long-text_summary_QA_data.json"
"""The authors' file of summaries and QA pairs."""

IDS: Final = ("origin_id", "ID")
"""The two names of a dialogue's identifier; the second is Long-Text's."""
PATTERN: Final = "评测能力"
PERSONA: Final = "用户角色"
TURNS: Final = "会话内容"
NUMBER: Final = "轮次"
QUERY: Final = "用户query"
ACT: Final = "言语行为"
STRATEGY: Final = "难度设计方法"

PATTERNS: Final = {
    "用户反馈应对": "Feedback Handling",
    "新旧知识整合": "Information Integration",
    "上文记忆保持": "Context Tracking",
    "跨话题灵活性": "Topic Transition",
}
"""Speech act patterns (Table 1)."""

ACTS: Final = {
    "初始问题": "Initial Query",
    "补充": "Supplementation",
    "反馈": "Feedback",
    "话题转移": "Topic Shift",
    "建议": "Suggestion",
    "修改": "Modification",
    "追问": "Follow-up",
}
"""Speech acts (Table 1); a label joins those of a turn by plus signs."""

STRATEGIES: Final = {
    "A": "Global Constraints",
    "B": "Omission",
    "C": "Vagueness",
    "D": "Synthesis",
}
"""Conversational challenge strategies of the Hard subset (Table 3)."""

PERSONAS: Final = {
    "张梅": "Ms.Zhang",
    "朵朵": "Duoduo",
    "陈旭": "Mr.Chen",
    "齐业": "Mr.Qi",
    "Tina": "Tina",
    "小刘": "Mr.Liu",
    "雅婷": "Yating",
    "王刚": "Mr.Wang",
}
"""The paper's eight personas (Table 9); others keep the names that they have in the file."""

MISSING: Final = "missing in the judgement"
DEFAULTED: Final = (MISSING, UNPARSED)
"""The reasons for which the authors' script takes `AUTHORS_DEFAULT`."""

AUTHORS_DEFAULT: Final = 3.0
"""The score of a turn, or of all turns, that the authors' script cannot read."""

_IN_NAME = tuple(
    re.compile(pattern.format(subset=f"(?P<subset>{'|'.join(SUBSETS)})"))
    for pattern in (
        r"^(?:eval[_-])?{subset}(?![a-z])",  # in front, as the authors write it
        r"(?<![a-z]){subset}$",
        r"(?<![a-z]){subset}(?![a-z])",
    )
)
"""Where a file's name may have the subset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTurn:
    """What the user says in one turn: `label` has its speech acts as the file writes them.

    `acts` are the known ones among them, repeated if the label repeats one. `strategy` is the
    letter of Hard's challenge strategy.
    """

    number: int
    query: str
    label: str
    acts: tuple[str, ...] = ()
    strategy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What a judge reads in place of a long text: its summary, and QA pairs as the file has them.

    The QA pairs are meant to be JSON and are kept as text, since some published ones are invalid.
    """

    summary: str
    qa_pairs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """One dialogue: the user's side of it, and the reference of a long text."""

    subset: Subset
    id: str
    pattern: str = ""
    persona: str = ""
    turns: tuple[UserTurn, ...]
    reference: Reference | None = None

    @property
    def key(self) -> str:
        """Subset and identifier: identifiers repeat between subsets."""
        return f"{self.subset}/{self.id}"


def find_dialogues(
    files: Mapping[Subset, Path], choice: Choice, references: Path | None = None
) -> Iterator[Found[Dialogue]]:
    """The dialogue and the faults of each chosen record, with Long-Text's references if given."""
    by_id = None if references is None else _read_references(references)
    names = [path.name for path in files.values()]
    for subset, path in files.items():
        prefix = f"{subset}: " if names.count(path.name) > 1 else ""
        read, key_of = partial(_find_dialogue, subset, by_id), partial(_key, subset)
        records = scan_records(path)
        for result in find_samples(records, choice, key_of, read, key_field="identifier"):
            yield replace(result, place=prefix + result.place)


def dialogue_keys(files: Mapping[Subset, Path]) -> Iterator[str]:
    """The keys of all dialogues; see `mmconv.benchmarks.choosing.all_keys`."""
    for subset, path in files.items():
        yield from all_keys(scan_records(path), partial(_key, subset))


def read_dialogue(record: Record, subset: Subset) -> tuple[Dialogue | None, list[str]]:
    """The dialogue of a record, and a line for each fault.

    The dialogue is None if the record lacks an identifier or turns.
    """
    reader = Reader(record)
    key = _identifier(reader)
    if key is None:
        reader.faults.append(f"no {' or '.join(IDS)}")
    pattern = reader.required(PATTERN)
    if pattern and pattern not in PATTERNS:
        reader.faults.append(_unknown(PATTERN, pattern, PATTERNS))
    persona = reader.required(PERSONA)
    listed = record.fields.get(TURNS)
    turns = [*turn_records(record)]
    if not isinstance(listed, list) or not listed:
        reader.faults.append(f"{TURNS} must be a list of at least one turn")
    elif len(turns) < len(listed):
        reader.faults.append(
            f"{TURNS} holds {len(listed) - len(turns)} turn(s) that are not objects"
        )
    read = tuple(
        _read_turn(turn, number, reader.faults) for number, turn in enumerate(turns, start=1)
    )
    if key is None or not read:
        return None, reader.faults
    dialogue = Dialogue(subset=subset, id=key, pattern=pattern, persona=persona, turns=read)
    return dialogue, reader.faults


def turn_records(record: Record) -> Iterator[Record]:
    """The turns of a dialogue's record as records, if they are objects."""
    turns = record.fields.get(TURNS)
    for number, turn in enumerate(turns if isinstance(turns, list) else (), start=1):
        if isinstance(turn, dict):
            yield Record(where=f"turn {number}", fields=turn)


def split_long_text(query: str) -> tuple[str, str] | None:
    """A Long-Text opening as (text, question); None unless exactly one line break divides them."""
    long_text, line_break, question = query.partition("\n")
    if not line_break or "\n" in question or not long_text.strip() or not question.strip():
        return None
    return long_text, question


def foreign_fields(record: Record, subset: Subset) -> list[str]:
    """The fault of a dialogue with the fields of another subset than its file's."""
    own = _subset_by_layout(record)
    if own == subset:
        return []
    return [f"has the fields of {own}, but the file is taken for {subset}"]


def act_tag(act: str) -> str:
    """The tag of a turn's scores for a speech act; its value is how often the label names it."""
    return f"act {act}"


def find_files(
    data: Path | Mapping[Subset, Path], subsets: Sequence[Subset] | None
) -> dict[Subset, Path]:
    """The dialogue file of each subset that is run, in the paper's order.

    `data` is the authors' folder, one file, or a file for each subset; `subsets` None takes all.
    Raises `ConfigError` for a subset that `data` does not have, `DataError` for a missing file.
    """
    files = _files_in(data) if isinstance(data, Path) else data
    if missing := [name for name in subsets or () if name not in files]:
        raise ConfigError(
            f"options of cmteval: data has no {', '.join(missing)}; it has {', '.join(files)}"
        )
    return {name: files[name] for name in SUBSETS if name in (subsets or files)}


def find_references(data: Path | Mapping[Subset, Path], references: Path | None) -> Path | None:
    """The file of summaries and QA pairs: the given one, or else the authors' next to the data."""
    if references is None and isinstance(data, Path):
        beside = (data if data.is_dir() else data.parent) / REFERENCES
        return beside if beside.is_file() else None
    return references


def subset_of(path: Path) -> Subset:
    """The subset that a file belongs to: by its name, or by the fields of its first record."""
    if (match := _match_name(path)) is not None:
        return next(subset for subset in SUBSETS if subset == match["subset"])
    first = next((item for item in scan_records(path) if isinstance(item, Record)), None)
    if first is None:
        raise DataError(str(path), ["holds no records"])
    return _subset_by_layout(first)


def model_of(path: Path) -> str:
    """The model whose judgements a file has: what its name has besides the subset."""
    match = _match_name(path)
    rest = path.stem if match is None else path.stem[: match.start()] + path.stem[match.end() :]
    return re.sub("^eval[_-]", "", rest).strip("_-") or path.stem


def _match_name(path: Path) -> re.Match[str] | None:
    return next(filter(None, (pattern.search(path.stem) for pattern in _IN_NAME)), None)


def _files_in(data: Path) -> Mapping[Subset, Path]:
    if not data.is_dir():
        return {subset_of(data): data}
    expected = {name: data / f"{name}_data.json" for name in SUBSETS}
    files = {name: path for name, path in expected.items() if path.is_file()}
    if not files:
        names = ", ".join(path.name for path in expected.values())
        raise DataError(str(data), [f"none of these files is here: {names}"], "Check the folder.")
    return files


def _subset_by_layout(record: Record) -> Subset:
    """Only Long-Text calls its identifiers `ID`, and only Hard gives turns a strategy."""
    if IDS[1] in record.fields:
        return "long-text"
    is_hard = any(STRATEGY in turn.fields for turn in turn_records(record))
    return "hard" if is_hard else "standard"


def _identifier(reader: Reader) -> str | None:
    return next((key for name in IDS if (key := reader.optional(name)) is not None), None)


def _key(subset: Subset, record: Record) -> str | None:
    key = _identifier(Reader(record))
    return f"{subset}/{key}" if key else None


def _read_turn(record: Record, number: int, faults: list[str]) -> UserTurn:
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
    faults += [f"{record.where}: {fault}" for fault in reader.faults]
    known = tuple(act for act in acts if act in ACTS)
    return UserTurn(number=number, query=query, label=label, acts=known, strategy=strategy)


def _find_dialogue(
    subset: Subset, references: Mapping[str, Record] | None, record: Record
) -> Found[Dialogue]:
    dialogue, faults = read_dialogue(record, subset)
    if dialogue is not None:
        faults += foreign_fields(record, subset)
        if subset == "long-text":
            if split_long_text(dialogue.turns[0].query) is None:
                faults.append(f"turn 1: {QUERY} must be a text, one line break, and a question")
            if references is not None:
                reference = _find_reference(dialogue.id, references, faults)
                dialogue = replace(dialogue, reference=reference)
    return Found(place=record.where, sample=dialogue, faults=tuple(faults))


def _find_reference(
    key: str, references: Mapping[str, Record], faults: list[str]
) -> Reference | None:
    if key not in references:
        faults.append(f"no reference has the ID {key}")
        return None
    reader = Reader(references[key])
    reference = Reference(summary=reader.required("summary"), qa_pairs=reader.required("qa_pairs"))
    faults += [f"{reader.record.where}: {fault}" for fault in reader.faults]
    return reference


def _read_references(path: Path) -> dict[str, Record]:
    """The records of summaries and QA pairs by ID, without their long texts."""
    references: dict[str, Record] = {}
    problems = []
    for record in read_records(path):
        key = text(record, IDS[1])
        if key is None:
            problems.append(f"{record.where}: no {IDS[1]}")
        elif key in references:
            problems.append(f"{record.where}: {references[key].where} has the same ID {key}")
        else:
            kept = {name: record.fields.get(name) for name in ("summary", "qa_pairs")}
            references[key] = Record(where=record.where, fields=kept)
    if problems:
        raise DataError(str(path), problems, "Give each reference an ID of its own.")
    return references


def _unknown(name: str, value: str, known: Mapping[str, str]) -> str:
    return f"{name} holds {value!r}; known are {', '.join(known)}"
