"""What is told of costs that are not known; more of it is in the tests of what reports them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.run_stats import ModelStats, RunStats
from mmconv.core.types import Reply
from mmconv.report.costs import cost, session_cost, unknown_price


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
def test_tokens_from_the_servers_cache_have_their_own_price(
    price: dict[str, float], dollars: float
) -> None:
    assert cost(priced(**price), 1e6, 0, cached_tokens=800_000) == pytest.approx(dollars)


def test_a_session_pays_for_what_it_requested() -> None:
    reply = Reply(text="a", input_tokens=1_000_000, output_tokens=0, cached_tokens=800_000)
    counts = ModelStats()
    counts.count(reply, cached=False)
    counts.count(reply, cached=True)
    stats = RunStats()
    stats.models["candidate"] = counts
    model = priced(input=2, output=8, cached_input=0.5)
    spec = RunSpec(benchmark="convbench", models={"candidate": model})
    assert session_cost(spec, stats) == pytest.approx(0.8)
    assert (counts.cached_tokens, counts.total_cached_tokens) == (800_000, 1_600_000)


def test_replies_from_batches_cost_half_and_live_ones_their_price() -> None:
    reply = Reply(text="a", input_tokens=1_000_000, output_tokens=100_000, cached_tokens=500_000)
    counts = ModelStats()
    counts.count(reply, cached=False)
    counts.count(replace(reply, batched=True), cached=False)
    counts.count(replace(reply, batched=True), cached=True)
    stats = RunStats()
    stats.models["candidate"] = counts
    model = priced(input=2, output=10, cached_input=1)
    spec = RunSpec(benchmark="convbench", models={"candidate": model})
    live = 0.5 * 2 + 0.5 * 1 + 0.1 * 10
    assert session_cost(spec, stats) == pytest.approx(1.5 * live)
    assert counts.total_batched.input == 2 * counts.batched.input == 2_000_000


def test_no_more_calls_are_told_to_be_without_tokens_than_there_are() -> None:
    told = [unknown_price(*counts) for counts in ((2, 9), (4, 0))]
    assert told == [
        f"price unknown: {part} calls without token counts" for part in ("2 of 9", "4 of 4")
    ]
