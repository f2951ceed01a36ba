"""What a session that is stopped by its budget says it has cost; more of it is in test_stops."""

from __future__ import annotations

import pytest

from mmconv.cli.shared.costs import Budget
from mmconv.cli.shared.progress import line
from mmconv.core.config import ModelSpec, PriceSpec, RunSpec
from mmconv.core.run_stats import SeatTally, Tally


@pytest.mark.parametrize(
    ("tokens", "spent"),
    [(1_110, "$0.0011"), (9, "$0.000009"), (50_000, "$0.05"), (12_345_678, "$12.35")],
)
def test_little_money_is_told_with_as_many_digits_as_it_takes(tokens: int, spent: str) -> None:
    model = ModelSpec(provider="fake", model="m", price=PriceSpec(input=0, output=1))
    spec = RunSpec(benchmark="riddles", seats={"candidate": model})
    tally = Tally(seats={"candidate": SeatTally(asked=24, output_tokens=tokens)})
    told = Budget(spec, 0.000001).spent(tally)
    assert told == f"--max-cost 1e-06: the calls of this session have cost {spent}"
    assert line(spec, tally, 1.0).endswith(f", {spent}")
