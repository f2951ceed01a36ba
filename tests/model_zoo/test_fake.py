"""The fake models: what they say, when they fail, and verdicts in the form of each prompt."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from judges import parsers
from judges.parsers.botchat import UniEvalParser, comparison
from judges.parsers.cmteval import turn_scores
from judges.parsers.fbbench import ChecklistParser, Criterion, draw_form, draw_schema
from judges.parsers.mtbench101 import bracketed_rating
from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, Refused, Transient
from mmconv.core.protocols import Backend
from mmconv.core.types import Message, Parser, Sampling
from model_zoo.simulated.fake import FakeOptions, fingerprint, obey, open_backend, verdict
from tests.messages import message
from tests.model_zoo.conftest import NoImages

ONCE = Sampling()

CHECKLIST = (Criterion(text="a", weight=0.3), Criterion(text="b", weight=0.7))
SCALE = FakeOptions()
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


def spec(model: str, **options: Any) -> ModelSpec:
    return ModelSpec(provider="fake", model=model, options=options)


def asked(text: str) -> tuple[Message, ...]:
    return (message("user", text),)


async def backend(model: str, **options: Any) -> Backend:
    return await open_backend(spec(model, **options), NoImages())


async def reply_text(model: Backend, messages: Sequence[Message], sampling: Sampling = ONCE) -> str:
    return (await model.generate(messages, sampling, affinity="")).text


@pytest.mark.parametrize("written", ['["one", "two"]', "- one\n- two\n"])
async def test_a_script_of_replies_is_read_by_turn_and_trial(tmp_path: Path, written: str) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(written)
    model = await backend("scripted", script=str(script))
    second = (*asked("a"), message("assistant", "one"), *asked("b"))
    assert await reply_text(model, asked("a")) == "one"
    assert await reply_text(model, second) == "two"
    assert await reply_text(model, asked("a"), Sampling(trial=1)) == "two"
    with pytest.raises(Refused, match="2 replies; turn 2, trial 1"):
        await reply_text(model, second, Sampling(trial=1))


async def outcomes(model: Backend, requests: int, attempts: int) -> list[str]:
    found: list[str] = []
    for number in range(requests):
        for _ in range(attempts):
            try:
                await reply_text(model, asked(f"question {number}"))
            except Transient as error:
                assert (error.retry_after is not None) == (error.kind == "rate_limit")
                found.append(error.kind)
            else:
                found.append("answered")
                break
    return found


async def test_failing_fails_at_its_rate_and_the_same_way_each_time() -> None:
    first = await outcomes(await backend("failing", rate=0.3, seed=1), 200, 20)
    again = await outcomes(await backend("failing", rate=0.3, seed=1), 200, 20)
    other = await outcomes(await backend("failing", rate=0.3, seed=2), 200, 20)
    assert first == again != other
    counts = Counter(first)
    assert counts.pop("answered") == 200
    assert 0.2 < counts.total() / len(first) < 0.4
    assert set(counts) == {"rate_limit", "server", "connection", "timeout", "malformed"}


WRONG: dict[str, tuple[str, Mapping[str, Any], str]] = {
    "no such model": ("gpt", {}, "choose one of echo"),
    "no such option": ("echo", {"sekonds": 1}, "sekonds"),
    "rate above one": ("failing", {"rate": 2}, "rate"),
    "unknown kind": ("failing", {"kinds": ["context"]}, "kinds"),
    "upside down": ("judge", {"lowest": 5, "highest": 1}, "above highest"),
    "closing": ("judge", {"closing": {"(": "x"}}, "not a regular expression"),
    "no script": ("scripted", {}, "options.script is missing"),
    "no such file": ("scripted", {"script": "missing.yaml"}, "missing.yaml: No such file"),
    "pattern": ("scripted", {"script": {"(": "x"}}, "not a regular expression"),
}


@pytest.mark.parametrize(("model", "options", "words"), WRONG.values(), ids=WRONG)
async def test_wrong_options_are_named(model: str, options: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        fingerprint(spec(model, **options))
    with pytest.raises(ConfigError, match=words):
        await backend(model, **options)


@pytest.mark.parametrize("written", ["just words", "- [1, 2]", "{", ""])
async def test_a_script_file_of_another_shape_is_refused(tmp_path: Path, written: str) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(written)
    with pytest.raises(ConfigError, match=r"script\.yaml: "):
        await backend("scripted", script=str(script))


def verdicts(prompt: str) -> list[str]:
    return [verdict(prompt, SCALE, Random(seed)) for seed in range(200)]


@pytest.mark.parametrize(("prompt", "parser"), ASKED.values(), ids=ASKED)
def test_every_verdict_can_be_read_and_they_vary(prompt: str, parser: Parser) -> None:
    read = [parser(text) for text in verdicts(prompt)]
    assert len({str((each.label, each.scores)) for each in read}) > 1
    assert verdicts(prompt) == verdicts(prompt)


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
