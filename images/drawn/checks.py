"""Constraints of creation turns, each with its wording and its check; they need no image."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from images.drawn.reading import Check, bindings, gives_answer, plain
from images.drawn.truth import Fact, Value, find_terms
from images.drawn.words import Term, Text, joined, text


@dataclass(frozen=True)
class Constraint(ABC):
    """What a creation must fulfil; `name` is what tables call it and what `texts.toml` words."""

    name: ClassVar[str]

    @abstractmethod
    def holds(self, reply: str) -> bool:
        """Whether the reply fulfils it."""


@dataclass(frozen=True)
class States(Constraint):
    """States the values of some subjects, and no others, but for the answer of the second turn."""

    facts: tuple[Fact, ...]
    answer: Value | None = None
    name: ClassVar[str] = "facts"

    def holds(self, reply: str) -> bool:
        """Each subject must have its value; "in 40 minutes Lima shows 4:10" may name it again."""
        true = {fact.subject.en: fact.value for fact in self.facts}
        subjects = [fact.subject for fact in self.facts]
        right = set[str]()
        for name, value in bindings(plain(reply), subjects, self.facts[0].value):
            if true[name].accepts(value):
                right.add(name)
            elif self.answer is None or not self.answer.accepts(value):
                return False
        return right == {*true}


@dataclass(frozen=True)
class Gives(Constraint):
    """Gives the answer of the second turn, in a text that states facts."""

    answer: Value
    facts: tuple[Fact, ...] = ()
    name: ClassVar[str] = "answer"

    def holds(self, reply: str) -> bool:
        """The answer may come before or after the facts."""
        return gives_answer(reply, self.answer, self.facts)


@dataclass(frozen=True)
class Sentences(Constraint):
    """Has a number of sentences."""

    count: int
    name: ClassVar[str] = "sentences"

    def holds(self, reply: str) -> bool:
        """A heading, or a first line that ends with a colon, is not a sentence."""
        return count_sentences(reply) == self.count


@dataclass(frozen=True)
class Avoids(Constraint):
    """Does without a word."""

    word: Text
    name: ClassVar[str] = "forbidden word"

    def holds(self, reply: str) -> bool:
        """Neither language's word is in the text."""
        body = _body(reply).casefold()
        return not re.search(rf"\b{self.word.en}\b", body) and self.word.zh not in body


@dataclass(frozen=True)
class Ordered(Constraint):
    """Names subjects in an order."""

    subjects: tuple[Term, ...]
    name: ClassVar[str] = "order"

    def holds(self, reply: str) -> bool:
        """The first mentions are in order."""
        named = [str(each.value) for each in find_terms(self.subjects, plain(_body(reply)))]
        return [*dict.fromkeys(named)] == [subject.en for subject in self.subjects]


@dataclass(frozen=True)
class JsonObject(Constraint):
    """Is a JSON object with certain keys."""

    keys: tuple[str, ...]
    name: ClassVar[str] = "JSON"

    def holds(self, reply: str) -> bool:
        """The object may be in a code block."""
        try:
            found = json.loads(reply[reply.find("{") : reply.rfind("}") + 1])
        except ValueError:
            return False
        return isinstance(found, dict) and sorted(found) == sorted(self.keys)


def check_note(reply: str, constraints: Sequence[Constraint]) -> Check:
    """Check a creation; all constraints but its content are its format."""
    missed = tuple(each.name for each in constraints if not each.holds(reply))
    format_kept = {*missed} <= {States.name, Gives.name}
    share = 1 - len(missed) / len(constraints)
    return Check("wrong" if missed else "right", share, format_kept, missed)


def count_sentences(reply: str) -> int:
    """The sentences of a reply, headings and an announcement left out."""
    body = re.sub(r"\b([ap])\.m\.(?=[,;:)]|\s+[a-z])", r"\1m", _body(reply))
    body = re.sub(r"\b([ap])\.m\.", r"\1m.", body)
    body = re.sub(r"(?<=\d)\.(?=\d)|^\s*\d+\.\s|\b(?:e\.g|i\.e|approx|vs)\.", "", body, flags=re.M)
    lines = [line.strip(' *_#>"”’') for line in body.splitlines() if not line.startswith("#")]
    ends = [len(re.findall(r"[.!?…]+(?=[\s\"”’*)]|$)|[。！？]+", line)) for line in lines if line]
    last = lines[-1] if lines else ""
    unfinished = len(last) > 20 and not re.search(r"[.!?…。！？)”\"]$", last)
    return sum(ends) + unfinished


def _body(reply: str) -> str:
    """The text without an announcement ("Here is the note:") before it."""
    lines = reply.strip().splitlines()
    if len(lines) > 1 and lines[0].rstrip(" *").endswith((":", "：")):
        lines = lines[1:]
    return "\n".join(lines)


def wording(constraints: Sequence[Constraint]) -> Text:
    """All constraints as one sentence, which names subjects, never their values or the answer."""
    rules = [text("rules", each.name).fill(**_slots(each)) for each in constraints]
    both = Text("; ".join(rule.en for rule in rules), "；".join(rule.zh for rule in rules))
    return text("rules", "all").fill(rules=both)


def _slots(constraint: Constraint) -> dict[str, Text | str | int]:
    match constraint:
        case States(facts=facts):
            return {"names": joined([fact.subject for fact in facts])}
        case Ordered(subjects=subjects):
            return {"names": joined(subjects)}
        case Sentences(count=count):
            return {"count": count}
        case Avoids(word=word):
            return {"word": word}
        case JsonObject(keys=keys):
            return {"keys": ", ".join(f'"{key}"' for key in keys)}
    return {}
