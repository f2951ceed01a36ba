"""Plans from pilots: what they promise is found, and no more is promised than a pilot knows."""

import numpy as np
import pytest

from mmconv.core.plans import name_trial
from mmconv.stats import Column, summarise
from mmconv.stats.corrections import correct
from mmconv.stats.power import count_labels, count_samples, count_trials, count_verdicts, detectable


def found(runs: int, effect: float = 0.4) -> float:
    """The share of runs that find an effect, each as large as a pilot of its own planned it."""
    hits = 0
    for seed in range(runs):
        random = np.random.default_rng([31, seed])
        pilot = Column.of(random.normal(0.1, 1, 100).tolist())
        size = count_samples(pilot, effect)
        assert size is not None
        summary = summarise(Column.of(random.normal(effect, 1, size).tolist()))
        assert summary.low is not None
        hits += summary.low > 0
    return hits / runs


def test_a_planned_effect_is_found_in_four_of_five_runs() -> None:
    assert 0.75 <= found(400) <= 0.85


def test_the_effect_that_a_pilot_can_find_needs_no_more_samples() -> None:
    pilot = Column.of(np.random.default_rng(1).normal(0, 1, 60).tolist())
    effect = detectable(pilot)
    assert effect is not None
    assert count_samples(pilot, effect) == pytest.approx(60, abs=1)
    assert count_samples(pilot, effect / 2) == pytest.approx(230, abs=8)


def trials(within: float, size: int = 200) -> Column:
    """Two trials of each sample: a part that stays and one that is drawn again."""
    random = np.random.default_rng(2)
    stays = random.normal(0, 1, size)
    values, samples, clusters = [], [], []
    for trial in (1, 2):
        values += (stays + random.normal(0, within, size)).tolist()
        samples += [name_trial(str(row), trial) for row in range(size)]
        clusters += [str(row) for row in range(size)]
    return Column.of(values, samples=samples, clusters=clusters)


def test_trials_help_only_what_varies_within_samples() -> None:
    noisy, steady = trials(4.0), trials(0.1)
    now = detectable(noisy)
    assert now is not None
    assert count_trials(noisy, now) == 2
    more = count_trials(noisy, 0.7 * now)
    assert more is not None
    assert 4 <= more <= 7
    assert count_samples(noisy, 0.7 * now) == pytest.approx(200 / 0.49, rel=0.03)
    assert count_trials(steady, 0.7 * (detectable(steady) or 0.0)) is None


def test_more_verdicts_help_only_what_varies_between_them() -> None:
    random = np.random.default_rng(5)
    answers = random.normal(0, 1, 200)
    noisy, steady = (
        [Column.of((answers + shift + random.normal(0, sd, 200)).tolist()) for shift in (0.0, 2.0)]
        for sd in (3.0, 0.01)
    )
    now = detectable(Column.of(((noisy[0].numbers + noisy[1].numbers) / 2).tolist()))
    assert now is not None
    # that one judge gives everything 2 more does not count
    assert count_verdicts(noisy, now) in {2, 3}
    assert (count_verdicts(noisy, 0.7 * now) or 0) > 3
    assert count_verdicts(steady, 0.1) is None
    assert count_verdicts(noisy[:1], now) is None


def test_a_pilot_of_one_trial_or_of_few_samples_knows_less() -> None:
    assert count_trials(Column.of([0.0, 1.0, 0.5, 0.2, 0.9, 0.4]), 0.1) is None
    assert detectable(Column.of([0.0, 1.0])) is None
    assert count_samples(Column.of([0.0, 1.0]), 0.1) is None


def test_labels_help_until_only_more_samples_would() -> None:
    random = np.random.default_rng(3)
    truth = random.normal(0, 1, 400)
    judged = Column.of((truth + random.normal(0, 0.5, 400)).tolist())
    correction = correct(judged, Column.of(truth[:40].tolist()))
    assert (count_labels(correction, 0.2) or 0) > 40
    assert count_labels(correction, 0.05) is None
