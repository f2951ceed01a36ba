"""A dialogue about a drawing: three turns, their references in several styles, and their checks.

The creation turn needs the facts of turn 1 and the answer of turn 2 and nothing else, so that the
three conditions of ConvBench are nested.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from random import Random
from typing import Any

from images.drawn import boards, charts, checks, clocks, crowds, maps, receipts, shapes, stacks
from images.drawn.checks import check_note, wording
from images.drawn.reading import check_answer, check_facts
from images.drawn.truth import NO_UNIT, Dialogue, Draft, Drawing, Facts, Turn, Value, another
from images.drawn.words import TEXTS, Language, Text, joined

FAMILIES: dict[str, Callable[[Draft], Drawing]] = {
    module.__name__.rpartition(".")[2]: module.draw
    for module in (boards, charts, clocks, crowds, maps, receipts, shapes, stacks)
}
"""What makes a drawing of a draft."""
LEVELS = range(1, 11)
_WORDS: dict[str, Any] = TEXTS["dialogue"]


@dataclass(frozen=True, slots=True)
class Sample(Dialogue):
    """A drawing with a dialogue in one language."""

    drawing: Drawing


def draw(family: str, level: int, random: Random) -> Drawing:
    """A drawing of a family, of a level from 1 to 10."""
    return FAMILIES[family](Draft(family, level, random))


@lru_cache(maxsize=4096)
def draw_sample(family: str, level: int, seed: int, number: int, language: Language) -> Sample:
    """Sample `number` of a family, level and seed; its image is the same in both languages."""
    stream = f"drawn/{family}/{level}/{seed}/{number}"
    if (family, level) == ("shapes", 1):
        # two series that the model `pocket` was not trained on
        stream = f"scenes/{'scenes' if seed else 'demo'}/{seed}/{number}"
    random = Random(stream)
    drawing = draw(family, level, random)
    if drawing.script and language == "en":
        script = drawing.script
        return Sample(script.turns, script.caption, script.answer, script.demands, drawing)
    return _write_dialogue(drawing, level, random, language)


def _write_dialogue(drawing: Drawing, level: int, random: Random, language: Language) -> Sample:
    facts, problem = drawing.facts, drawing.problem
    answer = problem.answer
    picked = tuple(random.sample(facts, min(len(facts), 1 + level // 3)))
    is_json = level >= 3 and random.random() < 0.25
    length = 0 if is_json else 2 + level // 3
    avoided = random.choice(_WORDS["avoided"])
    style, reason = random.choice(STYLES), random.choice(_WORDS["reasoned"])
    ask = random.choice(_WORDS["creations"])
    rules = _rules(drawing, picked, level, length, avoided)

    def conclude(value: Value) -> str:
        said: str = reason.fill(steps=problem.steps, answer=value)[language]
        return said

    seen = Turn(
        "facts",
        drawing.question[language],
        STYLES[0](facts, language),
        style(facts, language),
        style(_with_mistake(facts, random), language),
        partial(check_facts, facts=facts, others=drawing.others),
        drawing.guess ** len(facts),
    )
    reasoned = Turn(
        problem.task,
        f"{problem.question[language]} {_WORDS['end'][language]}",
        answer[language],
        conclude(answer),
        conclude(another(answer, random)),
        partial(check_answer, answer=answer),
        problem.guess,
    )
    note = Turn(
        "note",
        ask.fill(what=wording(rules))[language],
        f"{STYLES[0](picked, language)}\n{answer[language]}",
        _note(picked, answer, length, language),
        _note(_with_mistake(picked, random), answer, length, language),
        partial(check_note, rules=rules),
    )
    demands = tuple(wording([rule])[language] for rule in rules)
    return Sample((seen, reasoned, note), seen.truth, answer[language], demands, drawing)


def _rules(
    drawing: Drawing, picked: Facts, level: int, length: int, avoided: Text
) -> list[checks.Rule]:
    """More sentences and rules at higher levels; no `length` means a JSON object."""
    answer, subjects = drawing.problem.answer, [fact.subject for fact in picked]
    rules = [checks.states(picked, answer), checks.gives(answer, drawing.facts)]
    if not length:
        return [*rules, checks.json_object([*(subject.en for subject in subjects), "answer"])]
    rules.append(checks.sentences(length))
    if level >= 4:
        rules.append(checks.avoids(avoided))
    if level >= 6 and len(picked) > 1:
        rules.append(checks.ordered(subjects))
    return rules


def _with_mistake(facts: Facts, random: Random) -> Facts:
    """The facts, one of them with another value."""
    changed = [*facts]
    place = random.randrange(len(changed))
    changed[place] = replace(changed[place], value=another(changed[place].value, random))
    return tuple(changed)


def _note(facts: Facts, value: Value, length: int, language: Language) -> str:
    """A note of `length` sentences, or a JSON object."""
    if not length:
        members = {fact.subject.en: fact.value[language] for fact in facts}
        return json.dumps({**members, "answer": value[language]}, ensure_ascii=False)
    said = [_WORDS["fact"].fill(name=fact.subject, value=fact.value) for fact in facts]
    note = [each.fill(facts=joined(said), answer=value) for each in _WORDS["note"][:length]]
    return ("" if language == "zh" else " ").join(sentence[language] for sentence in note)


def _rows(facts: Facts, language: Language, row: str, head: Text = NO_UNIT) -> str:
    rows = (row.format(fact.subject[language], fact.value[language]) for fact in facts)
    return head[language] + "\n".join(rows)


STYLES: tuple[Callable[[Facts, Language], str], ...] = (
    partial(_rows, row="{}: {}"),
    partial(_rows, row="- **{}**: {}"),
    partial(_rows, row="{}: {}", head=_WORDS["head"]),
)
"""How references state facts."""
