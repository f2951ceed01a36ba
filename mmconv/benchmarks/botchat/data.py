"""BotChat's samples: a human dialogue, whose first two utterances are the seed, checked and read.

`survey` reads the whole file before anything is paid for and tells all that is wrong in one
message; `load_samples` then streams. Nothing is prompted or scored here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mmconv.benchmarks.botchat.dialogue_files import (
    DOCUMENT,
    HUMAN_COLUMN,
    INDEX,
    ROUNDS,
    TITLE,
    read_utterances,
)
from mmconv.benchmarks.botchat.options import SEED, SHORTEST_HUMAN
from mmconv.benchmarks.choosing import EVERYTHING, Choice, all_keys
from mmconv.benchmarks.data_files.intake import Found, Intake, find_samples
from mmconv.benchmarks.data_files.records import Reader, Record, scan_records, text
from mmconv.core.errors import DataError


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
    """What a run takes: the `lengths` of human dialogues by index.

    `documented` says whether every sample has a reference document.
    """

    intake: Intake
    lengths: Mapping[str, int]
    documented: bool

    @property
    def paired(self) -> frozenset[str]:
        """The indexes of the samples that a run compares."""
        return frozenset(
            index for index, length in self.lengths.items() if length >= SHORTEST_HUMAN
        )

    def longer(self, utterances: int) -> int:
        """How many human dialogues have more utterances than so many."""
        return sum(length > utterances for length in self.lengths.values())


def survey(path: Path, *, documents: bool, skip_bad: bool, choice: Choice = EVERYTHING) -> Survey:
    """Check every record of the choice; `documents` wants a reference document in each.

    Raises `DataError` with all problems in one message; with `skip_bad` only where the file cannot
    be read or no sample is left.
    """
    intake = Intake(choice=choice, skip_bad=skip_bad)
    lengths: dict[str, int] = {}
    documented = True
    for sample in intake.take(_find(path, choice, documents=documents)):
        lengths[sample.index] = len(sample.human)
        documented &= sample.document is not None
    intake.check(path)
    return Survey(intake=intake, lengths=lengths, documented=documented)


def load_samples(path: Path, intake: Intake) -> Iterator[Sample]:
    """Stream the samples that the survey found good, in the file's order.

    Raises `DataError` for a record that has gone bad since.
    """
    return intake.stream(_find(path, intake.choice))


def source_keys(path: Path) -> Iterator[str]:
    """The indexes of all samples, wanted or not; see `mmconv.benchmarks.choosing.all_keys`."""
    return all_keys(scan_records(path), _key)


def read_sample(record: Record) -> Sample:
    """Read a record; raises `DataError` naming all that is missing or malformed in it."""
    reader = Reader(record)
    human, faults = read_utterances(record, HUMAN_COLUMN)
    index = reader.required(INDEX)
    title, document, rounds = map(reader.optional, (TITLE, DOCUMENT, ROUNDS))
    if human and len(human) < SEED:
        faults.append(f"{HUMAN_COLUMN} has 1 utterance; the seed alone takes {SEED}")
    if human and rounds not in (None, str(len(human))):
        faults.append(f"{ROUNDS} is {rounds}, but {HUMAN_COLUMN} has {len(human)} utterances")
    if title is not None and document is None:
        faults.append(f"{TITLE} stands without {DOCUMENT}")
    if faults := [*reader.faults, *faults]:
        raise DataError(record.where, faults, "Mend the record and run again.")
    return Sample(
        index=index,
        human=human,
        document=None if document is None else Document(title=title or "", text=document),
    )


def _key(record: Record) -> str | None:
    """The index that the record's sample has; raises `DataError` for what is no text."""
    index = text(record, INDEX)
    return index if index is not None and index.strip() else None


def _find(path: Path, choice: Choice, *, documents: bool = False) -> Iterator[Found[Sample]]:
    def read(record: Record) -> Found[Sample]:
        try:
            sample = read_sample(record)
        except DataError as error:
            return Found(place=record.where, faults=error.problems)
        lacks = documents and sample.document is None
        faults = (f"{DOCUMENT} is missing, and the condition con needs it",) if lacks else ()
        return Found(place=record.where, sample=sample, faults=faults)

    return find_samples(scan_records(path), choice, _key, read, key_field=INDEX)
