"""Plans of a benchmark of one's own that would ask something else than is meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from mmconv.benchmarks.base import Calls, Fields, FileBenchmark, Outcomes, Scores
from mmconv.core.errors import ConfigError, UserCodeError
from mmconv.core.types import Call, Message, Ref, Sampling, Score, Text
from tests.example_benchmark import Riddles
from tests.mmconv.benchmarks.base.own import build


class Asks(Riddles):
    """Its answer is asked with `fields` in place of those of riddles."""

    fields_of_call: Mapping[str, Any] = MappingProxyType({})

    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        answer, fit = super().plan(sample, condition)
        return replace(answer, **self.fields_of_call), fit


def said(*parts: Any, role: Any = "user") -> dict[str, Any]:
    return {"messages": (Message(role=role, parts=parts),)}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            said("What?"),
            "'What?' is no Text(text=...), Image or Ref, and stands for part 1 of message 1 of "
            "call 'answer'",
        ),
        (said(Text(text=5)), "Text(text=5) is no Text(text=...)"),  # type: ignore[arg-type]
        (said(Text(text="a"), Ref(call=None)), "stands for part 2 of"),  # type: ignore[arg-type]
        (said(), "() is no tuple with a part, and stands for the parts of message 1"),
        (said(Text(text="a"), role="human"), "'human' is none of the roles system, user, assist"),
        ({"messages": ()}, "() is no tuple of Messages"),
        ({"messages": "What?"}, "'What?' is no tuple of Messages"),
        ({"messages": ("What?",)}, "'What?' is no Message, and stands for message 1"),
        ({"sampling": {"max_tokens": 5}}, "{'max_tokens': 5} is no Sampling"),
        ({"sampling": Sampling(max_tokens=-16)}, "max_tokens: Input should be greater than 0, in"),
        (
            {"sampling": Sampling(temperature="hot")},  # type: ignore[arg-type]
            "temperature is the text 'hot', not a number, in the sampling of call 'answer'",
        ),
        ({"parser": "choice"}, "'choice' cannot be called, and is the parser of call 'answer'"),
        ({"seat": None}, "None is no text, and stands for the seat of call 'answer'"),
        ({"rescues": ("again",)}, "AttributeError: 'str' object has no attribute 'id'"),
    ],
)
def test_what_would_be_asked_otherwise_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], told: str
) -> None:
    monkeypatch.setattr(Asks, "fields_of_call", fields)
    with pytest.raises(UserCodeError) as caught:
        build(tmp_path, Asks)
    assert str(caught.value).startswith("Asks.plan of sample 'a' under free")
    assert told in str(caught.value)


def test_a_message_of_one_text_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = Message(role="user", parts=Text(text="What?"))  # type: ignore[arg-type]
    monkeypatch.setattr(Asks, "fields_of_call", {"messages": (bare,)})
    with pytest.raises(UserCodeError, match=r"Text\(text='What\?'\) is no tuple with a part"):
        build(tmp_path, Asks)


class OneCall(Riddles):
    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        return super().plan(sample, condition)[0]  # type: ignore[return-value]


class NoYield(Riddles):
    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        Score(sample=sample["id"], condition=condition, metric="fit", value=1.0)
        return None  # type: ignore[return-value]


class Changing(Riddles):
    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        sample["riddle"] = "changed"


class Counting(Riddles):
    numbers = count()

    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        number = next(self.numbers)
        return super().plan(Fields({**sample, "riddle": f"Number {number}?"}), condition)


class Unprepared(Riddles):
    def __init__(self, spec: Any, images: Any) -> None:
        self.spec = spec


class PlainSamples(Riddles):
    def load(self) -> Any:
        yield {"id": "a"}


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (OneCall, "OneCall.plan of sample 'a' under free gives Call(id='answer'"),
        (OneCall, "and no Calls in a tuple: return one, or `yield` each"),
        (NoYield, "NoYield.score of sample 'a' under free gives None, and no Scores in a tuple"),
        (Changing, "all conditions share a sample, so that it cannot be changed: make another"),
        (Counting, "Counting.plan of sample 'a' under free gives other calls when it is asked"),
        (Unprepared, "Unprepared.__init__ does not call super().__init__(spec, images): do that"),
        (PlainSamples, "PlainSamples: reading sample 1 of `load` fails\nKeyError: 'riddle'"),
    ],
)
def test_what_is_wrong_with_methods_is_told(
    tmp_path: Path, kind: type[FileBenchmark], told: str
) -> None:
    with pytest.raises(UserCodeError) as caught:
        build(tmp_path, kind)
    assert told in str(caught.value)


def test_a_method_that_nothing_would_await_is_refused_where_it_is_defined() -> None:
    with pytest.raises(UserCodeError, match=r"Later\.plan is `async def`: write `def`"):

        class Later(Riddles):
            async def plan(self, *given: Any) -> Any:  # type: ignore[override]
                return super().plan(*given)

    with pytest.raises(UserCodeError, match=r"Stream\.score is `async def`: write `def`"):

        class Stream(Riddles):
            async def score(self, *given: Any) -> Any:
                yield given


@pytest.mark.parametrize(
    "change",
    [
        lambda sample: sample.update(riddle="changed"),
        lambda sample: sample.pop("riddle"),
        lambda sample: sample.setdefault("riddel", "new"),
        lambda sample: sample.clear(),
        lambda sample: sample.__delitem__("riddle"),
        lambda sample: sample.__ior__({"riddle": "changed"}),
    ],
)
def test_a_sample_never_changes(change: Any) -> None:
    sample = Fields({"id": "a", "riddle": "Who?"})
    with pytest.raises(TypeError, match="cannot be changed"):
        change(sample)
    assert sample == {"id": "a", "riddle": "Who?"}


class Haggling(Riddles):
    """Two models, neither of them the one that is evaluated."""

    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        answer, fit = super().plan(sample, condition)
        return replace(answer, seat="buyer"), replace(fit, seat="seller")


def test_a_benchmark_without_a_candidate_is_told_what_that_is(tmp_path: Path) -> None:
    told = (
        "riddles has no seat 'candidate', on which every benchmark asks the model that is "
        "evaluated; there are: buyer, seller"
    )
    with pytest.raises(ConfigError, match=told):
        build(tmp_path, Haggling, "candidate", "buyer", "seller")


def test_a_seat_without_a_model_is_told_with_a_call_that_asks_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"name a judge \(for call 'fit~retry_1'\)"):
        build(tmp_path, Riddles, "candidate")
