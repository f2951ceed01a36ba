"""MT-Bench-101's metrics give the cells of its hand-made tables and what runs are compared in."""

from __future__ import annotations

import pytest

from mmconv.benchmarks.layouts import Context, make_tables
from mmconv.benchmarks.mtbench101.compared import compared_quantities
from mmconv.benchmarks.mtbench101.metrics import layouts, metrics
from mmconv.benchmarks.mtbench101.quantities import Entrant
from mmconv.benchmarks.mtbench101.tables import TableContext, build_tables
from mmconv.config import ModelSpec, RunSpec
from mmconv.stats import ScoreFrame
from tests.mmconv.benchmarks.agreement import different_cells, different_quantities
from tests.mmconv.benchmarks.mtbench101.test_tables import GOLDEN, SELF, scores

MANY = {
    task: [[str((5 * place + 3 * turn) % 10 + 1) for turn in range(3)] for place in range(8)]
    for task in ("CM", "SI", "MR", "PI")
}


@pytest.mark.parametrize("minimum", [True, False])
@pytest.mark.parametrize("golden", [GOLDEN, MANY], ids=["gaps", "many"])
def test_cells_and_columns_agree_with_those_made_by_hand(
    golden: dict[str, list[list[str]]], *, minimum: bool
) -> None:
    frame = ScoreFrame(scores(golden, "golden", minimum=minimum))
    context = TableContext(candidate="cand", judge="judge", minimum=minimum)
    old = build_tables([Entrant(name="cand", frame=frame, condition="golden")], context)
    made = [*metrics(minimum=minimum)]
    new = make_tables(
        layouts("cand", "judge", minimum=minimum), made, frame, Context(candidate="cand")
    )
    assert [table.name for table in old] == [table.name for table in new]
    assert different_cells(old, new) == {}
    spec = RunSpec(
        benchmark="mtbench101",
        seats={"candidate": ModelSpec(provider="fake", model="echo", name="cand")},
        options={"data": "data.jsonl", "minimum": minimum},
    )
    assert different_quantities(frame, compared_quantities(frame, spec), made) == []


def test_the_effect_of_the_own_history_agrees_too() -> None:
    frame = ScoreFrame([*scores(GOLDEN, "golden"), *scores(SELF, "self")])
    entrants = [
        Entrant(name=name, frame=frame, condition=condition)
        for name, condition in (("cand", "golden"), ("cand (self history)", "self"))
    ]
    old = build_tables(entrants, TableContext(candidate="cand", judge="judge"))
    made = [*metrics()]
    new = make_tables(layouts("cand", "judge"), made, frame, Context(candidate="cand"))
    kept = [table for table in old if table.name in ("histories", "paper_authors")]
    changed = different_cells(kept, new)
    # the other history has a table of its own in place of a second row
    assert {row for _, row, _ in changed} == {"cand (self history)"}
    spec = RunSpec(
        benchmark="mtbench101",
        seats={"candidate": ModelSpec(provider="fake", model="echo", name="cand")},
        options={"data": "data.jsonl"},
    )
    assert different_quantities(frame, compared_quantities(frame, spec), made) == []
