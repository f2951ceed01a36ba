"""What the judge reads: whole requests for every task, and what every prompt must say."""

import pytest

from judges.parsers.mtbench101 import bracketed_rating, first_bracketed_integer
from judges.template import PromptSet
from mmconv.benchmarks.mtbench101 import REFERENCED, TASKS
from mmconv.core.types import Text
from tests.mmconv.benchmarks.mtbench101.regenerate import GOLDEN, last_judgement


@pytest.mark.parametrize("task", TASKS)
def test_golden(task: str) -> None:
    golden = (GOLDEN / f"{task}.txt").read_text(encoding="utf-8")
    assert last_judgement(task) == golden, (
        "run `python -m tests.mmconv.benchmarks.mtbench101.regenerate` and read the diff"
    )


def test_no_golden_file_is_left_over() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == set(TASKS)


@pytest.mark.parametrize("task", TASKS)
def test_the_example_of_the_closing_line_is_read_by_both_readings(task: str) -> None:
    request = last_judgement(task)
    [line] = [line for line in request.splitlines() if "For example: " in line]
    example = line.partition("For example: ")[2]
    assert bracketed_rating(example).scores == first_bracketed_integer(example).scores


@pytest.mark.parametrize("task", TASKS)
def test_every_level_of_the_guidelines_is_there(task: str) -> None:
    text = _text(f"guidelines_{task}")
    levels = [line.partition(":")[0] for line in text.splitlines() if line.startswith("- ")]
    assert levels == ["- 1-3", "- 4-6", "- 7-9", "- 10"]


@pytest.mark.parametrize("task", TASKS)
def test_criteria_are_numbered_and_speak_of_a_reference_where_there_is_one(task: str) -> None:
    text = _text(f"criteria_{task}")
    numbers = [line[:2] for line in text.splitlines() if line[:1].isdigit()]
    assert numbers == [f"{number}." for number in range(1, len(numbers) + 1)]
    assert len(numbers) >= 2
    assert ("reference solution" in text) == (task in REFERENCED)


def _text(name: str) -> str:
    [message] = PromptSet("mtbench101")[name].fill({})
    [part] = message.parts
    assert isinstance(part, Text)
    return part.text
