"""A dialogue about a drawing: three turns, their references in several styles, and their checks.

The creation turn needs the facts of turn 1 and the answer of turn 2 and nothing else, so that the
three conditions of ConvBench are nested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from random import Random

from images.drawn import boards, charts, clocks, crowds, maps, receipts, shapes, stacks
from images.drawn.canvas import png
from images.drawn.checks import (
    Avoids,
    Constraint,
    Gives,
    JsonObject,
    Ordered,
    Sentences,
    States,
    wording,
)
from images.drawn.reading import Outcome, follows_format, read_answer, read_facts
from images.drawn.truth import NO_UNIT, Fact, Family, Truth, Value, another, text, texts
from images.drawn.words import Language, Text, listed
from images.scenes import Dialogue, check, facts_of, falsify

FAMILIES: dict[str, Family] = {
    "boards": boards.draw,
    "charts": charts.draw,
    "clocks": clocks.draw,
    "crowds": crowds.draw,
    "maps": maps.draw,
    "receipts": receipts.draw,
    "shapes": shapes.draw,
    "stacks": stacks.draw,
}
LEVELS = range(1, 11)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What is asked, the truth about it, a right answer, and one with a fact changed."""

    task: str
    instruction: str
    truth: str
    reference: str
    mistake: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Whether a reply is right, its share of right facts or constraints, and its format.

    `missed` are the facts and constraints that it fails.
    """

    outcome: Outcome
    share: float
    format_kept: bool
    missed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A drawing with a dialogue in one language."""

    png: bytes
    truth: Truth
    turns: tuple[Turn, Turn, Turn]
    constraints: tuple[Constraint, ...] = ()
    script: Dialogue | None = None
    """The dialogue, if it is one of `images.scenes`, which has its own checker."""

    def chance(self, turn: int) -> float | None:
        """How often a guess of the right kind is right: of all facts, or the answer."""
        if turn == 2 and self.script:
            # a verdict on each thing; the number at the end follows from them
            return 0.5 ** (len(facts_of(self.turns[1].reference)) - 1)
        if turn == 1:
            return self.truth.guess ** len(self.truth.facts)
        return self.truth.problem.guess if turn == 2 else None

    def check(self, turn: int, reply: str) -> Check:
        """Check the reply to a turn, 1 to 3."""
        if self.script:
            return _check_sentences(self.turns[turn - 1], reply)
        if turn == 1:
            reading = read_facts(reply, self.truth.facts, self.truth.others)
            missed = (*reading.wrong, *reading.missing, *reading.extra)
            kept = len(_LISTED.findall(reply)) == len(self.truth.facts)
            return Check(
                outcome=reading.outcome, share=reading.share, format_kept=kept, missed=missed
            )
        if turn == 2:
            outcome = read_answer(reply, self.truth.problem.answer)
            right = outcome == "right"
            kept = follows_format(reply)
            return Check(
                outcome=outcome,
                share=float(right),
                format_kept=kept,
                missed=() if right else ("answer",),
            )
        missed = tuple(each.name for each in self.constraints if not each.holds(reply))
        share = 1 - len(missed) / len(self.constraints)
        content = {"facts", "answer"} & set(missed)
        outcome = "wrong" if missed else "right"
        kept = len(content) == len(missed)
        return Check(outcome=outcome, share=share, format_kept=kept, missed=missed)


@lru_cache(maxsize=4096)
def draw_sample(family: str, level: int, seed: int, number: int, language: Language) -> Sample:
    """Sample `number` of a family, level and seed; its image is the same in both languages."""
    stream = f"drawn/{family}/{level}/{seed}/{number}"
    if (family, level) == ("shapes", 1):
        # two series that the model `pocket` was not trained on
        stream = f"scenes/{'scenes' if seed else 'demo'}/{seed}/{number}"
    random = Random(stream)
    drawing = FAMILIES[family](random, level)
    truth = Truth(**{field.name: getattr(drawing, field.name) for field in fields(Truth)})
    if drawing.script and language == "en":
        return _recite(png(drawing.image), truth, drawing.script)
    return write_dialogue(png(drawing.image), truth, level, random, language)


def _recite(image: bytes, truth: Truth, script: Dialogue) -> Sample:
    """A sample with the dialogue of `images.scenes`."""
    first, second, third = (
        Turn(
            task=turn.task,
            instruction=turn.instruction,
            truth=turn.reference,
            reference=turn.reference,
            mistake=falsify(turn.reference, turn.instruction),
        )
        for turn in script.turns
    )
    return Sample(png=image, truth=truth, turns=(first, second, third), script=script)


def _check_sentences(turn: Turn, reply: str) -> Check:
    """Check a reply of `images.scenes`, whose instructions want no format."""
    result = check(reply, turn.reference, turn.instruction)
    is_read = bool(facts_of(reply))
    return Check(
        outcome="right" if result.exact else "wrong" if is_read else "unread",
        share=result.share,
        format_kept=is_read,
        missed=(*result.missing, *result.wrong),
    )


def write_dialogue(
    image: bytes, truth: Truth, level: int, random: Random, language: Language
) -> Sample:
    """The three turns about a drawing."""
    problem, answer = truth.problem, truth.problem.answer
    constraints, picked = _constraints(truth, level, random)
    style, reason = random.choice(STYLES), random.choice(texts("dialogue", "reasoned"))
    ask = random.choice(texts("dialogue", "creations")).fill(what=wording(constraints))

    def conclude(value: Value) -> str:
        return reason.fill(steps=problem.steps, answer=_both(value))[language]

    def create(facts: Sequence[Fact]) -> str:
        return _created(answer, constraints, facts, language)

    return Sample(
        truth=truth,
        png=image,
        turns=(
            Turn(
                task="facts",
                instruction=truth.question[language],
                truth=STYLES[0](truth.facts, language),
                reference=style(truth.facts, language),
                mistake=style(_with_mistake(truth.facts, random), language),
            ),
            Turn(
                task=problem.task,
                instruction=f"{problem.question[language]} {text('dialogue', 'end')[language]}",
                truth=answer.say(language),
                reference=conclude(answer),
                mistake=conclude(another(answer, random)),
            ),
            Turn(
                task="note",
                instruction=ask[language],
                truth=f"{STYLES[0](picked, language)}\n{answer.say(language)}",
                reference=create(picked),
                mistake=create(_with_mistake(picked, random)),
            ),
        ),
        constraints=constraints,
    )


def _with_mistake(facts: Sequence[Fact], random: Random) -> tuple[Fact, ...]:
    """The facts, one of them with another value."""
    changed = [*facts]
    place = random.randrange(len(changed))
    changed[place] = replace(changed[place], value=another(changed[place].value, random))
    return tuple(changed)


def _constraints(
    truth: Truth, level: int, random: Random
) -> tuple[tuple[Constraint, ...], tuple[Fact, ...]]:
    """More facts, sentences and rules at higher levels; and the facts to be named."""
    count = min(len(truth.facts), 1 + level // 3)
    picked = tuple(random.sample(truth.facts, count))
    content: list[Constraint] = [States(picked), Gives(truth.problem.answer, truth.facts)]
    is_json, avoided = (
        level >= 3 and random.random() < 0.25,
        random.choice(texts("dialogue", "avoided")),
    )
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
    answer = value.say(language)
    if any(isinstance(each, JsonObject) for each in constraints):
        pairs = [f'"{fact.subject.en}": "{fact.value.say(language)}"' for fact in picked]
        return "{" + ", ".join([*pairs, f'"answer": "{answer}"']) + "}"
    facts = listed([_stated(fact, language) for fact in picked], language)
    count = next(each.count for each in constraints if isinstance(each, Sentences))
    slots = {"facts": facts, "answer": answer}
    sentences = [sentence.fill(**slots) for sentence in texts("dialogue", "note")[:count]]
    return ("" if language == "zh" else " ").join(each[language] for each in sentences)


def _stated(fact: Fact, language: Language) -> str:
    words = text("dialogue", "fact").fill(name=fact.subject, value=_both(fact.value))
    return words[language]


def _both(value: Value) -> Text:
    return Text(value.say("en"), value.say("zh"))


def _rows(facts: Sequence[Fact], language: Language, row: str, head: Text = NO_UNIT) -> str:
    rows = (row.format(fact.subject[language], fact.value.say(language)) for fact in facts)
    return head[language] + "\n".join(rows)


STYLES: tuple[Callable[[Sequence[Fact], Language], str], ...] = (
    partial(_rows, row="{}: {}"),
    partial(_rows, row="- **{}**: {}"),
    partial(_rows, row="{}: {}", head=text("dialogue", "head")),
)
"""How references state facts."""
_LISTED = re.compile(r"^.*[^:：\n][:：]\**[^\S\n]*\S.*$", re.MULTILINE)
"""A line "label: value"."""
