"""What the candidate is asked under each condition, and what stands in its history."""

from __future__ import annotations

import pytest
from mmconv.benchmarks.convbench.chains import candidate_calls

from mmconv.benchmarks.convbench.options import CONDITIONS
from mmconv.core.graph import check, resolve
from mmconv.core.types import Reply, Sampling
from tests.mmconv.benchmarks.convbench.rows import PICTURE, ROW, texts

OWN = {f"turn_{number}": Reply(text=f"own {number}") for number in (1, 2, 3)}


@pytest.mark.parametrize(
    ("condition", "asked"),
    [
        ("free", ["turn_1", "turn_2", "turn_3"]),
        ("perception", ["turn_2", "turn_3"]),
        ("reasoning", ["turn_3"]),
        ("reasoning_alone", ["turn_2"]),
        ("creation_alone", ["turn_3"]),
    ],
)
def test_a_condition_asks_the_turns_that_are_not_given(condition: str, asked: list[str]) -> None:
    calls = candidate_calls(ROW, condition, Sampling())
    assert [call.id for call in check(calls)] == asked


@pytest.mark.parametrize(
    ("condition", "history"),
    [
        ("free", ["own 1", "own 2"]),
        ("perception", ["A kite.", "own 2"]),
        ("reasoning", ["A kite.", "For fun."]),
    ],
)
def test_the_history_of_the_last_turn(condition: str, history: list[str]) -> None:
    last = candidate_calls(ROW, condition, Sampling())[-1]
    assert texts(resolve(last.messages, OWN)) == [
        ("user", "What is it?"),
        ("assistant", history[0]),
        ("user", "Why?"),
        ("assistant", history[1]),
        ("user", "Write a slogan."),
    ]


def test_alone_means_one_instruction_with_the_picture() -> None:
    [call] = candidate_calls(ROW, "creation_alone", Sampling())
    assert texts(call.messages) == [("user", "Write a slogan.")]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_picture_is_shown_once_in_the_first_message(condition: str) -> None:
    for call in candidate_calls(ROW, condition, Sampling(), system="Be brief."):
        assert texts(call.messages[:1]) == [("system", "Be brief.")]
        shown = [message.parts.count(PICTURE) for message in call.messages]
        assert shown == [0, 1] + [0] * (len(shown) - 2)
