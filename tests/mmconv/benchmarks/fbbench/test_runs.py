"""Whole runs: the authors' file with fakes, and a tiny language model through transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.engine.run import Result
from tests.mmconv.benchmarks.fbbench.samples import RELEASE, mixed, needs_release, write
from tests.mmconv.report.runs import evaluate

ECHO = ModelSpec(provider="fake", model="echo")
JUDGE = ModelSpec(provider="fake", model="judge")


def spec(data: Path, candidate: ModelSpec = ECHO, **options: Any) -> RunSpec:
    return RunSpec(
        benchmark="fbbench",
        options={"data": str(data), **options},
        models={"candidate": candidate, "judge": JUDGE},
    )


def scores(result: Result) -> list[dict[str, Any]]:
    lines = (result.folder / "scores.jsonl").read_bytes().splitlines()
    return sorted(map(orjson.loads, lines), key=lambda score: (score["sample"], score["metric"]))


@needs_release
async def test_the_authors_file_runs_to_its_end(tmp_path: Path) -> None:
    result = await evaluate(spec(RELEASE), tmp_path, page=True)
    assert result.complete
    asked = {name: role.requested for name, role in result.stats.models.items()}
    assert asked == {"candidate": 591, "judge": 591}
    tables = {table.name: table for table in result.tables}
    row = tables["scores"].rows["echo"]
    assert (row["overall"].n, row["overall"].missing) == (591, {})
    assert len(tables["subtasks"].rows) == 24
    assert {cell["samples"].value for cell in tables["faults"].rows.values()} == {0.0}


async def test_interrupted_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    whole = spec(write(tmp_path / "data.json", mixed(12)))
    expected = await evaluate(whole, tmp_path / "whole")
    half = await evaluate(whole.model_copy(update={"limit": 5}), tmp_path / "parts")
    assert half.stats.models["judge"].requested == 5
    resumed = await evaluate(whole, tmp_path / "parts")
    assert scores(resumed) == scores(expected)
    assert resumed.tables == expected.tables
    assert resumed.stats.models["candidate"].requested == 7
    assert resumed.stats.models["judge"].cached == 5


async def test_a_tiny_language_model_answers(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the extra hf")
    from tests.tiny_checkpoints import make_checkpoint

    folder = make_checkpoint("qwen2", tmp_path / "qwen2")
    candidate = ModelSpec(provider="hf", model=str(folder))
    data = write(tmp_path / "data.json", mixed(6))
    result = await evaluate(spec(data, candidate, max_tokens=8), tmp_path / "runs")
    assert result.stats.models["candidate"].requested == 6
    assert [role.failed for role in result.stats.models.values()] == [0, 0]
    tables = {table.name: table for table in result.tables}
    assert tables["scores"].rows["qwen2"]["overall"].n == 6
    assert tables["answers"].rows["Error Correction"]["tokens"].n == 3


async def test_an_unreadable_judge_scores_nothing(tmp_path: Path) -> None:
    chosen = spec(write(tmp_path / "data.json", mixed(4)))
    unreadable = ModelSpec(provider="fake", model="unreadable")
    chosen = chosen.model_copy(update={"models": {"candidate": ECHO, "judge": unreadable}})
    result = await evaluate(chosen, tmp_path / "runs")
    assert result.stats.models["judge"].requested == 12
    row = {table.name: table for table in result.tables}["scores"].rows["echo"]
    for cell in row.values():
        assert (cell.value, cell.n) == (None, 0)
        assert sum(cell.missing.values()) in (2, 4)
