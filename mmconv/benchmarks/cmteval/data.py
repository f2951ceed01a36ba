"""CMT-Eval's dialogues: samples, field names, and which file has which subset.

The authors' folder has a file for each subset, and for Long-Text a file of references.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator

from mmconv.benchmarks.base.sample import Fields, Sample, problems_of
from mmconv.benchmarks.data_files.records import (
    Record,
    read_records,
    scan_records,
    text,
)
from mmconv.core.errors import ConfigError, DataError

Subset: TypeAlias = Literal["standard", "hard", "long-text"]

SUBSETS: tuple[Subset, ...] = ("standard", "hard", "long-text")
"""The paper's three subsets (Table 2), in its order."""

REFERENCES = "long-text_summary_QA_data.json"
"""The authors' file of summaries and QA pairs."""

IDS = ("origin_id", "ID")
"""The two names of a dialogue's identifier; the second is Long-Text's."""
PATTERN = "评测能力"
PERSONA = "用户角色"
TURNS = "会话内容"
NUMBER = "轮次"
QUERY = "用户query"
ACT = "言语行为"
STRATEGY = "难度设计方法"

PATTERNS = {
    "用户反馈应对": "Feedback Handling",
    "新旧知识整合": "Information Integration",
    "上文记忆保持": "Context Tracking",
    "跨话题灵活性": "Topic Transition",
}
"""Speech act patterns (Table 1)."""

ACTS = {
    "初始问题": "Initial Query",
    "补充": "Supplementation",
    "反馈": "Feedback",
    "话题转移": "Topic Shift",
    "建议": "Suggestion",
    "修改": "Modification",
    "追问": "Follow-up",
}
"""Speech acts (Table 1); a label joins those of a turn by plus signs."""

STRATEGIES = {"A": "Global Constraints", "B": "Omission", "C": "Vagueness", "D": "Synthesis"}
"""Conversational challenge strategies of the Hard subset (Table 3)."""

PERSONAS = {
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


def split_label(label: str) -> list[str]:
    """The speech acts of a label, as the data name them."""
    return [part.strip() for part in label.replace("＋", "+").split("+")]


def _known_label(label: str) -> str:
    for act in split_label(label):
        if act not in ACTS:
            raise ValueError(f"{act!r} must be one of {', '.join(ACTS)}")
    return label


class UserTurn(Fields):
    """What the user says in one turn.

    `label` names its speech acts as the file does, and `strategy` is the letter of Hard's challenge
    strategy.
    """

    model_config = ConfigDict(populate_by_name=True)

    number: int = Field(alias=NUMBER)
    query: str = Field(alias=QUERY)
    label: Annotated[str, AfterValidator(_known_label)] = Field(alias=ACT)
    strategy: Literal[tuple(STRATEGIES)] | None = Field(None, alias=STRATEGY)  # type: ignore[valid-type]

    @property
    def acts(self) -> list[str]:
        """The speech acts by the paper's names, repeated if the label repeats one."""
        return [ACTS[act] for act in split_label(self.label)]


class Reference(Fields):
    """What a judge reads in place of a long text: its summary, and QA pairs as the file has them.

    The QA pairs are meant to be JSON and are kept as text, since some published ones are invalid.
    """

    summary: str
    qa_pairs: str


class Dialogue(Sample):
    """One dialogue: the user's side of it, and the reference of a long text.

    Its `id` is subset and identifier, since identifiers repeat between subsets. A long text opens
    with the text, one line break, and a question.
    """

    model_config = ConfigDict(populate_by_name=True)

    subset: Subset
    pattern: Literal[tuple(PATTERNS)] = Field(alias=PATTERN)  # type: ignore[valid-type]
    persona: str = Field(alias=PERSONA)
    turns: tuple[UserTurn, ...] = Field(alias=TURNS, min_length=1)
    reference: Reference | None = None

    @model_validator(mode="after")
    def _is_in_order(self) -> Dialogue:
        for number, turn in enumerate(self.turns, start=1):
            if turn.number != number:
                raise ValueError(f"{TURNS}[{number}].{NUMBER}: is {turn.number}, not {number}")
        if self.subset == "long-text" and split_long_text(self.turns[0].query) is None:
            raise ValueError(f"{TURNS}[1].{QUERY}: must be a text, one line break, and a question")
        return self


def split_long_text(query: str) -> tuple[str, str] | None:
    """A Long-Text opening as (text, question); None unless exactly one line break divides them."""
    long_text, line_break, question = query.partition("\n")
    if not line_break or "\n" in question or not long_text.strip() or not question.strip():
        return None
    return long_text, question


def add_subset(record: Record, subset: Subset) -> Record:
    """The record of a file with the fields `subset` and `id`; without identifier its place."""
    try:
        identifier = text(record, IDS[0]) or text(record, IDS[1])
    except DataError:
        identifier = None
    key = f"{subset}/{identifier}" if identifier else record.where
    return replace(record, fields={**record.fields, "subset": subset, "id": key})


def read_dialogue(record: Record) -> Dialogue:
    """The dialogue of a record with its subset; raises `DataError` with all that is wrong."""
    problems = []
    if record.fields["id"] == record.where:
        problems.append(f"{' or '.join(IDS)} must be a text")
    try:
        dialogue = Dialogue.model_validate(record.fields)
    except ValidationError as error:
        problems += problems_of(error)
    own, subset = _subset_by_layout(record), record.fields["subset"]
    if own != subset:
        problems.append(f"has the fields of {own}, but the file is taken for {subset}")
    if problems:
        raise DataError(record.where, problems)
    return dialogue


def read_references(path: Path) -> dict[str, dict[str, Any]]:
    """The summaries and QA pairs by ID, without their long texts."""
    references: dict[str, dict[str, Any]] = {}
    for record in read_records(path):
        key = text(record, IDS[1]) or ""
        if key in references:
            raise DataError(str(path), [f"{record.where}: {IDS[1]} {key} is that of another one"])
        references[key] = {name: record.fields.get(name) for name in Reference.model_fields}
    return references


def turns_of(record: Record) -> list[dict[str, Any]]:
    """The turns of a record that are objects."""
    turns = record.fields.get(TURNS)
    return [turn for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else []


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


def subset_of(path: Path) -> Subset:
    """The subset that a file belongs to, by the fields of its first record."""
    for record in scan_records(path):
        if not record.fault:
            return _subset_by_layout(record)
    raise DataError(str(path), ["holds no records"])


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
    return "hard" if any(STRATEGY in turn for turn in turns_of(record)) else "standard"
