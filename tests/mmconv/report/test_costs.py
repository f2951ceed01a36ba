"""Costs: what calls cost, what is told of unknown prices, and what a run would ask."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.plans import Plan
from mmconv.core.run_stats import ModelStats, RunStats, Tokens
from mmconv.core.types import Call, Image, Part, Ref, Reply, Sampling
from mmconv.report.costs import ANSWER_TOKENS, Forecast, cost, session_cost
from tests.messages import user


def priced(**price: float) -> ModelSpec:
    fields: dict[str, Any] = {"provider": "fake", "model": "echo", "price": price}
    return ModelSpec(**fields)


@pytest.mark.parametrize(
    ("price", "dollars"),
    [
        ({"input": 2.0, "output": 8.0}, 2.0),
        ({"input": 2.0, "output": 8.0, "cached_input": 0.5}, 0.8),
        ({"input": 2.0, "output": 8.0, "cached_input": 0.0}, 0.4),
    ],
)
def test_tokens_from_a_servers_cache_have_a_price(price: dict[str, float], dollars: float) -> None:
    assert cost(priced(**price), Tokens(input=10**6, cached=800_000)) == pytest.approx(dollars)


def paid(counts: ModelStats, **price: float) -> float | None:
    """What a session has cost whose candidate has this price."""
    spec = RunSpec(benchmark="convbench", models={"candidate": priced(**price)})
    return session_cost(spec, RunStats(models={"candidate": counts}))


def test_a_session_pays_for_what_it_requested() -> None:
    reply = Reply(text="a", input_tokens=1_000_000, output_tokens=0, cached_tokens=800_000)
    counts = ModelStats()
    counts.count(reply, cached=False)
    counts.count(reply, cached=True)
    assert paid(counts, input=2, output=8, cached_input=0.5) == pytest.approx(0.8)
    assert (counts.session.cached, counts.total.cached) == (800_000, 1_600_000)


def test_replies_from_batches_cost_half_and_live_ones_their_price() -> None:
    reply = Reply(text="a", input_tokens=1_000_000, output_tokens=100_000, cached_tokens=500_000)
    counts = ModelStats()
    counts.count(reply, cached=False)
    counts.count(replace(reply, batched=True), cached=False)
    counts.count(replace(reply, batched=True), cached=True)
    live = 0.5 * 2 + 0.5 * 1 + 0.1 * 10
    assert paid(counts, input=2, output=10, cached_input=1) == pytest.approx(1.5 * live)
    assert counts.total.batched_input == 2 * counts.session.batched_input == 2_000_000


SPEC = RunSpec(benchmark="b", models={"judge": ModelSpec(provider="fake", model="judge")})


def call(name: str, *parts: str | Part, **options: Any) -> Call:
    return Call(id=name, model="judge", messages=(user(*parts),), **options)


def plan(*calls: Call) -> Plan:
    return Plan(order=0, sample="1", condition="free", calls=calls)


def estimated(
    plan: Plan, replies: Mapping[str, Reply] | None = None, spec: RunSpec = SPEC
) -> dict[str, Any]:
    """The row of the judge."""
    forecast = Forecast(spec)
    forecast.add(plan, replies or {})
    return {name: cell.value for name, cell in forecast.table.rows["judge"].items()}


@pytest.mark.parametrize(
    ("expected", "limit", "tokens"),
    [(None, 8192, ANSWER_TOKENS), (None, 100, 100), (434.0, 8192, 434), (434.0, 400, 400)],
)
def test_answers_have_expected_lengths(expected: float | None, limit: int, tokens: float) -> None:
    bounded = Sampling(max_tokens=limit)
    first = call("first", "Why?", sampling=bounded, expected_tokens=expected)
    second = call("second", Ref(call="first"), sampling=Sampling(max_tokens=1))
    row = estimated(plan(first, second))
    assert row["output tokens"] == tokens + 1
    assert row["input tokens"] == 1 + tokens


@pytest.mark.parametrize(
    ("of_run", "of_model", "tokens"), [(16, None, 16), (None, 24, 24), (16, 24, 16)]
)
def test_a_role_may_limit_answers(of_run: int | None, of_model: int | None, tokens: int) -> None:
    model = {"provider": "fake", "model": "judge", "sampling": bound(of_model)}
    spec = RunSpec.model_validate(
        {"benchmark": "b", "models": {"judge": model}, "sampling": {"judge": bound(of_run)}}
    )
    asked = plan(call("only", "Why?"))
    row = estimated(asked, spec=spec)
    assert (row["output tokens"], row["at most"]) == (tokens, tokens)
    free = estimated(asked)
    assert (free["output tokens"], free["at most"]) == (ANSWER_TOKENS, Sampling().max_tokens)


def bound(tokens: int | None) -> dict[str, int]:
    return {} if tokens is None else {"max_tokens": tokens}


def test_calls_that_the_store_holds_are_told_and_cost_nothing() -> None:
    first, second = call("first", "Why?"), call("second", "Why not?")
    third = call("third", Ref(call="first"))
    both = (Ref(call="first"),), (Ref(call="second"),)
    fourth = call("fourth", *both[0], *both[1], compares=both)
    asked = plan(first, second, third, fourth)
    before = estimated(asked)
    assert (before["calls"], before["cached"], before["to request"]) == (4, 0, 4)
    one = {"first": Reply(text="w" * 40)}
    row = estimated(asked, one)
    assert (row["calls"], row["cached"], row["to request"]) == (4, 1, 3)
    assert row["output tokens"] == 3 * ANSWER_TOKENS
    assert row["input tokens"] == 2 + 10 + (10 + ANSWER_TOKENS)
    alike = estimated(asked, one | {"second": Reply(text="w" * 40)})
    assert (alike["calls"], alike["cached"], alike["to request"]) == (3, 2, 1)


GUESS = "sent to the judge: one for 750 pixels, a guess"


@pytest.mark.parametrize(
    ("fields", "tokens", "note"),
    [
        ({}, 16_000, "a guess (its model file has no about.image_tokens)."),
        ({"options": {"max_side": 1000}}, 1000, GUESS),
        ({"options": {"max_pixels": 120_000}}, 160, GUESS),
        ({"options": {"min_pixels": 48_000_000}}, 64_000, GUESS),
        (
            {"about": {"image_tokens": {"patch": 28}}, "options": {"max_side": 280}},
            80,
            "sent to the judge: one for each 28 x 28 pixels.",
        ),
        ({"about": {"image_tokens": {"each": 576}}}, 576, "sent to the judge: 576."),
    ],
)
def test_an_image_counts_in_the_size_sent(fields: dict[str, Any], tokens: float, note: str) -> None:
    judge = {"provider": "fake", "model": "judge", **fields}
    spec = RunSpec.model_validate({"benchmark": "b", "models": {"judge": judge}})
    large = Image(sha256="0" * 64, media_type="image/jpeg", width=4000, height=3000)
    forecast = Forecast(spec)
    forecast.add(plan(call("only", large, "Why?")), {})
    assert forecast.table.rows["judge"]["input tokens"].value == tokens + 1
    assert any(note in each for each in forecast.table.notes)
