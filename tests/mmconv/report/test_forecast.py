"""What a run would ask, in tokens."""

from __future__ import annotations

import pytest

from mmconv.config import ModelSpec, RunSpec
from mmconv.plans import Plan
from mmconv.report.forecast import ANSWER_TOKENS, forecast
from mmconv.values import Call, Message, Ref, Sampling, Text

SPEC = RunSpec(benchmark="b", seats={"judge": ModelSpec(provider="fake", model="judge")})


@pytest.mark.parametrize(
    ("expected", "limit", "tokens"),
    [(None, 8192, ANSWER_TOKENS), (None, 100, 100), (434.0, 8192, 434), (434.0, 400, 400)],
)
def test_an_answer_is_as_long_as_its_call_tells(
    expected: float | None, limit: int, tokens: float
) -> None:
    asked = Message(role="user", parts=(Text(text="Why?"),))
    first = Call(
        id="first",
        seat="judge",
        messages=(asked,),
        sampling=Sampling(max_tokens=limit),
        expected_tokens=expected,
    )
    second = Call(
        id="second",
        seat="judge",
        messages=(Message(role="user", parts=(Ref(call="first"),)),),
        sampling=Sampling(max_tokens=1),
    )
    plan = Plan(order=0, sample="1", condition="free", calls=(first, second))
    row = forecast(SPEC, [plan]).rows["judge"]
    assert row["output tokens"].value == tokens + 1
    assert row["input tokens"].value == 1 + tokens
