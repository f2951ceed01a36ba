"""How answers ended, in each benchmark's own table: an empty one is judged, and counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.benchmarks.answers import COLUMNS, EMPTY, METRICS, ending
from mmconv.benchmarks.convbench.scenes import write_scenes
from mmconv.config import ModelSpec, RunSpec
from mmconv.evaluation import Place, open_evaluation
from mmconv.values import Failure, Reply, Table
from tests.mmconv.benchmarks.botchat import samples as botchat
from tests.mmconv.benchmarks.cmteval import dialogues as cmteval
from tests.mmconv.benchmarks.fbbench import samples as fbbench
from tests.mmconv.benchmarks.mtbench101 import dialogues as mtbench101

SILENT = ModelSpec(provider="fake", model="scripted", options={"script": {".*": ""}})
JUDGE = ModelSpec(provider="fake", model="judge")


def drawn(folder: Path) -> dict[str, Any]:
    data, images = write_scenes(folder / "scenes", 2)
    return {"data": str(data), "images": str(images)}


def stored(name: str, *records: Any) -> Callable[[Path], dict[str, Any]]:
    def write(folder: Path) -> dict[str, Any]:
        (folder / name).write_bytes(orjson.dumps(records))
        return {"data": str(folder / name)}

    return write


DATA: dict[str, Callable[[Path], dict[str, Any]]] = {
    "botchat": stored("a.json", botchat.record(1)),
    "cmteval": stored("standard_data.json", cmteval.record("1")),
    "convbench": drawn,
    "fbbench": stored("a.json", fbbench.correction(1)),
    "mtbench101": stored("a.json", *mtbench101.records()[:2]),
}
"""Benchmark -> what writes a few records and says which options name them."""


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
    assert {row["cut off (%)"].value for row in table.rows.values()} == {0.0}


@pytest.mark.parametrize(("text", "empty"), [("", 1.0), (" \n", 1.0), ("No.", 0.0)])
def test_blanks_alone_are_no_answer(text: str, empty: float) -> None:
    assert ending(EMPTY, Reply(text=text)) == (empty, None)


@pytest.mark.parametrize("metric", METRICS)
def test_what_failed_did_not_end(metric: str) -> None:
    failed = Failure(kind="context", message="too long", attempts=1)
    assert ending(metric, failed) == (None, "failed: context")
