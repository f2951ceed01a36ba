"""ConvBench's overall means: over the samples that have every part."""

from __future__ import annotations

import pytest

from mmconv.benchmarks.metrics import Select, Together
from mmconv.stats import ScoreFrame
from tests.mmconv.benchmarks.convbench.test_tables import CONTEXT, build_tables, scores


def test_an_overall_mean_is_over_the_samples_that_have_every_part() -> None:
    [table] = [each for each in build_tables(scores(), CONTEXT) if each.name == "scores"]
    cell = table.rows["R2"]["direct (1-10)"]
    assert (cell.n, cell.missing) == (2, {"unparsed": 1})
    assert cell.value == pytest.approx(((4 + 2 + 3) / 3 + (6 + 6 + 9) / 3) / 2)


def test_a_sample_without_any_row_in_a_part_is_missing() -> None:
    given = [score for score in scores() if (score.sample, score.turn) != ("1", 3)]
    column = Together((Select("rating", turn=1), Select("rating", turn=3)))(ScoreFrame(given))
    assert dict(zip(column.samples, column.reasons, strict=True))["1"] == "not scored"
    assert column.present.tolist() == [False, True, True]
