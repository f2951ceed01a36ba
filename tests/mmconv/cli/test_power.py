"""`mmconv power` as it is typed: a pilot in, a plan out."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from mmconv.cli.comparing import power_command
from mmconv.report.power import Known, Prices, count_ways
from mmconv.stats import Column
from tests.mmconv.report.runs import BETA, make_run


def planned(*runs: Path, effect: str) -> Any:
    arguments = [*map(str, runs), "--effect", effect, "--format", "json"]
    result = CliRunner().invoke(power_command, arguments)
    if result.exception:
        raise result.exception
    return orjson.loads(result.stdout)["power"]


async def test_a_pilot_plans_changes_and_two_plan_differences(tmp_path: Path) -> None:
    options = {"grading": ["direct"]}
    first = await make_run("convbench", tmp_path, options=options, trials=2)
    second = await make_run("convbench", tmp_path, BETA, options=options, trials=2)
    changes = planned(first, effect="1")
    assert "S2_hat - S2, direct (1-10)" in changes
    assert not any(row.startswith("S2,") for row in changes)
    assert "S2, direct (1-10)" in planned(first, second, effect="1")
    for row in changes.values():
        assert {"found now", "samples", "samples (calls)"} <= row.keys()
        # the effect that is found now needs the samples that there are
        assert (row["found now"]["value"] > 1.0) == (row["samples"]["value"] > 12)


def test_without_a_pilot_errors_that_come_with_mmconv_plan_a_run() -> None:
    row = planned(Path("convbench"), effect="0.5")["S2_hat - S2, direct (1-10)"]
    # SD 2.2: (1.98 + 0.84)^2 2.2^2 / 0.5^2
    assert row["samples"]["value"] == pytest.approx(157, abs=5)
    assert row["samples (calls)"]["value"] == 33 * row["samples"]["value"]
    assert row["verdicts (calls)"]["value"] == 100 * (6 + 27 * row["verdicts"]["value"])
    assert row["cheapest"]["value"] == "samples"


async def test_an_effect_in_percent_is_one_of_shares(tmp_path: Path) -> None:
    run = await make_run("convbench", tmp_path)
    assert all("win rate (%)" in row for row in planned(run, effect="20%"))
    assert all("(1-10)" in row for row in planned(run, effect="0.5"))
    for effect in ("0", "five", "-1%", "inf"):
        with pytest.raises(SystemExit):
            planned(run, effect=effect)


def test_labels_have_a_price_and_may_be_the_cheapest() -> None:
    numbers = [float(sample % 5) for sample in range(100)]
    errors = [number + (-1) ** sample for sample, number in enumerate(numbers)]
    judged = Column.of(errors)
    people = Column.of(numbers[:20], samples=judged.samples[:20])
    known = Known(column=judged, trials=judged, scale=1.0, labels=people)
    prices = Prices(unit="US$", answers=0.01, verdicts=0.02, judges=1)
    plain = dict(count_ways(known, 0.6, prices))
    wanted = plain["labelled samples"].value
    assert isinstance(wanted, float)
    assert "labelled samples (US$)" not in plain
    dear = dict(count_ways(known, 0.6, replace(prices, label=0.5)))
    assert dear["labelled samples (US$)"].value == pytest.approx(100 * 0.03 + wanted * 0.5)
    assert dear["cheapest"].value == "samples"
