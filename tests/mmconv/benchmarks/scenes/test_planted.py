"""Planted faults come back: rates, attribution, the level at which a model breaks."""

from collections import Counter

import pytest

from mmconv.benchmarks.base.layouts import Context, make_tables
from tests.mmconv.benchmarks.scenes.rehearsal import Rehearsal, holds, truth

RUNS = 60


@pytest.fixture(scope="module")
def rehearsal() -> Rehearsal:
    return Rehearsal()


def test_an_oracle_is_always_right_and_breaks_nowhere(rehearsal: Rehearsal) -> None:
    frame = rehearsal.run(lambda _: (0.0, 0.0, 0.0), seed=1)
    for place, cell in rehearsal.measured(frame, rehearsal.metrics).items():
        if place[0] == "breaks":
            assert isinstance(cell.value, float)
            assert (cell.outside(cell.value), cell.low) == (">10", None)
        else:
            assert place[0] != "scores" or cell.value == 100


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
    held, place = 0, ("breaks", "S1")
    for seed in range(RUNS // 2):
        frame = rehearsal.run(lambda level: (min(1.0, level / 12), 0.0, 0.0), seed)
        held += holds(rehearsal.measured(frame, [place])[place], 6.0)
    assert held >= 0.93 * RUNS // 2


def test_tables_have_curves_by_level_and_a_leaderboard_numbers(
    rehearsal: Rehearsal,
) -> None:
    frame = rehearsal.run(lambda level: (level / 12, 0.0, 0.0), seed=1)
    layouts, metrics = [*rehearsal.scenes.layouts()], [*rehearsal.scenes.metrics()]
    made = make_tables(layouts, metrics, {"planted": frame}, Context(candidate="planted"))
    tables = {table.name: table for table in made}
    curves = tables["levels"]
    assert curves.axis
    assert curves.columns == ("meaning", curves.axis.mark, *(f"level {n}" for n in range(1, 11)))
    assert curves.rows["S1"][curves.axis.mark] == tables["breaks"].rows["S1"][curves.axis.mark]
    [board] = rehearsal.scenes.boards([tables])
    for part in board.parts:
        assert any(place.find(tables, "planted") for place in part.columns.values()), part.title
