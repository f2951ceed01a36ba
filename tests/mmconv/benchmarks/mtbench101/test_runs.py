"""Whole runs: the authors' file with fakes, and a tiny language model through transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.benchmarks.mtbench101 import AUTHORS_TITLE, MINIMUM_TITLE
from mmconv.core.config import ModelSpec
from mmconv.core.types import Table
from mmconv.engine.run import Result
from tests.mmconv.benchmarks.mtbench101.dialogues import (
    JUDGE,
    REAL,
    TURNS,
    needs_real,
    records,
    spec,
    write,
)
from tests.mmconv.report.runs import evaluate

OWN_TURNS = 22
"""Of the thirteen dialogues."""


def scores(result: Result) -> list[dict[str, Any]]:
    lines = (result.folder / "scores.jsonl").read_bytes().splitlines()
    return sorted(
        map(orjson.loads, lines),
        key=lambda score: (score["sample"], score["metric"], score["turn"]),
    )


def named(result: Result) -> dict[str, Table]:
    return {table.name: table for table in result.tables}


@needs_real
async def test_the_authors_file_runs_to_its_end(tmp_path: Path) -> None:
    result = await evaluate(spec(REAL), tmp_path, page=True)
    assert result.complete
    for role in result.stats.models.values():
        # some dialogues open with the same words: one request, and the stored reply
        assert role.requested + role.cached == 3615
        assert role.failed == 0
    tables = named(result)
    average = tables["scores"].rows["average"]
    assert (average[MINIMUM_TITLE].n, average[MINIMUM_TITLE].missing) == (1388, {})
    # the fake judge gives whole numbers from 1 to 10, so the two readings agree
    assert average[AUTHORS_TITLE].value == pytest.approx(average[MINIMUM_TITLE].value, abs=0.005)
    assert tables["unscored"].rows["all"]["scored"].value == 3615


async def test_interrupted_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    whole = spec(write(tmp_path / "data.jsonl", records()))
    expected = await evaluate(whole, tmp_path / "whole")
    half = await evaluate(whole.model_copy(update={"limit": 5}), tmp_path / "parts")
    asked = half.stats.models["judge"].requested
    assert 0 < asked < OWN_TURNS
    resumed = await evaluate(whole, tmp_path / "parts")
    assert scores(resumed) == scores(expected)
    assert resumed.tables == expected.tables
    assert resumed.stats.models["judge"].cached == asked
    assert resumed.stats.models["judge"].requested == OWN_TURNS - asked


async def test_both_histories_in_one_run(tmp_path: Path) -> None:
    chosen = spec(write(tmp_path / "data.jsonl", records()))
    both = chosen.model_copy(update={"conditions": ("golden", "self")})
    result = await evaluate(both, tmp_path / "runs")
    tables = named(result)
    assert list(tables["paper"].rows) == list(tables["paper_self"].rows) == ["echo"]
    assert "Where no history is named, it is the golden one." in tables["scores"].notes
    # the first generated turn has the same history either way, and the same judgement
    first = tables["histories"].rows["SI"]["turn 1"]
    assert (first.value, first.n) == (0, 1)


async def test_a_tiny_language_model_answers(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the extra hf")
    from tests.tiny_checkpoints import make_checkpoint

    candidate = ModelSpec(provider="hf", model=str(make_checkpoint("llama", tmp_path / "llama")))
    data = write(tmp_path / "data.jsonl", records())
    chosen = spec(data, candidate, max_tokens=8).model_copy(
        update={"conditions": ("golden", "self")}
    )
    result = await evaluate(chosen, tmp_path / "runs")
    assert [role.failed for role in result.stats.models.values()] == [0, 0]
    tables = named(result)
    for column, answers in (
        (MINIMUM_TITLE, "answers"),
        (f"{MINIMUM_TITLE}, self history", "answers_self"),
    ):
        assert tables["scores"].rows["average"][column].n == len(TURNS)
        assert tables[answers].rows["SI"]["tokens"].n == 3


async def test_an_unreadable_judge_scores_nothing(tmp_path: Path) -> None:
    chosen = spec(write(tmp_path / "data.jsonl", records()[:2]))
    unreadable = JUDGE.model_copy(update={"model": "unreadable"})
    roles = {**chosen.models, "judge": unreadable}
    result = await evaluate(chosen.model_copy(update={"models": roles}), tmp_path / "runs")
    assert result.stats.models["judge"].requested == 2 * 5
    cells = named(result)["scores"].rows["average"]
    assert cells[MINIMUM_TITLE].value is cells[AUTHORS_TITLE].value is None
    assert cells[MINIMUM_TITLE].missing == {"unparsed": 2}


async def test_a_run_without_judgements_still_tells_how_answers_ended(tmp_path: Path) -> None:
    chosen = spec(write(tmp_path / "data.jsonl", records()), generate_only=True)
    result = await evaluate(chosen, tmp_path / "runs")
    assert list(named(result)) == ["answers"]
    assert set(named(result)["answers"].rows) == set(TURNS)
