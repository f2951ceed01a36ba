"""A dialogue about a drawing: three turns, their references in several styles, and their checks.

The creation turn needs the facts of turn 1 and the answer of turn 2 and nothing else, so that the
three conditions of ConvBench are nested.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from random import Random

from images.drawn.boards import Boards
from images.drawn.canvas import png
from images.drawn.charts import Charts
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
from images.drawn.clocks import Clocks
from images.drawn.crowds import Crowds
from images.drawn.maps import Maps
from images.drawn.reading import Outcome, follows_format, read_answer, read_facts
from images.drawn.receipts import Receipts
from images.drawn.stacks import Stacks
from images.drawn.truth import Fact, Family, Truth
from images.drawn.words import Language, Text, listed

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (Boards(), Charts(), Clocks(), Crowds(), Maps(), Receipts(), Stacks())
}
LEVELS = range(1, 11)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What is asked, and a right answer."""

    task: str
    instruction: str
    reference: str


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
    constraints: tuple[Constraint, ...]

    def chance(self, turn: int) -> float | None:
        """How often a guess of the right kind is right: of all facts, or the answer."""
        if turn == 1:
            return self.truth.guess ** len(self.truth.facts)
        return self.truth.problem.guess if turn == 2 else None

    def check(self, turn: int, reply: str) -> Check:
        """Check the reply to a turn, 1 to 3."""
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
    random = Random(f"drawn/{family}/{level}/{seed}/{number}")
    drawing = FAMILIES[family].draw(random, level)
    truth = Truth(**{field.name: getattr(drawing, field.name) for field in fields(Truth)})
    return write_dialogue(png(drawing.image), truth, level, random, language)


def write_dialogue(
    image: bytes, truth: Truth, level: int, random: Random, language: Language
) -> Sample:
    """The three turns about a drawing."""
    problem = truth.problem
    constraints, picked = _constraints(truth, level, random)
    seen = random.choice(STYLES[:3])(truth.facts, language)
    reasoned = random.choice(_REASONED).fill(steps=problem.steps, answer=_both(truth))
    created = _created(truth, constraints, picked, language)
    ask = random.choice(_CREATIONS).fill(what=wording(constraints))
    return Sample(
        truth=truth,
        png=image,
        turns=(
            Turn(task="facts", instruction=truth.question[language], reference=seen),
            Turn(
                task=problem.task,
                instruction=f"{problem.question[language]} {_END[language]}",
                reference=reasoned[language],
            ),
            Turn(task="note", instruction=ask[language], reference=created),
        ),
        constraints=constraints,
    )


_END = Text(
    "Explain in at most three sentences and end with a line “Answer: ...”.",
    "请用不超过三句话说明，最后一行写“答案: ...”。",
)
_REASONED = (
    Text("{steps}\nAnswer: {answer}", "{steps}\n答案: {answer}"),
    Text(
        "{steps} Therefore it is {answer}.\nAnswer: {answer}",
        "{steps}因此是{answer}。\n答案: {answer}",
    ),
    Text(
        "Going through what I noted: {steps}\nAnswer: {answer}",
        "根据前面的记录：{steps}\n答案: {answer}",
    ),
)
_CREATIONS = (
    Text(
        "Write a short note on this for a colleague. {what}", "请就此给同事写一段简短的留言。{what}"
    ),
    Text(
        "Now write a brief message that sums this up. {what}", "现在写一段简短的消息作总结。{what}"
    ),
)
_AVOIDED = (Text("image", "图片"), Text("also", "也"), Text("shows", "显示"), Text("total", "总共"))


def _both(truth: Truth) -> Text:
    answer = truth.problem.answer
    return Text(answer.say("en"), answer.say("zh"))


def _constraints(
    truth: Truth, level: int, random: Random
) -> tuple[tuple[Constraint, ...], tuple[Fact, ...]]:
    """More facts, sentences and rules at higher levels; and the facts to be named."""
    count = min(len(truth.facts), 1 + level // 3)
    picked = tuple(random.sample(truth.facts, count))
    content: list[Constraint] = [States(picked), Gives(truth.problem.answer)]
    is_json, avoided = level >= 3 and random.random() < 0.25, random.choice(_AVOIDED)
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
    truth: Truth, constraints: Sequence[Constraint], picked: Sequence[Fact], language: Language
) -> str:
    answer = truth.problem.answer.say(language)
    if any(isinstance(each, JsonObject) for each in constraints):
        pairs = [f'"{fact.subject.en}": "{fact.value.say(language)}"' for fact in picked]
        return "{" + ", ".join([*pairs, f'"answer": "{answer}"']) + "}"
    facts = listed([_stated(fact, language) for fact in picked], language)
    count = next(each.count for each in constraints if isinstance(each, Sentences))
    first = Text("I noted {facts}.", "我记下了{facts}。").fill(facts=facts)
    second = Text("My conclusion is {answer}.", "我的结论是{answer}。").fill(answer=answer)
    sentences = [first, second, *_FILLERS][:count]
    return ("" if language == "zh" else " ").join(each[language] for each in sentences)


_FILLERS = (
    Text("Please keep this message.", "请保存这条消息。"),
    Text("I will check again tomorrow.", "我明天再核对一次。"),
    Text("Call me if anything is unclear.", "如有不清楚请给我打电话。"),
)


def _stated(fact: Fact, language: Language) -> str:
    if language == "zh":
        return f"{fact.subject.zh}为{fact.value.say(language)}"
    return f"{fact.subject.en} at {fact.value.say(language)}"


def _lines(facts: Sequence[Fact], language: Language) -> str:
    return "\n".join(f"{fact.subject[language]}: {fact.value.say(language)}" for fact in facts)


def _bullets(facts: Sequence[Fact], language: Language) -> str:
    return "\n".join(
        f"- **{fact.subject[language]}**: {fact.value.say(language)}" for fact in facts
    )


def _table(facts: Sequence[Fact], language: Language) -> str:
    head = (
        "| 名称 | 值 |\n| --- | --- |\n"
        if language == "zh"
        else "| name | value |\n| --- | --- |\n"
    )
    return head + "\n".join(
        f"| {fact.subject[language]} | {fact.value.say(language)} |" for fact in facts
    )


def _prose(facts: Sequence[Fact], language: Language) -> str:
    end = "。" if language == "zh" else "."
    return f"{listed([_stated(fact, language) for fact in facts], language)}{end}"


def _announced(facts: Sequence[Fact], language: Language) -> str:
    first = "我从图中读出：" if language == "zh" else "This is what I read:"
    return f"{first}\n\n{_lines(facts, language)}"


STYLES = (_lines, _bullets, _announced, _table, _prose)
"""How a reply can state facts; references are in one of the first three."""
_LISTED = re.compile(r"^.*[^:：\n][:：]\**[^\S\n]*\S.*$", re.MULTILINE)
"""A line "label: value"."""
