"""Constraints of creation turns, each with its wording and its check; they need no image."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from images.drawn.reading import bindings, plain
from images.drawn.truth import Fact, Value, find_terms
from images.drawn.words import Term, Text, joined


class Constraint(Protocol):
    """What a creation must fulfil: `wording` completes "The text must ..."."""

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    @property
    def wording(self) -> Text:
        """What the instruction says."""
        ...

    def holds(self, reply: str) -> bool:
        """Whether the reply fulfils it."""
        ...


@dataclass(frozen=True)
class States:
    """States the values of some subjects, and no other value for them."""

    facts: tuple[Fact, ...]
    name: str = "facts"

    @property
    def wording(self) -> Text:
        """Names the subjects, not their values."""
        names = joined([fact.subject for fact in self.facts])
        return Text(
            "state for {names} what you found in the first turn",
            "写出你在第一轮得到的{names}的信息",
        ).fill(names=names)

    def holds(self, reply: str) -> bool:
        """Each subject must have its value at least once."""
        subjects = [fact.subject for fact in self.facts]
        stated = [*bindings(plain(_flat(reply)), subjects, self.facts[0].value)]
        return all(
            any(name == fact.subject.en and fact.value.accepts(value) for name, value in stated)
            for fact in self.facts
        )


@dataclass(frozen=True)
class Gives:
    """Gives the answer of the second turn."""

    answer: Value
    name: str = "answer"

    @property
    def wording(self) -> Text:
        """Does not name the answer."""
        return Text("give your answer to the second question", "写出第二个问题的答案")

    def holds(self, reply: str) -> bool:
        """The answer is anywhere in the text."""
        found = self.answer.find(plain(_flat(reply)))
        return any(self.answer.accepts(mention.value) for mention in found)


@dataclass(frozen=True)
class Sentences:
    """Has a number of sentences."""

    count: int
    name: str = "sentences"

    @property
    def wording(self) -> Text:
        """Names the number."""
        return Text("have exactly {n} sentences", "正好有{n}句话").fill(n=self.count)

    def holds(self, reply: str) -> bool:
        """A heading, or a first line that ends with a colon, is not a sentence."""
        return count_sentences(reply) == self.count


@dataclass(frozen=True)
class Avoids:
    """Does without a word."""

    word: Text
    name: str = "forbidden word"

    @property
    def wording(self) -> Text:
        """Names the word."""
        return Text("not use the word “{word}”", "不使用“{word}”这个词").fill(word=self.word)

    def holds(self, reply: str) -> bool:
        """Neither language's word is in the text."""
        text = _body(reply).casefold()
        return not re.search(rf"\b{self.word.en}\b", text) and self.word.zh not in text


@dataclass(frozen=True)
class Ordered:
    """Names subjects in an order."""

    subjects: tuple[Term, ...]
    name: str = "order"

    @property
    def wording(self) -> Text:
        """Names the order."""
        names = joined(self.subjects)
        return Text("name them in this order: {names}", "按以下顺序提到它们：{names}").fill(
            names=names
        )

    def holds(self, reply: str) -> bool:
        """The first mentions are in order."""
        named = [str(each.value) for each in find_terms(self.subjects, plain(_flat(reply)))]
        return [*dict.fromkeys(named)] == [subject.en for subject in self.subjects]


@dataclass(frozen=True)
class JsonObject:
    """Is a JSON object with certain keys."""

    keys: tuple[str, ...]
    name: str = "JSON"

    @property
    def wording(self) -> Text:
        """Names the keys."""
        keys = ", ".join(f'"{key}"' for key in self.keys)
        return Text(
            "be one JSON object with exactly the keys {keys}",
            "是一个JSON对象，且只有这些键：{keys}",
        ).fill(keys=keys)

    def holds(self, reply: str) -> bool:
        """The object may be in a code block."""
        found = _json(reply)
        return found is not None and sorted(found) == sorted(self.keys)


def count_sentences(reply: str) -> int:
    """The sentences of a text, headings and an announcement left out."""
    text = re.sub(r"\b([ap])\.m\.(?=[,;:)]|\s+[a-z])", r"\1m", _body(reply))
    text = re.sub(r"\b([ap])\.m\.", r"\1m.", text)
    text = re.sub(r"(?<=\d)\.(?=\d)|^\s*\d+\.\s|\b(?:e\.g|i\.e|approx|vs)\.", "", text, flags=re.M)
    lines = [line.strip(' *_#>"”’') for line in text.splitlines() if not line.startswith("#")]
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


def _flat(reply: str) -> str:
    """The members of a JSON object as lines; any other reply as it is."""
    found = _json(reply)
    if found is None:
        return _body(reply)
    return "\n".join(f"{key}: {value}" for key, value in found.items())


def _json(reply: str) -> dict[str, object] | None:
    start, end = reply.find("{"), reply.rfind("}")
    try:
        found = json.loads(reply[start : end + 1])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def wording(constraints: Sequence[Constraint]) -> Text:
    """All constraints as one sentence."""
    return Text(
        "It must " + "; ".join(each.wording.en for each in constraints) + ".",
        "要求：" + "；".join(each.wording.zh for each in constraints) + "。",
    )
