"""The authors' win rates where both orders are judged, or other conditions than the free one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mmconv.benchmarks.convbench.official import OFFICIAL, Convention, OfficialRates, constant_for
from mmconv.core.types import Score
from mmconv.stats import ScoreFrame

Verdicts = Sequence[tuple[float | None, ...]]
"""By sample, one verdict for each order."""


def rates(
    samples: Verdicts, condition: str = "free", turn: int = 1, rows: int | None = None
) -> OfficialRates:
    frame = ScoreFrame(
        Score(
            sample=str(sample),
            condition=condition,
            metric="win",
            turn=turn,
            tags={"side": side},
            value=value,
            why="unparsed" if value is None else None,
        )
        for sample, verdicts in enumerate(samples)
        for side, value in zip("AB", verdicts, strict=False)
    )
    denominator = rows or len(samples)
    return OfficialRates(
        frame=frame,
        convention=Convention(
            denominator=denominator,
            rows=len(samples),
            samples=len(samples),
            orders=max(map(len, samples)),
        ),
    )


@pytest.mark.parametrize(
    ("samples", "percent"),
    [
        ([(1.0, 1.0), (1.0, 0.0), (0.0, 0.0), (0.0, 0.0)], 37.5),
        # a lost verdict is one lost comparison, and takes no won one with it
        ([(1.0, 1.0), (1.0, None), (0.0, 0.0), (0.0, 0.0)], 37.5),
        ([(1.0, 1.0), (None, None), (None, 0.0), (0.0, 0.0)], 25.0),
        ([(1.0,), (None,), (0.0,), (0.0,)], 25.0),
        ([(None,), (None,)], 0.0),
    ],
)
def test_each_order_is_a_comparison_of_its_own(samples: Verdicts, percent: float) -> None:
    assert rates(samples).score("S1")[OFFICIAL].value == percent


def test_the_constant_counts_every_row_in_both_orders() -> None:
    found = rates([(1.0, 1.0), (1.0, None)], rows=4)
    assert found.score("S1")[OFFICIAL].value == 37.5
    assert found.convention.note == (
        "authors (%): wins over 4; a win in one of two orders is half of one; what is unscored "
        "counts as lost."
    )


def test_conditions_without_the_first_turn_have_rates_too() -> None:
    found = rates([(1.0, 1.0), (1.0, None)], condition="perception", turn=2)
    assert found.score("S2_hat")[OFFICIAL].value == 75.0
    assert found.score("S1")[OFFICIAL].value is None


@pytest.mark.parametrize(("rows", "constant"), [(577, 577), (578, 577), (579, 579), (60, 60)])
def test_the_authors_constant_is_for_their_data(rows: int, constant: int) -> None:
    assert constant_for(rows) == constant
