"""The authors' win rates where both orders are judged, or other conditions than the free one."""

from collections.abc import Sequence
from typing import Any

import pytest

from mmconv.benchmarks.convbench.metrics import Convention, constant_for
from mmconv.core.types import Score
from mmconv.stats import ScoreFrame

Verdicts = Sequence[tuple[float | None, ...]]
"""By sample, one verdict for each order."""


def verdicts(samples: Verdicts, condition: str = "free", turn: int = 1) -> ScoreFrame:
    return ScoreFrame(
        Score(
            sample=str(sample),
            condition=condition,
            metric="win",
            turn=turn,
            tags={"side": side},
            value=value,
            why="unparsed" if value is None else None,
        )
        for sample, values in enumerate(samples)
        for side, value in zip("AB", values, strict=False)
    )


def convention(samples: Verdicts, rows: int | None = None) -> Convention:
    count = len(samples)
    orders = max(map(len, samples))
    return Convention(denominator=rows or count, rows=count, samples=count, orders=orders)


def rate(samples: Verdicts, name: str = "S1", **fields: Any) -> object:
    rows = fields.pop("rows", None)
    cell = convention(samples, rows).cell(verdicts(samples, **fields), name=name)
    assert cell is not None
    return cell.value


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
    assert rate(samples) == percent


def test_the_constant_counts_every_row_in_both_orders() -> None:
    samples: Verdicts = [(1.0, 1.0), (1.0, None)]
    assert rate(samples, rows=4) == 37.5
    assert convention(samples, 4).note == (
        "authors (%): wins over 4; a win in one of two orders is half of one; what is unscored "
        "counts as lost."
    )


def test_conditions_without_the_first_turn_have_rates_too() -> None:
    samples: Verdicts = [(1.0, 1.0), (1.0, None)]
    given: dict[str, Any] = {"condition": "perception", "turn": 2}
    assert rate(samples, "S2_hat", **given) == 75.0
    assert rate(samples, "S1", **given) is None


@pytest.mark.parametrize(("rows", "constant"), [(577, 577), (578, 577), (579, 579), (60, 60)])
def test_the_authors_constant_is_for_their_data(rows: int, constant: int) -> None:
    assert constant_for(rows) == constant
