"""What the document changes: con - uncon, paired by dialogue, against numbers by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from mmconv.benchmarks.botchat.compared import CHANGE, compared_quantities
from mmconv.benchmarks.botchat.document_effect import changes_table
from mmconv.benchmarks.botchat.options import DupDetect
from mmconv.benchmarks.botchat.scoring import DUP, JUDGE, LOSS, OURS, WIN
from mmconv.benchmarks.botchat.table_rows import TableContext
from mmconv.core.types import Cell, Score
from mmconv.engine.run import Place, open_evaluation
from mmconv.report.comparison.differences import compare
from mmconv.run_folder.saved_run import read_scores
from mmconv.stats import Column, ScoreFrame, paired_share_difference
from mmconv.stats.contrasts import measure
from tests.mmconv.benchmarks.botchat.samples import OTHER, SPEAKER, record, spec, write

Shares = Mapping[str, Sequence[float | None]]
"""Condition -> a 0, a 1, or None for every dialogue."""


def scores(metric: str, shares: Shares, model: str = "first", **tags: str) -> Iterator[Score]:
    for condition, values in shares.items():
        for number, value in enumerate(values):
            yield Score(
                sample=f"MT-{number}",
                condition=condition,
                metric=metric,
                turn=16 if metric == "pass" else None,
                tags={"model": model, **tags},
                value=value,
                why="unparsed" if value is None else None,
            )


def passed(uncon: Sequence[float | None], con: Sequence[float | None]) -> Iterator[Score]:
    yield from scores("pass", {"uncon": uncon, "con": con}, reading=OURS)


def duels(dup: str, order: str, uncon: Sequence[float], con: Sequence[float]) -> Iterator[Score]:
    tags = {"reading": OURS, "dup": dup, "order": order, "length": "4"}
    points = {"uncon": uncon, "con": con}
    yield from scores("duel", points, opponent="GT", protocol="GTEval", **tags)


def spoken(*conditions: str, model: str = "first") -> Iterator[Score]:
    """What only a model that talks in the run has."""
    yield from scores("dropped", {name: [0.0] for name in conditions}, model)


def changes(*found: Iterator[Score]) -> Mapping[str, Mapping[str, Cell]]:
    frame = ScoreFrame(score for each in found for score in each)
    context = TableContext(judge="judged by j", dup_detect=DupDetect(), compared="8 of the 8")
    return changes_table(frame, context).rows


BOTH = ("uncon", "con")
UNCON = [1.0, 1.0, 0.0, 0.0, 0.0, 1.0, None, 0.0]
CON = [1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, None]


def test_differences_are_paired_and_tell_what_is_missing() -> None:
    cell = changes(spoken(*BOTH), passed(UNCON, CON))["first"]["UniEval, N=16"]
    assert cell.value == pytest.approx(100 * (3 - 1) / 6)
    assert (cell.n, dict(cell.missing)) == (
        6,
        {"unpaired: uncon: unparsed": 1, "unpaired: con: unparsed": 1},
    )
    summary = paired_share_difference(Column.of(UNCON[:6]), Column.of(CON[:6]))
    assert summary.low is not None
    assert summary.high is not None
    assert cell.low == pytest.approx(100 * summary.low)
    assert cell.high == pytest.approx(100 * summary.high)


def test_comparisons_are_paired_in_each_order() -> None:
    won, lost = [WIN] * 6, [LOSS] * 6
    row = changes(
        spoken(*BOTH),
        duels(JUDGE, "1", lost, won),
        duels(JUDGE, "2", lost, [WIN, *lost[1:]]),
        duels(DUP, "1", won, lost),
    )["first"]
    cell = row["GTEval win+tie"]
    assert cell.value == pytest.approx(100 * 7 / 12)
    assert cell.n == 12
    assert cell.low is not None
    assert row["GTEval win+tie, DupDetect first"].value == -100


def test_only_models_that_talk_under_both_conditions_have_a_row() -> None:
    loops = {"uncon": [1.0], "con": [1.0]}
    assert not changes(scores("non_loop", loops, "stored"), scores("non_loop", loops, "GT"))
    assert not changes(spoken("con"), scores("non_loop", {"con": [1.0]}))
    assert not changes(spoken("uncon"), scores("non_loop", {"uncon": [1.0]}))
    found = changes(spoken(*BOTH, model="rival"), scores("non_loop", loops, "rival"))
    assert list(found) == ["rival"]
    assert list(found["rival"]) == ["non-loop dialogues"]


async def test_a_run_of_both_conditions_and_a_comparison_of_two(tmp_path: Path) -> None:
    rows = [record(number, 4, title="Tea", text="About tea.") for number in range(1, 8)]
    data = write(tmp_path / "data.jsonl", rows)
    folders = []
    for candidate in (SPEAKER, OTHER):
        chosen = spec(data)
        chosen = chosen.model_copy(
            update={"benchmark": "botchat", "seats": {**chosen.seats, "candidate": candidate}}
        )
        async with open_evaluation(chosen, Place(out=tmp_path / "runs")) as evaluation:
            result = await evaluation.run(evaluation.runner())
        folders.append(result.folder)
        [table] = [table for table in result.tables if table.name == "conditions"]
        assert table.signed
        [(label, row)] = table.rows.items()
        assert label == candidate.model
        assert [row[f"UniEval, N={length}"].n for length in (4, 8, 12, 16)] == [7] * 4
        assert row["GTEval win+tie"].n == 14
        frame = ScoreFrame(read_scores(result.folder / "scores.jsonl"))
        found = [each for each in compared_quantities(frame, chosen) if each.kind == "change"]
        assert [each.name for each in found] == list(row)
        for each in found:
            summary = measure(each)
            assert 100 * (summary.mean or 0.0) == pytest.approx(row[each.name].value)
            assert summary.n == row[each.name].n
    tables = {table.name: table for table in compare(folders).tables}
    assert tables["delta_differences"].rows["GTEval win+tie"][CHANGE].n == 14
    assert list(tables["conditions"].rows) == ["first", "second"]


async def test_a_run_of_one_condition_has_no_such_table(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [record(1), record(2)])
    async with open_evaluation(spec(data), Place(out=tmp_path / "runs")) as evaluation:
        result = await evaluation.run(evaluation.runner())
    assert "conditions" not in [table.name for table in result.tables]
