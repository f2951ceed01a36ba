"""BotChat's samples: a human dialogue, whose first two utterances are the seed, checked and read.

`survey` reads the whole file before anything is paid for and tells all that is wrong in one
message; `load_samples` then streams. Nothing is prompted or scored here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from mmconv.benchmarks.bad_records import BadRecords, refusal
from mmconv.benchmarks.botchat.dialogue_files import (
    DOCUMENT,
    HUMAN_COLUMN,
    INDEX,
    ROUNDS,
    TITLE,
    read_utterances,
)
from mmconv.benchmarks.botchat.options import SEED, SHORTEST_HUMAN
from mmconv.benchmarks.choosing import EVERYTHING, Choice
from mmconv.benchmarks.records import Record, Unreadable, readable, scan_records, text
from mmconv.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a conditioned dialogue is about: a title, which may be empty, and a text."""

    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A human dialogue with its index and, in data such as NaturalConv, its reference document."""

    index: str
    human: tuple[str, ...]
    document: Document | None = None

    @property
    def seed(self) -> tuple[str, ...]:
        """The utterances that every generated dialogue begins with."""
        return self.human[:SEED]

    @property
    def paired(self) -> bool:
        """Whether the dialogue is long enough to be compared with others."""
        return len(self.human) >= SHORTEST_HUMAN


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a file holds: the `lengths` of human dialogues by index, records `left_out` by place.

    `documented` says whether every sample has a reference document, `choice` which are wanted.
    """

    lengths: Mapping[str, int]
    documented: bool
    left_out: BadRecords
    choice: Choice = EVERYTHING

    @property
    def taken(self) -> int:
        """How many samples a run takes."""
        return min(len(self.lengths), self.choice.limit or len(self.lengths))

    @property
    def paired(self) -> frozenset[str]:
        """The indexes of the samples that a run compares."""
        taken = islice(self.lengths.items(), self.taken)
        return frozenset(index for index, length in taken if length >= SHORTEST_HUMAN)

    def longer(self, utterances: int) -> int:
        """How many human dialogues have more utterances than so many."""
        return sum(length > utterances for length in self.lengths.values())


def survey(path: Path, *, documents: bool, skip_bad: bool, choice: Choice = EVERYTHING) -> Survey:
    """Check every record of the choice; `documents` wants a reference document in each.

    Raises `DataError` with all problems in one message; with `skip_bad` only where the file cannot
    be read or no sample is left.
    """
    lengths: dict[str, int] = {}
    documented = True
    seen: dict[str, str] = {}
    left_out: dict[str, tuple[str, ...]] = {}
    for record in choice.among(scan_records(path), sample_index):
        if isinstance(record, Unreadable):
            left_out[record.where] = (record.fault,)
            continue
        try:
            sample = read_sample(record)
        except DataError as error:
            left_out[record.where] = error.problems
            continue
        faults = _misfits(sample, documents, seen)
        seen.setdefault(sample.index, record.where)
        if faults:
            left_out[record.where] = faults
        else:
            lengths[sample.index] = len(sample.human)
            documented &= sample.document is not None
    if not lengths or (left_out and not skip_bad):
        raise refusal(path, left_out, len(lengths))
    return Survey(lengths=lengths, documented=documented, left_out=left_out, choice=choice)


def load_samples(path: Path, found: Survey) -> Iterator[Sample]:
    """Stream the samples that the survey found good, in the file's order.

    Raises `DataError` for a record that has gone bad since.
    """
    wanted = found.choice.among(scan_records(path), sample_index)
    return map(read_sample, readable(wanted, found.left_out))


def sample_index(record: Record) -> str | None:
    """The index that the record's sample has; raises `DataError` for what is no text."""
    index = text(record, INDEX)
    return index if index is not None and index.strip() else None


def read_sample(record: Record) -> Sample:
    """Read a record; raises `DataError` naming all that is missing or malformed in it."""
    human, faults = read_utterances(record, HUMAN_COLUMN)
    texts = {name: _text(record, name, faults) for name in (INDEX, TITLE, DOCUMENT)}
    index, title, document = texts.values()
    if index is None:
        faults.append(f"{INDEX} is missing")
    if human and len(human) < SEED:
        faults.append(f"{HUMAN_COLUMN} has 1 utterance; the seed alone takes {SEED}")
    rounds = _text(record, ROUNDS, faults)
    if human and rounds not in (None, str(len(human))):
        faults.append(f"{ROUNDS} is {rounds}, but {HUMAN_COLUMN} has {len(human)} utterances")
    if title is not None and document is None:
        faults.append(f"{TITLE} stands without {DOCUMENT}")
    if faults or index is None:
        raise DataError(record.where, faults, "Mend the record and run again.")
    return Sample(
        index=index,
        human=human,
        document=None if document is None else Document(title=title or "", text=document),
    )


def _misfits(sample: Sample, documents: bool, seen: Mapping[str, str]) -> tuple[str, ...]:
    """What keeps a readable sample from being run; `seen` has earlier ones' places by index."""
    faults = []
    if documents and sample.document is None:
        faults.append(f"{DOCUMENT} is missing, and the condition con needs it")
    if sample.index in seen:
        faults.append(f"{INDEX} {sample.index!r} is that of {seen[sample.index]}")
    return tuple(faults)


def _text(record: Record, name: str, faults: list[str]) -> str | None:
    try:
        value = text(record, name)
    except DataError as error:
        faults += error.problems
        return None
    return value if value is not None and value.strip() else None
