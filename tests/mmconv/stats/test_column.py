"""Columns: what they hold, and what they refuse."""

import math
from typing import Literal

import pytest

from mmconv.stats import Column


def test_columns_refuse_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="never NaN"):
        Column.of([math.nan], reasons=["x"])
    with pytest.raises(ValueError, match="reason"):
        Column.of([None])
    with pytest.raises(ValueError, match="reason"):
        Column.of([1.0], reasons=["unparsed"])
    with pytest.raises(ValueError, match="length"):
        Column.of([1.0], clusters=["a", "b"])
    with pytest.raises(ValueError, match="finite"):
        Column.of([math.inf])


@pytest.mark.parametrize(
    ("how", "partial", "expected"),
    [
        ("min", False, [1.0, None, None]),
        ("min", True, [1.0, 5.0, None]),
        ("max", True, [3.0, 5.0, None]),
        ("mean", True, [2.0, 5.0, None]),
    ],
)
def test_rows_reduce_to_samples(
    how: Literal["mean", "min", "max"], partial: bool, expected: list[float | None]
) -> None:
    column = Column.of(
        [3.0, None, 1.0, 5.0, None, None],
        samples=["a", "b", "a", "b", "c", "c"],
        clusters=["x", "y", "z", "z", "y", "y"],
        reasons=[None, "timeout", None, None, "unparsed", "timeout"],
    )
    reduced = column.per_sample(how, partial=partial)
    assert reduced.samples == ("a", "b", "c")
    assert reduced.clusters == ("x", "y", "y")
    assert reduced.values == expected
    reasons = (None, None if partial else "timeout", "unparsed")
    assert reduced.reasons == reasons
