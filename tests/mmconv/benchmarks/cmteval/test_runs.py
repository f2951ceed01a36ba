"""Whole runs: the authors' files with fakes, a tiny LLM with a fake judge, and a resumed run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.cli.shared.session import exit_code
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.engine.run import Result
from tests.mmconv.benchmarks.cmteval.dialogues import REAL, write_folder
from tests.mmconv.report.runs import evaluate

ECHO = ModelSpec(provider="fake", model="echo")

JUDGE = ModelSpec(
    provider="fake",
    model="judge",
    options={
        "lowest": 1,
        "highest": 5,
        "closing": {
            "统筹能力": '{"评估结果": [{"轮次": "1", "统筹能力": {rating}, "适应能力": 5},'
            ' {"轮次": "2-11", "统筹能力": 4, "适应能力": {rating}}]}'
        },
    },
)


def spec(data: Path, candidate: ModelSpec = ECHO, **options: Any) -> RunSpec:
    return RunSpec(
        benchmark="cmteval",
        options={"data": str(data), **options},
        models={"candidate": candidate, "judge": JUDGE},
    )


def read(result: Result, name: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (result.folder / name).read_bytes().splitlines()]


@pytest.mark.skipif(not REAL.is_dir(), reason="the authors' data are not here")
async def test_the_authors_files_take_4431_replies_and_596_judgements(tmp_path: Path) -> None:
    result = await evaluate(spec(REAL), tmp_path, page=True)
    assert result.complete
    roles = result.stats.models
    assert (roles["candidate"].ended, roles["judge"].ended) == (4431, 596)
    assert result.stats.finished == 596
    tables = {table.name: table for table in result.tables}
    counted = tables["speech_act_counts"].rows
    # the paper's Table 11
    assert [counted["Supplementation, all"][f"turn {turn}"].value for turn in range(2, 11)] == (
        [153, 57, 126, 181, 123, 56, 24, 8, 2]
    )
    assert [counted["Follow-up, all"][f"turn {turn}"].value for turn in range(2, 12)] == (
        [305, 204, 162, 94, 130, 112, 87, 50, 30, 13]
    )
    assert counted["Suggestion, standard"]["turn 2"].value == 1
    sizes = {name: cell["DLS"].n for name, cell in tables["scores"].rows.items()}
    assert sizes == {
        "echo, standard": 271,
        "echo, hard": 262,
        "echo, long-text": 63,
        "echo, overall": 596,
    }
    assert tables["personas"].rows["Mr.Qi"]["echo, standard"].n == 42


async def test_a_tiny_model_answers_and_is_judged(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from tests.tiny_checkpoints import make_checkpoint

    checkpoint = make_checkpoint("qwen2", tmp_path / "tiny")
    candidate = ModelSpec(provider="hf", model=str(checkpoint), name="tiny")
    folder = write_folder(tmp_path / "data", dialogues=2)
    result = await evaluate(spec(folder, candidate, max_tokens=8), tmp_path / "runs")
    assert result.complete
    states = Counter((call["model"], call["state"]) for call in read(result, "transcripts.jsonl"))
    assert states == {("candidate", "reply"): 18, ("judge", "reply"): 6}
    scores = read(result, "scores.jsonl")
    assert sum(score["metric"] == "DLS" and score["value"] is not None for score in scores) == 6


async def test_a_judgement_without_a_turn_is_requested_again_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {
        "lowest": 1,
        "highest": 5,
        "closing": {
            "统筹能力": '{"评估结果": [{"轮次": "1", "统筹能力": {rating}, "适应能力": 5}]}'
        },
    }
    judge = ModelSpec(provider="fake", model="judge", options=options)
    wanted = spec(write_folder(tmp_path / "data", dialogues=2), judge_retries=1)
    wanted = wanted.model_copy(update={"models": {"candidate": ECHO, "judge": judge}})
    result = await evaluate(wanted, tmp_path / "runs")
    assert result.stats.models["judge"].requested == 12
    assert (result.shortfall.incomplete, result.shortfall.verdicts) == (6, 6)
    parses = {
        each["parse"] for each in read(result, "transcripts.jsonl") if each["model"] == "judge"
    }
    assert parses == {"incomplete: lacks 4"}
    by_act = next(table for table in result.tables if table.name == "scores")
    assert by_act.rows["echo, standard"]["DLS"].missing == {"missing in the judgement": 2}
    assert exit_code(result, store="") == 1
    assert "100.0% of the verdicts could not be read, or not in full" in capsys.readouterr().err
    assert exit_code(result, store="", max_failures=1.0) == 0
