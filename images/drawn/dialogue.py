"""A dialogue about a drawing: three turns, their references in several styles, and their checks.

The creation turn needs the facts of turn 1 and the answer of turn 2 and nothing else, so that the
three conditions of ConvBench are nested.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from random import Random

from images.drawn import boards, charts, clocks, crowds, maps, receipts, shapes, stacks
from images.drawn.checks import (
    Avoids,
    Constraint,
    Gives,
    JsonObject,
    Ordered,
    Sentences,
    States,
    check_note,
    wording,
)
from images.drawn.reading import Check, check_answer, check_facts
from images.drawn.script import Script, check_line, misname
from images.drawn.truth import NO_UNIT, Draft, Drawing, Fact, Value, another
from images.drawn.words import Language, Text, listed, text, texts

FAMILIES: dict[str, Callable[[Draft], Drawing]] = {
    "boards": boards.draw,
    "charts": charts.draw,
    "clocks": clocks.draw,
    "crowds": crowds.draw,
    "maps": maps.draw,
    "receipts": receipts.draw,
    "shapes": shapes.draw,
    "stacks": stacks.draw,
}
"""What makes a drawing of a draft."""
LEVELS = range(1, 11)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A drawing with a dialogue in one language; the third turn has `demands`."""

    drawing: Drawing
    turns: tuple[Turn, Turn, Turn]
    caption: str
    answer: str
    demands: tuple[str, ...]


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
        return _recite(drawing, drawing.script)
    return _write_dialogue(drawing, level, random, language)


def _recite(drawing: Drawing, script: Script) -> Sample:
    """A sample with the sentences of its script."""
    count = len(drawing.facts)
    # in turn 2 a verdict on each thing; the number at the end follows from them
    chances = drawing.guess**count, 0.5 ** len(script.turns[1].things), None
    first, second, third = (
        Turn(
            task=line.task,
            category=line.category,
            instruction=line.instruction,
            truth=line.reference,
            reference=line.reference,
            mistake=misname(line, drawing.others),
            check=partial(check_line, line=line),
            chance=chance,
        )
        for line, chance in zip(script.turns, chances, strict=True)
    )
    return Sample(
        drawing=drawing,
        turns=(first, second, third),
        caption=script.caption,
        answer=second.reference.rpartition(": ")[2].rstrip("."),
        demands=script.demands,
    )


def _write_dialogue(drawing: Drawing, level: int, random: Random, language: Language) -> Sample:
    facts, problem = drawing.facts, drawing.problem
    answer = problem.answer
    constraints, picked = _constraints(drawing, level, random)
    style, reason = random.choice(STYLES), random.choice(texts("dialogue", "reasoned"))
    ask = random.choice(texts("dialogue", "creations")).fill(what=wording(constraints))

    def conclude(value: Value) -> str:
        return reason.fill(steps=problem.steps, answer=value)[language]

    def create(facts: Sequence[Fact]) -> str:
        return _created(answer, constraints, facts, language)

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
        f"{problem.question[language]} {text('dialogue', 'end')[language]}",
        answer[language],
        conclude(answer),
        conclude(another(answer, random)),
        partial(check_answer, answer=answer),
        problem.guess,
    )
    note = Turn(
        "note",
        ask[language],
        f"{STYLES[0](picked, language)}\n{answer[language]}",
        create(picked),
        create(_with_mistake(picked, random)),
        partial(check_note, constraints=constraints),
    )
    return Sample(
        drawing=drawing,
        turns=(seen, reasoned, note),
        caption=STYLES[0](facts, language),
        answer=answer[language],
        demands=tuple(wording((each,))[language] for each in constraints),
    )


def _with_mistake(facts: Sequence[Fact], random: Random) -> tuple[Fact, ...]:
    """The facts, one of them with another value."""
    changed = [*facts]
    place = random.randrange(len(changed))
    changed[place] = replace(changed[place], value=another(changed[place].value, random))
    return tuple(changed)


def _constraints(
    drawing: Drawing, level: int, random: Random
) -> tuple[tuple[Constraint, ...], tuple[Fact, ...]]:
    """More facts, sentences and rules at higher levels; and the facts to be named."""
    count = min(len(drawing.facts), 1 + level // 3)
    picked = tuple(random.sample(drawing.facts, count))
    answer = drawing.problem.answer
    content: list[Constraint] = [States(picked, answer), Gives(answer, drawing.facts)]
    is_json = level >= 3 and random.random() < 0.25
    avoided = random.choice(texts("dialogue", "avoided"))
    if is_json:
        keys = (*(fact.subject.en for fact in picked), "answer")
        return (*content, JsonObject(keys)), picked
    content.append(Sentences(2 + level // 3))
    if level >= 4:
        content.append(Avoids(avoided))
    if level >= 6 and count > 1:
        content.append(Ordered(tuple(fact.subject for fact in picked)))
    return tuple(content), picked


def _created(
    value: Value, constraints: Sequence[Constraint], picked: Sequence[Fact], language: Language
) -> str:
    answer = value[language]
    if any(isinstance(each, JsonObject) for each in constraints):
        pairs = [f'"{fact.subject.en}": "{fact.value[language]}"' for fact in picked]
        return "{" + ", ".join([*pairs, f'"answer": "{answer}"']) + "}"
    fact_text = text("dialogue", "fact")
    stated = [fact_text.fill(name=fact.subject, value=fact.value) for fact in picked]
    facts = listed([each[language] for each in stated], language)
    count = next(each.count for each in constraints if isinstance(each, Sentences))
    sentences = [
        sentence.fill(facts=facts, answer=answer)[language]
        for sentence in texts("dialogue", "note")[:count]
    ]
    return ("" if language == "zh" else " ").join(sentences)


def _rows(facts: Sequence[Fact], language: Language, row: str, head: Text = NO_UNIT) -> str:
    rows = (row.format(fact.subject[language], fact.value[language]) for fact in facts)
    return head[language] + "\n".join(rows)


STYLES: tuple[Callable[[Sequence[Fact], Language], str], ...] = (
    partial(_rows, row="{}: {}"),
    partial(_rows, row="- **{}**: {}"),
    partial(_rows, row="{}: {}", head=text("dialogue", "head")),
)
"""How references state facts."""
