"""The truth about a drawing as data: facts, a problem, and values that can be found in a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, TypeAlias

from images.drawn.words import (
    LOOKS,
    PATTERNS,
    TEXTS,
    Language,
    Mention,
    Slot,
    Term,
    Text,
    find_kind,
    joined,
    latin,
    load_table,
)

Plain: TypeAlias = float | str
"""A value in plain form, by which values of a kind are compared."""
NO_UNIT, _MINUTES = Text("", ""), Text(" minutes", "分钟")


@dataclass(frozen=True, slots=True)
class Number:
    """A number, written with `digits` decimals; replies may differ from it by `within`."""

    value: float
    digits: int = 0
    within: float = 0.0
    unit: Text = NO_UNIT
    pattern: ClassVar[str] = "number"
    turn: ClassVar[float] = float("inf")
    """After how much the values begin again: a dial does so after twelve hours."""

    def __getitem__(self, language: Language) -> str:
        return f"{self.value:.{self.digits}f}{self.unit[language]}"

    def find(self, text: str) -> Iterator[Mention]:
        """Every such value of the text; of money only amounts with decimals, if there are any."""
        matches = [*PATTERNS[self.pattern].finditer(text)]
        if self.digits and any("." in match[0] for match in matches):
            matches = [match for match in matches if "." in match[0]]
        for match in matches:
            if (value := self._read(match)) is not None:
                yield Mention(*match.span(), value)

    def accepts(self, value: Plain) -> bool:
        """Whether a value of a reply is this one."""
        if not isinstance(value, float):
            return False
        apart = abs(value - self.value) % self.turn
        return min(apart, self.turn - apart) <= self.within + 1e-9

    def _read(self, match: re.Match[str]) -> float | None:
        return float(match[0])


@dataclass(frozen=True, slots=True)
class Duration(Number):
    """A number of minutes, which a reply may write with hours."""

    unit: Text = _MINUTES
    pattern: ClassVar[str] = "duration"

    def _read(self, match: re.Match[str]) -> float:
        return 60 * float(match["hours"] or 0) + float(match["minutes"] or match["rest"] or 0)


@dataclass(frozen=True, slots=True)
class Time(Number):
    """A time on a dial of twelve hours, in minutes after twelve, morning or afternoon."""

    pattern: ClassVar[str] = "time"
    turn: ClassVar[float] = 720

    def __getitem__(self, language: Language) -> str:
        hour, minute = divmod(int(self.value), 60)
        return f"{hour or 12}:{minute:02}"

    def _read(self, match: re.Match[str]) -> float | None:
        """The minutes of a time in digits or words; None for one like 25:00."""
        hour = int(match["hour"] or match["whole"] or match["of"])
        if match["way"]:
            minute = {"quarter": 15, "half": 30}.get(match["past"].lower()) or int(match["past"])
            if match["way"].lower() in ("to", "before"):
                hour, minute = hour - 1, 60 - minute
        elif match["quarters"]:
            minute = 15 * int(match["quarters"][0])
        else:
            minute = 30 if match["half"] else int(match["minute"] or 0)
        is_time = -1 <= hour <= 24 and minute < 60
        return (60.0 * hour + minute) % self.turn if is_time else None


@dataclass(frozen=True, slots=True)
class Name:
    """A term out of several."""

    term: Term
    among: tuple[Term, ...]

    def __getitem__(self, language: Language) -> str:
        return self.term[language]

    def find(self, text: str) -> Iterator[Mention]:
        """Every mention of a term of the kind, also of one that is not among them."""
        return find_kind(self.among, text)

    def accepts(self, value: Plain) -> bool:
        """Whether the term is this one."""
        return value == self.term.en


def square(name: str) -> Name:
    """A square of a board, a letter and a number: "C4"; the mistakes are in the same row."""
    return Name(latin(name), tuple(latin(letter + name[1:]) for letter in "ABCD"))


Value: TypeAlias = Number | Name


def another(value: Value, random: Random) -> Value:
    """A wrong value of the same kind, clearly apart from this one."""
    if isinstance(value, Number):
        other = value.value + random.randint(1, 3) * 10**-value.digits + 2 * value.within
        return replace(value, value=other % 720 if isinstance(value, Time) else other)
    return replace(value, term=random.choice([one for one in value.among if one != value.term]))


@dataclass(frozen=True, slots=True)
class Fact:
    """What the image shows about a subject."""

    subject: Term
    value: Value

    @property
    def number(self) -> float:
        """The number or the time."""
        assert isinstance(self.value, Number)
        return self.value.value


Facts: TypeAlias = tuple[Fact, ...]


def ranked(facts: Sequence[Fact]) -> list[Fact]:
    """The facts from the greatest number to the least."""
    return sorted(facts, key=lambda fact: -fact.number)


def one_of(fact: Fact, facts: Sequence[Fact]) -> Name:
    """The name of one fact's subject, out of those of all."""
    return Name(fact.subject, tuple(each.subject for each in facts))


Outcome: TypeAlias = Literal["right", "wrong", "unread"]


@dataclass(frozen=True, slots=True)
class Check:
    """Whether a reply is right, its share of right facts or constraints, and its format.

    `missed` are the facts and constraints that it fails, and invented subjects.
    """

    outcome: Outcome
    share: float
    format_kept: bool
    missed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """What is asked, the truth about it, a right answer, one with a fact changed, and the check.

    `chance` is how often a guess of the right kind is right; `category` is ConvBench's, if any.
    """

    task: str
    instruction: str
    truth: str
    reference: str
    mistake: str
    check: Callable[[str], Check]
    chance: float | None = None
    category: str = ""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Three turns, a caption of the image, the answer of turn 2, and what turn 3 must contain."""

    turns: tuple[Turn, Turn, Turn]
    caption: str
    answer: str
    demands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A question about facts.

    `guess` is the chance that a blind answer of the right kind is right: one in the number of
    names, or how often another drawing's answer to the task is right at this level.
    """

    task: str
    question: Text
    steps: Text
    answer: Value
    guess: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """An image, what is asked about it, and what is true.

    `question` asks for all `facts`, whose values are of one kind. `guess` is the chance to guess
    one fact. `pool` has the subjects and those that a reply might name by mistake. `script` is an
    English dialogue that is written already.
    """

    png: bytes
    question: Text
    facts: Facts
    problem: Problem
    guess: float
    pool: Sequence[Term]
    script: Dialogue | None = None

    @property
    def others(self) -> tuple[Term, ...]:
        """The subjects that the image does not show."""
        shown = {fact.subject for fact in self.facts}
        return tuple(term for term in self.pool if term not in shown)


Step: TypeAlias = SimpleNamespace
"""The parameters of a family at a level, by their names in `ladder.toml`."""
_LADDER, _GUESSES = load_table("ladder"), load_table("guesses")


@dataclass(frozen=True, slots=True)
class Draft:
    """A drawing in the making: its family, its level from 1 to 10, and what it is drawn by."""

    family: str
    level: int
    random: Random

    @property
    def plan(self) -> Step:
        """The parameters of the level."""
        values = _LADDER[self.family].items()
        return Step(**{name: by_level[self.level - 1] for name, by_level in values})

    def pick(self, look: str) -> Any:
        """One of the family's looks of a kind, such as a colour of the ground."""
        return self.random.choice(LOOKS[self.family][look])

    def question(self, key: str = "questions", **slots: Slot) -> Text:
        """One of the questions of the first turn."""
        question: Text = self.random.choice(TEXTS[self.family][key])
        return question.fill(**slots)

    def problem(self, task: str, answer: Value, **slots: Slot) -> Problem:
        """A task; the slots are those of its question and its steps."""
        words = TEXTS[self.family] | TEXTS[self.family][task]
        guess = 1 / len(answer.among) if isinstance(answer, Name) else self.guess_rate(task)
        question, steps = (words[key].fill(**slots) for key in ("question", "steps"))
        return Problem(task, question, steps, answer, guess)

    def guess_rate(self, task: str) -> float:
        """How often another drawing's number is right, as `tests.bench.scenes blind` measured."""
        return float(_GUESSES[self.family][task][self.level - 1])

    def items(self, facts: Sequence[Fact]) -> Text:
        """Facts as a list in a sentence."""
        item = TEXTS[self.family]["item"]
        return joined([item.fill(name=fact.subject, value=fact.value) for fact in facts])
