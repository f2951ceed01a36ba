"""Two verdicts on the same answers: known values, and what has no interval."""

import pytest

from mmconv.stats import Column
from mmconv.stats.repeats import summarise_kappa, summarise_reliability, summarise_sd

ONE = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
OTHER = [2.0, 2.0, 4.0, 3.0, 5.0, 7.0]


def columns(one: list[float | None], other: list[float | None]) -> tuple[Column, Column]:
    reasons = [[None if each is not None else "lost" for each in values] for values in (one, other)]
    return Column.of(one, reasons=reasons[0]), Column.of(other, reasons=reasons[1])


def test_the_deviation_is_the_root_of_half_the_mean_square_of_differences() -> None:
    deviation = summarise_sd(*columns([*ONE], [*OTHER]))
    assert deviation.mean == pytest.approx((4 / 12) ** 0.5)
    assert deviation.low is not None
    assert deviation.high is not None
    assert deviation.low * deviation.high == pytest.approx(4 / 12)


def test_the_reliability_is_the_share_of_the_variance_that_repeats() -> None:
    reliability = summarise_reliability(*columns([*ONE], [*OTHER]))
    middle = sum(ONE + OTHER) / 12
    total = sum((each - middle) ** 2 for each in ONE + OTHER) / 12
    assert reliability.mean == pytest.approx(1 - (4 / 12) / total)
    assert None not in (reliability.low, reliability.high)


def test_verdicts_that_all_repeat_have_no_interval() -> None:
    same = columns([*ONE], [*ONE])
    assert summarise_sd(*same).mean == 0
    assert summarise_reliability(*same).mean == 1
    assert summarise_reliability(*same).low is None
    assert summarise_reliability(*columns([2.0] * 6, [2.0] * 6)).mean is None


def test_kappa_is_cohens_and_has_an_interval_at_full_agreement() -> None:
    kappa = summarise_kappa(
        *columns([1.0, 1.0, 0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    )
    assert kappa.mean == pytest.approx((5 / 6 - 1 / 2) / (1 - 1 / 2))
    full = summarise_kappa(*columns([1.0, 0.0] * 10, [1.0, 0.0] * 10))
    assert full.mean == 1
    assert full.low is not None
    assert full.low < 1
    assert summarise_kappa(*columns([1.0] * 6, [1.0] * 6)).mean is None


def test_a_row_without_one_of_the_numbers_is_missing_for_its_reason() -> None:
    reliability = summarise_reliability(*columns([*ONE, None, 3.0], [*OTHER, 3.0, None]))
    assert reliability.n == 6
    assert reliability.missing == {"lost": 2}
