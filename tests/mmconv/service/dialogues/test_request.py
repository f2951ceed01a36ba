"""The requests of dialogues that are valid, and the field that is wrong with those that are not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from mmconv.service.dialogue_run import DialogueRequest
from tests.mmconv.service.dialogues.samples import DOCUMENT, TURNS, request

SHOWN = TURNS[0] | {"images": ["image:" + "cd" * 32]}
LATE = [TURNS[0], TURNS[1] | {"images": ["image:" + "cd" * 32]}, TURNS[2]]
BARE = [{"instruction": "What is it?"}, {"instruction": "Why?"}]


def test_conditions_are_numbers_of_given_turns() -> None:
    asked = request(conditions=["reasoning", "free", 1])
    assert asked.given == (0, 1, 2)


def test_the_least_that_can_be_asked() -> None:
    asked = DialogueRequest.model_validate({"model": "m", "turns": BARE[:1]})
    assert asked.given == (0,)
    assert asked.judge is None
    assert list(asked.faults()) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"conditions": ["free", 0]}, "conditions"),
        ({"conditions": ["free", 3]}, "conditions[1]"),
        ({"turns": BARE, "conditions": ["free", 1]}, "turns[0].reference"),
        ({"judge": None, "gradings": ["direct"], "caption": None}, "judge"),
        ({"caption": None}, "caption"),
        ({"images": [], "judge_sees_images": True}, "judge_sees_images"),
        (
            {"turns": [*TURNS[:2], BARE[1]], "gradings": ["pairwise"]},
            "turns[2].reference",
        ),
        ({"prompts": "convbench", "images": []}, "images"),
        ({"images": [], "turns": LATE, "caption": None}, "caption"),
        ({"prompts": "convbench", "turns": LATE}, "turns[1].images"),
        ({"prompts": "convbench", "turns": [SHOWN, *TURNS[1:]]}, "images"),
        ({"prompts": "convbench", "turns": TURNS[:2], "conditions": ["free"]}, "turns"),
        (
            {"prompts": "convbench", "caption": None, "judge_sees_images": True},
            "caption",
        ),
        (
            {
                "prompts": "convbench",
                "turns": [TURNS[0], {**TURNS[1], "focus_points": "x"}, TURNS[2]],
            },
            "turns[1].focus_points",
        ),
    ],
)
def test_the_field_to_blame_is_named(change: dict[str, Any], field: str) -> None:
    assert field in [where for where, _ in request(**change).faults()]


@pytest.mark.parametrize(
    "change",
    [
        {"conditions": ["best"]},
        {"conditions": [-1]},
        {"conditions": ["1"]},
        {"conditions": []},
        {"turns": []},
        {"turns": [{"instruction": ""}]},
        {"sampling": {"max_tokens": 0}},
        {"colour": "red"},
    ],
)
def test_types_are_strict(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        DialogueRequest.model_validate({**DOCUMENT, **change})
