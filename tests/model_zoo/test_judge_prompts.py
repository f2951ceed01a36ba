"""The prompts of judges that are no models: read back as they were filled, lots drawn fairly."""

from __future__ import annotations

import pytest

from judges.template import PromptSet
from mmconv.core.types import Message, Text
from model_zoo.simulated.common import Task, draw_side, read_task

PROMPTS = PromptSet("convbench_reference")
JUDGED = [name for name in PROMPTS.names if "_turn_" in name or "_overall" in name]


@pytest.mark.parametrize("name", [name for name in JUDGED if "skipped" not in name])
def test_a_filled_prompt_is_read_back(name: str) -> None:
    prompt = PROMPTS[name]
    values = {slot: f"first line of {slot}\nsecond line" for slot in prompt.slots}
    task = read_task(prompt.fill(values))
    assert task.texts == values
    assert task.grading == name.partition("_")[0]
    number = next((letter for letter in name if letter.isdecimal()), None)
    assert task.turns == ((int(number),) if number else (1, 2, 3))


def test_other_messages_are_no_task() -> None:
    with pytest.raises(ValueError, match="no system message"):
        read_task([Message(role="user", parts=(Text(text="caption\nx"),))])


def drawn(a: str, b: str) -> str:
    return draw_side(Task(grading="pairwise", turns=(1,), texts={"a_1": a, "b_1": b}))


def test_swapping_the_sides_swaps_the_lot() -> None:
    for number in range(20):
        assert {drawn(f"{number}", "x"), drawn("x", f"{number}")} == {"A", "B"}


def test_identical_texts_fall_to_either_side() -> None:
    lots = [drawn(f"{number}", f"{number}") for number in range(200)]
    assert 70 <= lots.count("A") <= 130
