"""ConvBench's metrics give the cells of its hand-made tables and what runs are compared in."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import pytest

from mmconv.benchmarks.convbench.compared import compared_quantities
from mmconv.benchmarks.convbench.layouts import layouts
from mmconv.benchmarks.convbench.metrics import gradings, metrics
from mmconv.benchmarks.convbench.tables import build_tables
from mmconv.benchmarks.layouts import Context, make_tables
from mmconv.benchmarks.metrics import Select, Together
from mmconv.stats import ScoreFrame
from mmconv.values import Score, Table
from tests.mmconv.benchmarks.agreement import different_cells, different_quantities
from tests.mmconv.benchmarks.convbench.test_tables import CONTEXT, SPEC, scores

TURNS = {
    "free": (1, 2, 3, 0),
    "perception": (2, 3, 0),
    "reasoning": (3, 0),
    "reasoning_alone": (2,),
}


def derived(frame: ScoreFrame) -> list[Table]:
    arranged = layouts(gradings({}), "cand", "judge", ())
    return make_tables(arranged, [*metrics({}, CONTEXT.official)], frame, Context(candidate="cand"))


def drawn(seed: int, *, both: bool = False, lost: float = 0.0) -> Iterator[Score]:
    """Scores of 60 samples, two to an image; `lost` of them are unparsed."""
    chance = random.Random(seed)
    for sample in range(60):
        sides = "AB" if both else "AB"[sample % 2]
        for condition, turns in TURNS.items():
            for turn in turns:
                for side in (None, *sides):
                    is_lost = chance.random() < lost
                    value = float(chance.randint(1, 10) if side is None else chance.randint(0, 1))
                    yield Score(
                        sample=str(sample),
                        condition=condition,
                        metric="rating" if side is None else "win",
                        turn=turn,
                        tags={"cluster": f"image {sample // 2}", "category": f"kind {sample % 3}"}
                        | ({} if side is None else {"side": side}),
                        value=None if is_lost else value,
                        why="unparsed" if is_lost else None,
                    )
                if turn:
                    for metric in ("truncated", "filtered", "empty"):
                        yield Score(
                            sample=str(sample),
                            condition=condition,
                            metric=metric,
                            turn=turn,
                            value=float(chance.random() < 0.1),
                        )


@pytest.mark.parametrize(
    "given",
    [[*drawn(1)], [*drawn(2, both=True)]],
    ids=["one order", "both orders"],
)
def test_cells_and_columns_agree_with_those_made_by_hand(given: Iterable[Score]) -> None:
    frame = ScoreFrame(given)
    assert different_cells(build_tables(frame, CONTEXT), derived(frame)) == {}
    old = (each for each in compared_quantities(frame, SPEC) if each.name not in ("R1", "R2"))
    assert different_quantities(frame, old, metrics({})) == []


def test_only_overall_means_change_if_scores_are_missing() -> None:
    """R1 and R2 are now over the samples that n counts: those that have every part."""
    for given in ([*scores()], [*drawn(3, both=True, lost=0.05)]):
        frame = ScoreFrame(given)
        changed = different_cells(build_tables(frame, CONTEXT), derived(frame))
        cells = {(table, row if table == "scores" else column) for table, row, column in changed}
        assert cells <= {
            (table, name)
            for table in ("scores", "paper_direct", "paper_pairwise")
            for name in ("R1", "R2")
        }


def test_an_overall_mean_is_over_the_samples_that_have_every_part() -> None:
    frame = ScoreFrame(scores())
    [table] = [each for each in derived(frame) if each.name == "scores"]
    cell = table.rows["R2"]["direct (1-10)"]
    assert (cell.n, cell.missing) == (2, {"unparsed": 1})
    assert cell.value == pytest.approx(((4 + 2 + 3) / 3 + (6 + 6 + 9) / 3) / 2)


def test_a_sample_without_any_row_in_a_part_is_missing() -> None:
    given = [score for score in scores() if (score.sample, score.turn) != ("1", 3)]
    column = Together((Select("rating", turn=1), Select("rating", turn=3)))(ScoreFrame(given))
    assert dict(zip(column.samples, column.reasons, strict=True))["1"] == "not scored"
    assert column.present.tolist() == [False, True, True]
