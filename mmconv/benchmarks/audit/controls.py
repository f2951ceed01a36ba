"""The controls of an audit: which answers are right, and in what they differ from each other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mmconv.benchmarks.options import Condition
from mmconv.core.keys import hash_json

RIGHT, WRONG, ALTERNATING, OPPOSITE = "right", "wrong", "alternating", "opposite"
LONGER, REPEAT, SECOND = "longer", "repeat", "second"
PARAPHRASE, SHORTER = "paraphrase", "shorter"

REWRITTEN = (PARAPHRASE, SHORTER)
"""The controls whose answers the model `paraphraser` writes, each by its prompt."""

CONTROLS = (
    Condition(RIGHT, "All answers are references. Of a pair, both sides are the same."),
    Condition(WRONG, "All answers are known to be wrong."),
    Condition(ALTERNATING, "Right and wrong answers in turn; half of the samples begin right."),
    Condition(OPPOSITE, "Right answers where alternating has wrong ones, and the reverse."),
    Condition(LONGER, "As alternating; words without content make each answer twice as long."),
    Condition(REPEAT, "As alternating, requested again."),
    Condition(PARAPHRASE, "References in the words of the model `paraphraser`."),
    Condition(SHORTER, "As alternating, in fewer words of the model `paraphraser`."),
    Condition(SECOND, "As alternating, judged by the model `second`."),
)

CHINESE = re.compile(r"[\u4e00-\u9fff]")

PADDING = (
    "I have read this with care and thought about it before answering. What I say here is my "
    "answer, given as well as I can, and I hope that it is of use. ",
    "我认真读过这个问题，并在回答之前仔细想过。以下就是我的回答，我已尽力把它说清楚，希望对你有所帮助。",
)
"""What makes an answer longer without saying more: in English and in Chinese."""


def are_right(control: str, sample: str, count: int) -> tuple[bool, ...]:
    """Whether each of a sample's answers is right under a control."""
    if control in (RIGHT, PARAPHRASE):
        return (True,) * count
    if control == WRONG:
        return (False,) * count
    begins_right = (int(hash_json(sample)[:8], 16) % 2 == 0) != (control == OPPOSITE)
    return tuple((place % 2 == 0) == begins_right for place in range(count))


def describe_state(states: Sequence[bool]) -> str:
    """`right` or `wrong` if all these answers are, else `mixed`."""
    if len({*states}) == 1:
        return RIGHT if states[0] else WRONG
    return "mixed"


def lengthen(text: str) -> str:
    """The answer, twice as long: words without content go before it."""
    padding = PADDING[bool(CHINESE.search(text))]
    filler = (padding * (len(text) // len(padding) + 1))[: len(text)]
    return f"{filler.rstrip()} {text}"
