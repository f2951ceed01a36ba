"""BotChat's dialogues: human, stored and generated ones, and which of them are compared.

The authors store dialogues as JSON lists of utterances in the cells of a table. `MuTual_test.xlsx`
has the human ones in the column `conv-GT`, `MuTualTest-convs.tsv` has a column per model. Stored
dialogues may also come from the folder of an earlier run. Nothing is prompted or scored here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import orjson
from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from mmconv.benchmarks.base.sample import Sample
from mmconv.benchmarks.data_files.bad_records import name_few
from mmconv.benchmarks.data_files.records import Record, read_records, text
from mmconv.benchmarks.registry import TITLES
from mmconv.benchmarks.shared.scoring import Outcomes
from mmconv.core.errors import DataError
from mmconv.core.keys import hash_json
from mmconv.core.plans import read_trial
from mmconv.core.types import Part, Ref, Reply, Text
from mmconv.run_folder.layout import SPEC
from mmconv.run_folder.saved_run import RUN_AGAIN, read_calls, read_spec
from mmconv.run_folder.transcripts import CallRecord

UNCON, CON = "uncon", "con"
CONDITIONS = (UNCON, CON)
"""Without and with the record's reference document in the system prompt (paper, section 3.1)."""

SEED = 2
"""How many utterances of the human dialogue begin each generated one (paper: ChatSEED)."""

UTTERANCES = 16
"""How many utterances a generated dialogue has, the seed included (paper, section 4.1)."""

CHECKPOINTS = (4, 8, 12, 16)
"""The lengths of UniEval's pass rates (paper, Figure 3)."""

SHORTEST_HUMAN = 4
"""The fewest utterances of a human dialogue whose sample is compared (paper: N = 4)."""

GTEVAL, PAIREVAL = "GTEval", "PairEval"
"""Comparisons with the human dialogue, and with those of other models."""

ORDERS = ("1", "2")
"""Which conversation of the prompt is the model's; both are judged, and both count."""

INDEX, ROUNDS, TITLE, DOCUMENT = "index", "nround", "title", "text"
HUMAN = "GT"
HUMAN_COLUMN = "conv-GT"

END = "<chat_end>"
"""What ends an utterance in a judge's prompt (paper, appendix B.3)."""

Line: TypeAlias = Text | Ref
"""An utterance: a text, or what a call will produce."""

_COLUMN_PREFIX = "conv-"
_HASH_DIGITS = 16  # of a dialogue's hash in a manifest
_UTTERANCE = re.compile(r"(?:.+/)?utterance_(\d+)")


class HumanDialogue(Sample):
    """A dialogue of people, and in data such as NaturalConv the document that it is about."""

    model_config = ConfigDict(populate_by_name=True)

    id: str = Field(validation_alias=INDEX)
    """The authors' index."""
    human: tuple[str, ...] = Field(validation_alias=HUMAN_COLUMN)
    """The utterances: a list, or its JSON text."""
    nround: str | None = None
    """How many utterances there are, which is only checked."""
    title: str | None = None
    """The title of the document."""
    text: str | None = None
    """The text of the document."""

    @field_validator("human", mode="before")
    @classmethod
    def _parse(cls, value: Any) -> tuple[str, ...]:
        if value in (None, ""):
            raise PydanticCustomError("empty", "is empty")
        utterances = parse_utterances(value)
        if len(utterances) < SEED:
            raise ValueError(f"has {len(utterances)} utterance; the seed alone takes {SEED}")
        return utterances

    @model_validator(mode="after")
    def _fits(self) -> HumanDialogue:
        problems = []
        if self.nround not in (None, str(len(self.human))):
            problems.append(
                f"{ROUNDS} is {self.nround}, but {HUMAN_COLUMN} has {len(self.human)} utterances"
            )
        if self.title is not None and self.text is None:
            problems.append(f"{TITLE} is there without {DOCUMENT}")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def seed(self) -> tuple[str, ...]:
        """The utterances that every generated dialogue begins with."""
        return self.human[:SEED]

    @property
    def is_compared(self) -> bool:
        """Whether the dialogue is long enough to be compared with others."""
        return len(self.human) >= SHORTEST_HUMAN


class DocumentedDialogue(HumanDialogue):
    """A dialogue as the condition con needs it: with a document."""

    @model_validator(mode="after")
    def _has_document(self) -> DocumentedDialogue:
        if self.text is None:
            raise ValueError(f"{DOCUMENT} is missing, and the condition {CON} needs it")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDialogue:
    """A dialogue of a model; `where` is its place in a file or the folder of a run."""

    where: str
    model: str
    index: str
    utterances: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant:
    """The candidate or an opponent: its dialogues are generated by a `role`, or `stored` by index.

    The candidate's are generated for every sample, those of opponents if the sample is compared.
    Some stored dialogues may be missing.
    """

    name: str
    role: str | None = None
    stored: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def call_id(self, number: int) -> str:
        """The id of the call that makes the utterance of this number, counted from 1."""
        return f"{'' if self.role == 'candidate' else f'{self.role}/'}utterance_{number}"

    def hashes(self) -> dict[str, str]:
        """A short hash of every stored dialogue by its sample's index."""
        stored = sorted(self.stored.items())
        return {index: hash_json(texts)[:_HASH_DIGITS] for index, texts in stored}

    def lines(self, sample: HumanDialogue, count: int) -> tuple[Line, ...]:
        """The first `count` utterances of its dialogue; none if that is missing."""
        if self.role is None:
            return as_lines(self.stored.get(sample.id, ())[:count])
        generated = [Ref(call=self.call_id(number)) for number in range(SEED + 1, count + 1)]
        return (*as_lines(sample.seed[:count]), *generated)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The lines of `model` and `opponent`, which may be the human dialogue, in one of two orders.

    `order` says which conversation of the prompt is the model's; `searched` are the lines of both
    in which DupDetect looks for loops. `missing` names the one without a dialogue, if there is one.
    """

    protocol: str
    model: str
    opponent: str
    length: int
    order: str
    own: tuple[Line, ...]
    other: tuple[Line, ...]
    searched: tuple[tuple[Line, ...], tuple[Line, ...]]
    missing: str | None = None

    @property
    def call_id(self) -> str:
        """The id of the call that judges it."""
        if self.protocol == GTEVAL:
            return f"gteval/{self.order}"
        return f"paireval/{self.model}/{self.opponent}/{self.length}/{self.order}"

    @property
    def is_void(self) -> bool:
        """Whether there is nothing to judge: a dialogue is missing, or both have the same text."""
        return self.missing is not None or self.own == self.other


def checkpoints(utterances: int) -> tuple[int, ...]:
    """The lengths of UniEval's pass rates: the paper's, and the whole dialogue."""
    return (*(length for length in CHECKPOINTS if length < utterances), utterances)


def named(name: str, condition: str) -> str:
    """A name with its condition, unless it is the one that every record allows."""
    return name if condition == UNCON else f"{name} ({condition})"


def as_lines(utterances: Iterable[str]) -> tuple[Text, ...]:
    """Texts as lines of a dialogue."""
    return tuple(Text(text=utterance) for utterance in utterances)


def compare(
    protocol: str,
    sample: HumanDialogue,
    pair: tuple[Participant, Participant],
    length: int,
    searched: int,
) -> Iterator[Comparison]:
    """Both orders of a pair cut to `length`; loops are looked for in `searched` utterances."""
    model, opponent = pair
    for order in ORDERS:
        yield Comparison(
            protocol=protocol,
            model=model.name,
            opponent=opponent.name,
            length=length,
            order=order,
            own=model.lines(sample, length),
            other=opponent.lines(sample, length),
            searched=(model.lines(sample, searched), opponent.lines(sample, searched)),
            missing=next((each.name for each in pair if not each.lines(sample, length)), None),
        )


def resolve(lines: Sequence[Line], outcomes: Outcomes) -> tuple[str, ...] | None:
    """The lines as texts; None if one of them was not generated."""
    texts: list[str] = []
    for line in lines:
        outcome = outcomes.get(line.call) if isinstance(line, Ref) else line
        if not isinstance(outcome, Reply | Text):
            return None
        texts.append(outcome.text)
    return tuple(texts)


def conversation(lines: Sequence[Line]) -> list[str | Part]:
    """A dialogue as the judge reads it: `A: ...<chat_end>`, a line for each utterance."""
    parts: list[str | Part] = []
    for place, line in enumerate(lines):
        parts += [f"{speaker(place)}: ", line, f"{END}\n" if place < len(lines) - 1 else END]
    return parts


def speaker(place: int) -> str:
    """The speaker of the utterance at this place, counted from 0: A, B, A, B, ..."""
    return "AB"[place % 2]


def stored_dialogues(path: Path) -> Iterator[StoredDialogue]:
    """Stream the dialogues of all models in a file, or of a run's folder.

    Raises `InputError` for a folder without a finished run of BotChat, for a run of both conditions
    and for a file that is cut short or has another version's format; `DataError` for a record as
    `record_dialogues` does, for two of one index, and for a file without models.
    """
    if path.is_dir():
        yield from _run_dialogues(path)
        return
    places: dict[str, str] = {}
    models: set[str] = set()
    for record in read_records(path):
        models.update(model_columns(record))
        yield from record_dialogues(record, places)
    if not models:
        raise DataError(str(path), ["holds no dialogues"], "Give a table with a column per model.")


def model_columns(record: Record) -> list[str]:
    """The columns that hold a model's dialogues: all but the record's own."""
    return [name for name in record.fields if name not in {INDEX, ROUNDS, TITLE, DOCUMENT}]


def record_dialogues(record: Record, places: MutableMapping[str, str]) -> list[StoredDialogue]:
    """The dialogues of one record; `places` has those of earlier records by index.

    A model without a dialogue is passed over. Raises `DataError` naming the record and the column
    of what is malformed, or the earlier record of its index; `places` does not get it then.
    """
    index = text(record, INDEX)
    if index is None:
        raise DataError(record.where, [f"no {INDEX}"], "Every record needs one.")
    if index in places:
        raise DataError(record.where, [f"{INDEX} {index!r} is that of {places[index]}"])
    dialogues = []
    problems: list[str] = []
    for column in model_columns(record):
        if record.fields[column] in (None, ""):
            continue
        try:
            utterances = parse_utterances(record.fields[column])
        except ValueError as error:
            problems.append(f"{column}: {error}")
            continue
        model = column.removeprefix(_COLUMN_PREFIX)
        dialogues.append(
            StoredDialogue(where=record.where, model=model, index=index, utterances=utterances)
        )
    if problems:
        raise DataError(record.where, problems, "Give dialogues as JSON lists of texts.")
    places[index] = record.where
    return dialogues


def parse_utterances(value: Any) -> tuple[str, ...]:
    """The utterances of a list, or of its JSON text; raises `ValueError` with all problems."""
    items = from_json(value)
    if not isinstance(items, list | tuple) or not items:
        raise ValueError(f"not a JSON list of utterances: {_short(value)}")
    problems = [
        f"utterance {number} "
        + ("is empty" if isinstance(item, str) else f"is not a text: {_short(item)}")
        for number, item in enumerate(items, start=1)
        if not isinstance(item, str) or not item.strip()
    ]
    if problems:
        raise ValueError("; ".join(problems))
    return tuple(items)


def from_json(value: Any) -> Any:
    """JSON text as the value that it has, anything else as it is."""
    try:
        return orjson.loads(value) if isinstance(value, str) else value
    except orjson.JSONDecodeError:
        return value


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}..."


def _run_dialogues(folder: Path) -> Iterator[StoredDialogue]:
    spec = read_spec(folder)
    if spec.benchmark != "botchat" and spec.benchmark in TITLES:
        fault = f"this is a run of {spec.benchmark}"
        raise DataError(str(folder), [fault], "Name the folder of a BotChat run.")
    models = {role: model.label for role, model in spec.models.items()}
    first: str | None = None
    for (name, condition), calls in groupby(
        read_calls(folder), lambda call: (call.sample, call.condition)
    ):
        index, trial = read_trial(name)
        # further trials of a sample repeat it
        if trial > 1:
            continue
        for role, utterances in _generated(calls).items():
            first = first or condition
            if condition != first:
                raise DataError(
                    str(folder),
                    [f"holds dialogues of the conditions {first} and {condition}"],
                    "Run one of them alone (--conditions) and name that run.",
                )
            where = f"{folder.name} {index}"
            if role not in models:
                raise DataError(where, [f"{SPEC} names no role {role!r}, which speaks"], RUN_AGAIN)
            yield StoredDialogue(
                where=where, model=models[role], index=index, utterances=tuple(utterances)
            )
    if first is None:
        raise DataError(str(folder), ["holds no dialogues"], "Name the folder of a BotChat run.")


def _generated(calls: Iterable[CallRecord]) -> dict[str, list[str]]:
    """The dialogue of every role that speaks, up to the first utterance that is missing."""
    dialogues: dict[str, list[str]] = {}
    for call in calls:
        match = _UTTERANCE.fullmatch(call.call)
        if match is None or call.text is None:
            continue
        number = int(match[1])
        if number == SEED + 1:
            dialogues[call.model] = [
                "".join(part.text or "" for part in message.parts)
                for message in (call.messages or ())[-SEED:]
            ]
        if len(dialogues.get(call.model, ())) == number - 1:
            dialogues[call.model].append(call.text)
    return dialogues


def load_opponents(path: Path, indexes: frozenset[str], length: int) -> list[Participant]:
    """The models of a file or a run's folder, with their dialogues of these indexes.

    In a run's folder dialogues may be missing, since their calls failed. Raises one `DataError` for
    models without any of this length, and for dialogues that a file lacks or that are too short.
    """
    stored: dict[str, dict[str, StoredDialogue]] = {}
    opponents = []
    for dialogue in stored_dialogues(path):
        if dialogue.model != HUMAN and dialogue.index in indexes:
            stored.setdefault(dialogue.model, {})[dialogue.index] = dialogue
    if not stored:
        raise DataError(
            str(path),
            ["holds no dialogue of any sample that is compared"],
            "Name the folder of a BotChat run over the same data, or a file of dialogues in the "
            "authors' way: an index, and a column for each model.",
        )
    is_run = path.is_dir()
    problems: list[str] = []
    for model, dialogues in stored.items():
        short = [dialogue for dialogue in dialogues.values() if len(dialogue.utterances) < length]
        missing = sorted(indexes - dialogues.keys())
        if is_run and len(short) == len(dialogues):
            problems.append(f"{model}: none of {len(dialogues)} dialogues has {length} utterances")
        if missing and not is_run:
            problems.append(f"{model}: no dialogue of {name_few(missing)}")
        if not is_run:
            problems += [
                f"{dialogue.where}: {model} has {len(dialogue.utterances)} utterances, not {length}"
                for dialogue in short
            ]
        texts = {index: dialogue.utterances for index, dialogue in dialogues.items()}
        whole = {index: lines for index, lines in texts.items() if len(lines) >= length}
        opponents.append(Participant(name=model, stored=whole))
    if problems:
        needed = "a dialogue" if is_run else "every dialogue"
        advice = (
            f"Every model needs {needed} of {length} utterances, of the samples that are compared."
        )
        raise DataError(str(path), problems, advice)
    return opponents
