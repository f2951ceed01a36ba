"""What the merged tables of several runs are called."""

from __future__ import annotations

from mmconv.core.types import Cell, Table
from mmconv.report.comparison.differences import Named, merge_tables


def run(label: str, judge: str, candidate: str = "echo") -> Named:
    scores = Table(
        name="scores",
        title=f"Scores of {candidate}, judged by {judge}",
        columns=("mean",),
        rows={"R1": {"mean": Cell(value=1.0)}},
    )
    return Named(label=label, candidate=candidate, tables=[scores])


def test_a_judge_of_the_candidate_s_name_keeps_it() -> None:
    [merged] = merge_tables([run("echo (1)", "echo"), run("echo (2)", "echo")])
    assert merged.title == "Scores of echo (1), echo (2), judged by echo"


def test_every_judge_is_named() -> None:
    [merged] = merge_tables([run("echo (1)", "arbiter"), run("echo (2)", "echo")])
    assert merged.title == "Scores of echo (1), echo (2), judged by arbiter and echo"


def test_a_title_without_a_judge_has_the_labels_alone() -> None:
    tables = [Table(name="ends", title="How the answers of a ended", columns=(), rows={})]
    [merged] = merge_tables(
        [Named(label=label, candidate="a", tables=tables) for label in ("x", "y")]
    )
    assert merged.title == "How the answers of x, y ended"


def test_words_of_the_benchmark_are_nobody_s_name() -> None:
    table = Table(
        name="scores",
        title="Scores (free setting), judged by arbiter",
        columns=("direct (1-10)",),
        rows={"S1 (perception)": {"direct (1-10)": Cell(value=1.0)}},
    )
    runs = [
        Named(label=each, candidate=each, tables=[table])
        for each in ("direct", "perception", "free")
    ]
    [merged] = merge_tables(runs)
    assert merged.title == table.title
    assert merged.columns == table.columns
    assert {name: [*row] for name, row in merged.rows.items()} == {
        f"S1 (perception), {run.label}": ["direct (1-10)"] for run in runs
    }
