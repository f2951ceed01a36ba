"""Numbers corrected by labels: the published package's means, and truths that judges hide."""

import math
from pathlib import Path

import numpy as np
import orjson
import pytest

from mmconv.stats import Column, pair
from mmconv.stats.corrections import (
    Rate,
    attribute,
    correct,
    correct_share,
    count_wanted,
    find_rate,
    summarise_corrected_ratio,
    summarise_corrections,
)
from tests.mmconv.stats.intervals import covers, ends

SHARE = (0.0, 1.0)

PUBLISHED = Path(__file__).with_name("ppi_means.jsonl").read_bytes().splitlines()
"""Means by `ppi_py.ppi_mean_pointestimate(people, judged, rest)` of ppi_python 0.2.3."""


def column(values: object, *, clusters: int = 0) -> Column:
    numbers = [float(value) for value in np.asarray(values)]
    size = len(numbers)
    names = [str(row // clusters) for row in range(size)] if clusters else None
    return Column.of(numbers, clusters=names)


def first(of: Column, size: int) -> Column:
    return of.rows(range(size))


@pytest.mark.parametrize("line", PUBLISHED)
def test_means_are_those_of_ppi_py(line: bytes) -> None:
    case = orjson.loads(line)
    judged = column([*case["judged"], *case["rest"]])
    correction = correct(judged, column(case["people"]))
    assert correction.mean == pytest.approx(case["mean"], abs=1e-6)
    assert summarise_corrections([(correction, 1.0)]).mean == correction.mean


def test_labels_of_all_samples_are_the_people_alone() -> None:
    people = column([3, 5, 4, 8, 9, 2])
    correction = correct(column([9, 9, 8, 9, 9, 9]), people)
    summary = summarise_corrections([(correction, 1.0)])
    assert (correction.weight, summary.mean, summary.n) == (0.0, people.numbers.mean(), 6)


def test_a_judge_that_is_kind_by_a_constant_is_corrected_nearly_for_free() -> None:
    random = np.random.default_rng(1)
    truth = random.normal(5, 1.5, 600)
    judged = truth + 2 + random.normal(0, 0.3, 600)
    summary = summarise_corrections([(correct(column(judged), first(column(truth), 60)), 1.0)])
    alone = first(column(truth), 60).numbers
    assert summary.mean == pytest.approx(truth.mean(), abs=0.15)
    assert summary.stderr is not None
    assert summary.stderr < 0.5 * alone.std() / math.sqrt(60)


def test_samples_without_a_verdict_are_not_labels() -> None:
    judged = Column.of([1.0, None, 0.0], reasons=[None, "failed", None])
    correction = correct(judged, column([1, 1]))
    assert (correction.people.samples, correction.rest.samples) == (("0",), ("2",))


def test_few_labelled_clusters_have_no_interval() -> None:
    judged = column(np.arange(40) % 2, clusters=5)
    summary = summarise_corrections([(correct(judged, first(judged, 20)), 1.0)])
    assert (summary.n, summary.low) == (20, None)


def test_labels_that_confirm_a_judge_do_not_prove_that_it_never_errs() -> None:
    judged = column(np.arange(500) % 2)
    correction = correct(judged, first(judged, 20))
    plain, cautious = (
        summarise_corrections([(correction, 1.0)], possible) for possible in ((), SHARE)
    )
    (low, high), (lower, higher) = ends(plain), ends(cautious)
    assert higher - lower > high - low + 0.05


def coverage(runs: int, halo: float) -> float:
    """How often the interval of a corrected delta holds the true one, two samples to an image."""
    hits = 0
    for seed in range(runs):
        random = np.random.default_rng([7, seed])
        images = np.repeat(random.normal(0, 1, 150), 2)
        own = random.normal(6, 1.5, (2, 300)) + images
        truth = own[1] - own[0] + 0.4
        judged = own + random.normal(0, 1.5, (2, 300)) + np.array([[0.0], [0.4 + halo]])
        columns = [column(row, clusters=2) for row in (*judged, truth)]
        labels = first(columns[2], 100)
        correction = correct(pair(columns[0], columns[1]), labels)
        summary = summarise_corrections([(correction, 1.0)])
        hits += covers(summary, 0.4)
    return hits / runs


@pytest.mark.parametrize("halo", [0.0, 1.0])
def test_corrected_deltas_cover_the_truth_under_a_judge_that_is_kinder_later(halo: float) -> None:
    assert 0.90 <= coverage(200, halo) <= 0.99


def erring(wrong: np.ndarray, a: float, b: float, random: np.random.Generator) -> np.ndarray:
    """Verdicts on answers: 1 is failed."""
    rates = np.where(wrong, 1 - b, a)
    return (random.random(len(wrong)) < rates).astype(float)


def test_a_judge_that_errs_in_a_fifth_hides_a_share_that_is_found_again() -> None:
    random = np.random.default_rng(3)
    wrong = random.random(4000) < 0.12
    judged, people = column(erring(wrong, 0.2, 0.2, random)), column(wrong)
    labels = first(people, 1500)
    rates = [find_rate(judged, labels, of=0), find_rate(judged, labels, of=1)]
    assert rates[0] is not None
    assert rates[1] is not None
    assert rates[0].value == pytest.approx(0.2, abs=0.04)
    summary = correct_share(judged, rates[0], rates[1])
    assert judged.numbers.mean() > 0.25
    assert summary.mean == pytest.approx(wrong.mean(), abs=0.05)
    assert covers(summary, wrong.mean())


def test_a_judge_no_better_than_chance_corrects_nothing() -> None:
    assert correct_share(column([0, 1] * 20), Rate(value=0.5), Rate(value=0.6)).mean is None


def test_attribution_takes_the_right_answers_that_were_failed_from_every_rate() -> None:
    """Truly 72 % of the failures come from perception; a judge right in 90 % shows 36 %."""
    random = np.random.default_rng(4)
    wrong = [random.random(20_000) < rate for rate in (0.10, 0.028, 0.028)]
    failures = [column(erring(each, 0.1, 0.1, random)) for each in wrong]
    raw = attribute(failures, [Rate(value=0.0)] * 3)
    parts = attribute(failures, [Rate(value=0.1, variance=0.002**2)] * 3)
    assert raw[0].mean == pytest.approx(0.32, abs=0.04)
    for part, truth in zip(parts, (0.72, 0.0, 0.28), strict=True):
        assert covers(part, truth)
    assert sum(part.mean or 0.0 for part in parts) == pytest.approx(1.0)


def test_an_uncertain_a_widens_only_what_it_enters() -> None:
    random = np.random.default_rng(5)
    failures = [column(random.random(3000) < rate) for rate in (0.5, 0.3, 0.3)]
    sure, unsure = (
        attribute(failures, [Rate(value=0.1, variance=variance)] * 3) for variance in (0.0, 0.002)
    )
    widths = [
        [(part.high or 0.0) - (part.low or 0.0) for part in parts] for parts in (sure, unsure)
    ]
    assert widths[1][2] > 1.5 * widths[0][2]
    assert widths[1][1] == pytest.approx(widths[0][1], rel=0.1)


def test_one_rate_for_each_condition_undoes_a_halo() -> None:
    random = np.random.default_rng(6)
    wrong = [random.random(20_000) < 0.4] * 3
    failures = [
        column(erring(each, a, b, random))
        for each, (a, b) in zip(wrong, ((0.2, 0.2), (0.1, 0.3), (0.1, 0.3)), strict=True)
    ]
    alike = attribute(failures, [Rate(value=0.2)] * 3)
    own = attribute(failures, [Rate(value=0.2), *[Rate(value=0.1)] * 2])
    assert alike[0].mean == pytest.approx(0.42, abs=0.05)
    assert own[0].mean == pytest.approx(0.0, abs=0.04)


def test_a_corrected_ratio_says_how_many_labels_it_wants() -> None:
    random = np.random.default_rng(8)
    wrong = random.random((2, 600)) < np.array([[0.25], [0.05]])
    judged = [column(erring(row, 0.2, 0.2, random)) for row in wrong]
    falls = pair(judged[1], judged[0]), pair(column(wrong[1]), column(wrong[0]))
    possible = [(0, 0), (0, 1), (1, 1), (-1, 0)]
    over = correct(falls[0], first(falls[1], 100))
    under = correct(judged[0], first(column(wrong[0]), 100))
    summary = summarise_corrected_ratio(over, under, possible)
    low, high = ends(summary)
    width = high - low
    assert count_wanted(over, under, possible, width) == 100
    assert 150 < (count_wanted(over, under, possible, 0.7 * width) or 0) < 400
