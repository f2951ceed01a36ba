"""How answers ended, in each benchmark's own table: an empty one is judged, and counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmconv.benchmarks.answers import COLUMNS, EMPTY, FILTERED, METRICS, TRUNCATED, ending
from mmconv.config import ModelSpec, RunSpec
from mmconv.evaluation import Place, open_evaluation
from mmconv.values import Failure, Finish, Reply, Table
from tests.mmconv.benchmarks.few_records import DATA

SILENT = ModelSpec(provider="fake", model="scripted", options={"script": {".*": ""}})
JUDGE = ModelSpec(provider="fake", model="judge")


async def endings(benchmark: str, folder: Path) -> Table:
    """The benchmark's table of endings, of a candidate that says nothing."""
    spec = RunSpec(
        benchmark=benchmark,
        options=DATA[benchmark](folder),
        seats={"candidate": SILENT, "judge": JUDGE},
    )
    async with open_evaluation(spec, Place(out=folder / "runs")) as evaluation:
        result = await evaluation.run(evaluation.runner())
    assert result.tally.seats["judge"].ended
    [table] = [table for table in result.tables if COLUMNS[0] in table.columns]
    return table


@pytest.mark.parametrize("benchmark", DATA)
async def test_empty_answers_are_counted(tmp_path: Path, benchmark: str) -> None:
    table = await endings(benchmark, tmp_path)
    assert "empty (%)" in table.columns
    assert {row["empty (%)"].value for row in table.rows.values()} == {100.0}
    for column in ("cut off (%)", "filtered (%)"):
        assert {row[column].value for row in table.rows.values()} == {0.0}


@pytest.mark.parametrize(("text", "empty"), [("", 1.0), (" \n", 1.0), ("No.", 0.0)])
def test_blanks_alone_are_no_answer(text: str, empty: float) -> None:
    assert ending(EMPTY, Reply(text=text)) == (empty, None)


@pytest.mark.parametrize(
    ("finish", "ended"), [("stop", (0, 0)), ("length", (1, 0)), ("filter", (0, 1))]
)
def test_a_filter_is_no_limit(finish: Finish, ended: tuple[int, int]) -> None:
    reply = Reply(text="I cannot", finish=finish)
    assert (ending(TRUNCATED, reply)[0], ending(FILTERED, reply)[0]) == ended


@pytest.mark.parametrize("metric", METRICS)
def test_what_failed_did_not_end(metric: str) -> None:
    failed = Failure(kind="context", message="too long", attempts=1)
    assert ending(metric, failed) == (None, "failed: context")
