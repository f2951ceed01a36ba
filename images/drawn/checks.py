"""Rules of creation turns, each with its wording and its check; they need no image."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from images.drawn.reading import gives_answer, plain, statements
from images.drawn.truth import Check, Fact, Value
from images.drawn.words import TEXTS, Slot, Term, Text, find_terms, joined


@dataclass(frozen=True, slots=True)
class Rule:
    """What a creation must fulfil; `name` is what tables call it and what `texts.toml` words."""

    name: str
    holds: Callable[[str], bool]
    slots: Mapping[str, Slot]


def states(facts: Sequence[Fact], answer: Value | None = None) -> Rule:
    """Each subject gets its value; "in 40 minutes Lima shows 4:10" may name it with the answer."""

    def holds(reply: str) -> bool:
        right = set[str]()
        for name, value, is_true in statements(plain(reply), facts):
            if is_true:
                right.add(name)
            elif answer is None or not answer.accepts(value):
                return False
        return len(right) == len(facts)

    return Rule("facts", holds, {"names": joined([fact.subject for fact in facts])})


def gives(answer: Value, facts: Sequence[Fact] = ()) -> Rule:
    """The answer of the second turn comes before or after the facts."""
    return Rule("answer", lambda reply: gives_answer(reply, answer, facts), {})


def sentences(count: int) -> Rule:
    """A heading, or a first line that ends with a colon, is not a sentence."""
    return Rule("sentences", lambda reply: count_sentences(reply) == count, {"count": count})


def avoids(word: Text) -> Rule:
    """Neither language's word is in the text."""

    def holds(reply: str) -> bool:
        body = _body(reply).casefold()
        return not re.search(rf"\b{word.en}\b", body) and word.zh not in body

    return Rule("forbidden word", holds, {"word": word})


def ordered(subjects: Sequence[Term]) -> Rule:
    """The first mentions of the subjects are in order."""

    def holds(reply: str) -> bool:
        named = [str(each.value) for each in find_terms(subjects, plain(_body(reply)))]
        return [*dict.fromkeys(named)] == [subject.en for subject in subjects]

    return Rule("order", holds, {"names": joined(subjects)})


def json_object(keys: Sequence[str]) -> Rule:
    """The text is a JSON object with these keys; it may be in a code block."""

    def holds(reply: str) -> bool:
        try:
            found = json.loads(reply[reply.find("{") : reply.rfind("}") + 1])
        except ValueError:
            return False
        return isinstance(found, dict) and sorted(found) == sorted(keys)

    return Rule("JSON", holds, {"keys": ", ".join(f'"{key}"' for key in keys)})


def check_note(reply: str, rules: Sequence[Rule]) -> Check:
    """Check a creation; all rules but those of its content are its format."""
    missed = tuple(rule.name for rule in rules if not rule.holds(reply))
    share = 1 - len(missed) / len(rules)
    return Check("wrong" if missed else "right", share, {*missed} <= {"facts", "answer"}, missed)


def wording(rules: Sequence[Rule]) -> Text:
    """All rules as one sentence, which names subjects, never their values or the answer."""
    worded = [TEXTS["rules"][rule.name].fill(**rule.slots) for rule in rules]
    both = Text("; ".join(rule.en for rule in worded), "；".join(rule.zh for rule in worded))
    all_rules: Text = TEXTS["rules"]["all"].fill(rules=both)
    return all_rules


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
