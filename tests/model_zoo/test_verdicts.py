"""Made-up verdicts: each form is the one that was asked for, and can be read by its parser."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pytest

from judges import parsers
from judges.parsers.botchat import HUMAN, UniEvalParser, comparison
from judges.parsers.cmteval import turn_scores
from judges.parsers.fbbench import ChecklistParser, Criterion, draw_form, draw_schema
from judges.parsers.mtbench101 import bracketed_rating
from mmconv.core.types import Parser
from model_zoo.simulated.verdicts import Scale, obey, verdict

CHECKLIST = (Criterion(text="a", weight=0.3), Criterion(text="b", weight=0.7))
SCALE = Scale(lowest=1, highest=10, choices=("A", "B"))
TALK = "Conversation:\nA: Hi.<chat_end>\nB: Hello.<chat_end>\nA: So?<chat_end>"

ASKED: dict[str, tuple[str, Parser]] = {
    "a rating": ("Close with 'Rating: n'.", parsers.rating),
    "a side": ("Close with 'Overall, Response X is better.'; no rating.", parsers.choice),
    "double brackets": ("Close with 'Rating: [[n]]'.", bracketed_rating),
    "the first machine": (f"Answer 'Index: n'.\n\n{TALK}", UniEvalParser(utterances=3)),
    "a machine of two": (f"Answer 'Choice: Conversation 1'.\n\n{TALK}", comparison),
    "scores by turn": ('{"评估结果": []}\n轮次 1 - 用户: 嗯\n轮次 2 - 用户: 好', turn_scores),
    "scores by turn, in JSON": (
        '{"评估结果": []}\n{"talk": "轮次 1 - 用户: 嗯\\n轮次 2 - 用户: 好"}',
        turn_scores,
    ),
    "a form": (
        f"是或否：\n```json\n{draw_form(CHECKLIST).text}\n```\n",
        ChecklistParser(checklist=CHECKLIST),
    ),
}


def verdicts(prompt: str) -> list[str]:
    return [verdict(prompt, SCALE, Random(seed)) for seed in range(200)]


@pytest.mark.parametrize(("prompt", "parser"), ASKED.values(), ids=ASKED)
def test_every_verdict_can_be_read_and_they_vary(prompt: str, parser: Parser) -> None:
    read = [parser(text) for text in verdicts(prompt)]
    assert len({str((each.label, each.scores)) for each in read}) > 1
    assert verdicts(prompt) == verdicts(prompt)


def test_the_first_machine_may_be_any_chat_or_none() -> None:
    prompt, parser = ASKED["the first machine"]
    assert {parser(text).scores[HUMAN] for text in verdicts(prompt)} == {0, 1, 2, 3}


def test_every_turn_is_scored() -> None:
    prompt, parser = ASKED["scores by turn"]
    for text in verdicts(prompt):
        scores = parser(text).scores
        assert {name.partition("/")[0] for name in scores} == {"1", "2"}
        assert all(1 <= scores[f"{turn}/{name}"] <= 5 for turn in "12" for name in ("IS", "Adp"))


def test_nothing_asked_is_nothing_said() -> None:
    assert verdict("Describe the picture.", SCALE, Random(0)) == ""


SCHEMAS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "enum": ({"type": "string", "enum": ["a", "b"]}, {'"a"', '"b"'}),
    "const": ({"const": 3}, {"3"}),
    "null": ({"type": "null"}, {"null"}),
    "boolean": ({"type": "boolean"}, {"true", "false"}),
    "range": ({"type": "integer", "minimum": 2, "maximum": 3}, {"2", "3"}),
    "array": ({"type": "array", "items": {"const": 1}}, {"[1]"}),
    "either": ({"anyOf": [{"const": 1}, {"type": "null"}]}, {"1", "null"}),
    "object": ({"type": "object", "properties": {"x": {"const": 1}}}, {'{"x":1}'}),
}


@pytest.mark.parametrize(("schema", "allowed"), SCHEMAS.values(), ids=SCHEMAS)
def test_a_schema_is_obeyed(schema: dict[str, Any], allowed: set[str]) -> None:
    made = {orjson.dumps(obey(schema, Random(seed))).decode() for seed in range(50)}
    assert made == allowed


def test_a_checklist_is_filled_in() -> None:
    made = obey(orjson.loads(draw_schema(CHECKLIST)), Random(0))
    assert [(name, entry["weight"]) for name, entry in made.items()] == [("a", 0.3), ("b", 0.7)]
    assert all(entry["评判理由"] for entry in made.values())
