"""Planted faults come back: rates, attribution, the level at which a model breaks."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.mmconv.benchmarks.scenes.rehearsal import Rehearsal, holds, truth

RUNS = 60


@pytest.fixture(scope="module")
def rehearsal() -> Rehearsal:
    return Rehearsal()


def test_an_oracle_is_always_right_and_breaks_nowhere(rehearsal: Rehearsal) -> None:
    frame = rehearsal.run(lambda _: (0.0, 0.0, 0.0), seed=1)
    for place, cell in rehearsal.measured(frame, rehearsal.metrics).items():
        assert place[0] not in ("scores", "breaks") or cell.value in (100.0, ">10")


def test_intervals_hold_the_planted_rates_and_attribution(rehearsal: Rehearsal) -> None:
    """`tests.bench.scenes planted` has the exact shares, of 300 runs."""
    rates = (0.3, 0.2, 0.1)
    known = dict(truth(*rates))
    held: Counter[tuple[str, str]] = Counter()
    for seed in range(RUNS):
        cells = rehearsal.measured(rehearsal.run(lambda _: rates, seed), known)
        held.update(place for place, value in known.items() if holds(cells[place], value))
    assert sum(held.values()) >= 0.93 * RUNS * len(known)
    assert min(held[place] for place in known) >= 0.85 * RUNS, held


def test_a_model_breaks_where_its_faults_begin(rehearsal: Rehearsal) -> None:
    held, place = 0, ("breaks", "S1, perception")
    for seed in range(RUNS // 2):
        frame = rehearsal.run(lambda level: (min(1.0, level / 12), 0.0, 0.0), seed)
        held += holds(rehearsal.measured(frame, [place])[place], 6.0)
    assert held >= 0.93 * RUNS // 2
