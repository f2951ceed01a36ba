"""An oracle that answers from the truth is right at every level, however it words its answers."""

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import TypeAlias

import pytest

from images.drawn import FAMILIES, LANGUAGES, LEVELS, draw_sample
from images.drawn.dialogue import STYLES
from images.drawn.truth import Fact
from images.drawn.words import Language, listed

FEW = 2
"""Samples of each family, level and language."""


def rows(
    facts: Sequence[Fact], language: Language, *, row: str, head: str = "", tail: str = ""
) -> str:
    lines = [row.format(fact.subject[language], fact.value[language]) for fact in facts]
    return f"{head}{''.join(lines)}{tail}"


def as_json(facts: Sequence[Fact], language: Language) -> str:
    members = {fact.subject[language]: fact.value[language] for fact in facts}
    return f"```json\n{json.dumps(members, indent=2, ensure_ascii=False)}\n```"


def as_records(facts: Sequence[Fact], language: Language) -> str:
    return json.dumps(
        [{"label": fact.subject[language], "value": fact.value[language]} for fact in facts]
    )


def prose(facts: Sequence[Fact], language: Language) -> str:
    at = "{}为{}" if language == "zh" else "{} at {}"
    stated = [at.format(fact.subject[language], fact.value[language]) for fact in facts]
    return f"{listed(stated, language)}{'。' if language == 'zh' else '.'}"


Style: TypeAlias = Callable[[Sequence[Fact], Language], str]
MORE_STYLES: tuple[Style, ...] = (
    prose,
    as_json,
    as_records,
    partial(
        rows, row="{}: **{}**\n", head="Sure! Here is what I see:\n\n", tail="\nHope it helps!"
    ),
    partial(rows, row="* **{}** → {}\n", head="<think>Perhaps 1 or 2.</think>\n"),
    partial(rows, row="{} = {}; "),
    partial(rows, row="The value for {} is {}. "),
    partial(rows, row="| {} | {} |\n", head="| | |\n|---|---|\n"),
    partial(rows, row="**{}**\n- {}\n\n"),
    partial(
        rows, row="\\text{{{}}} &: {} \\\\\n", head="\\begin{aligned}\n", tail="\\end{aligned}"
    ),
)
ENDINGS = (
    "Answer: {}",
    "I looked at this carefully.\n\n**Answer:** {}",
    "**Final answer: {}**",
    "So the answer is {}.",
    "Therefore\n\\[ \\boxed{{\\text{{{}}}}} \\]",
    "Answer:\n{}.",
    "因此答案是{}。",
    "**答案：** {}",
    '{{"answer": "{}"}}',
)


@pytest.mark.parametrize(("family", "language"), list(product(FAMILIES, LANGUAGES)))
def test_an_oracle_is_right_in_every_phrasing(family: str, language: Language) -> None:
    for level, number in product(LEVELS, range(FEW)):
        sample = draw_sample(family, level, 0, number, language)
        for turn in sample.turns:
            assert turn.check(turn.reference).outcome == "right", turn
        if sample.drawing.script and language == "en":  # its sentences have one phrasing
            continue
        for style in (*STYLES, *MORE_STYLES):
            reply = style(sample.drawing.facts, language)
            assert sample.turns[0].check(reply).share == 1.0, reply
        said = sample.drawing.problem.answer[language]
        for ending in ENDINGS:
            reply = ending.format(said)
            assert sample.turns[1].check(reply).outcome == "right", (reply, sample.turns[1])


@pytest.mark.parametrize(("family", "language"), list(product(FAMILIES, LANGUAGES)))
def test_creation_needs_only_the_dialogue_before_it(family: str, language: Language) -> None:
    """The note is written from the text of the turns, without the image or the truth."""
    for level, number in product(LEVELS, range(FEW)):
        sample = draw_sample(family, level, 0, number, language)
        if (
            sample.drawing.script and language == "en"
        ):  # its third turn asks for all that the first two name
            continue
        seen, reasoned, note = sample.turns
        reply = write_note(seen.reference, reasoned.reference, note.instruction, language)
        assert note.check(reply).outcome == "right", (note.instruction, reply)


def write_note(seen: str, reasoned: str, instruction: str, language: Language) -> str:
    """A note as the instruction wants it, of what the first two turns say."""
    lines = [line.strip("- ").split(": ", 1) for line in seen.splitlines() if ": " in line]
    known = {name.strip("*"): value for name, value in lines}
    answer = re.split(r"(?:Answer|答案): ", reasoned)[-1]
    if wanted := re.search(r'(?:exactly the keys|只有这些键：) ?("[^.。]*")', instruction):
        keys = json.loads(f"[{wanted[1]}]")
        by_place = dict(
            zip(keys, [known[name] for name in named(instruction, language)], strict=False)
        )
        return json.dumps({**by_place, "answer": answer}, ensure_ascii=False)
    facts = [f"{name}: {known[name]}" for name in named(instruction, language)]
    stop, count = ("。", r"正好有(\d)句") if language == "zh" else (". ", r"exactly (\d) sentences")
    matched = re.search(count, instruction)
    assert matched
    sentences = ["; ".join(facts), f"= {answer}", *["Bye", "Thanks", "Yours"]]
    return stop.join([*sentences[: int(matched[1])], ""]).strip()


def named(instruction: str, language: Language) -> list[str]:
    """The subjects that the note must state, in order."""
    pattern = "写出你在第一轮得到的(.*?)的信息" if language == "zh" else "state for (.*?) what you"
    matched = re.search(pattern, instruction)
    assert matched
    return re.split("、|和" if language == "zh" else ", | and ", matched[1])
