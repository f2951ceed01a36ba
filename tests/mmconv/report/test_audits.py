"""A run that cites an audit of its judge is corrected, and only by an audit of that judge."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mmconv.benchmarks.registry import AUDIT
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import ConfigError
from mmconv.engine.run import Place, Result, open_evaluation, open_saved, read_run
from mmconv.report.audits import CARD, CITED
from tests.drawn_data import write_scenes
from tests.mmconv.processes import succeed
from tests.mmconv.report.runs import ALPHA, evaluate

PLANTED = "tests.mmconv.benchmarks.audit.planted_judge"


def judge(**errors: float) -> ModelSpec:
    return ModelSpec(provider=PLANTED, model="planted", options=errors)


def options_of(folder: Path) -> dict[str, Any]:
    data, images = write_scenes(folder / "data", 16)
    return {"data": str(data), "images": str(images), "grading": ["direct"], "order": "both"}


async def audit(folder: Path, model: ModelSpec, **options: Any) -> Path:
    spec = RunSpec(
        benchmark=AUDIT,
        options={"of": "convbench", **options_of(folder), **options},
        models={"candidate": model},
    )
    return (await evaluate(spec, folder / "runs")).folder


async def run_citing(folder: Path, model: ModelSpec, card: Path) -> Result:
    spec = RunSpec(
        benchmark="convbench",
        options=options_of(folder),
        models={"candidate": ALPHA, "judge": model},
    )
    async with open_evaluation(spec, Place(out=folder / "runs")) as evaluation:
        evaluation.cite(card)
        return await evaluation.run(evaluation.runner(), page=True)


async def test_a_run_is_corrected_by_the_rates_of_its_judge(tmp_path: Path) -> None:
    model = judge(fails_right=0.2)
    card = await audit(tmp_path, model)
    result = await run_citing(tmp_path, model, card)
    [table] = [each for each in result.tables if each.name == "attribution_corrected"]
    # the echo is wrong at every level, whatever came before
    own = table.rows["creation failed: due to creation"]["direct: of true failures"]
    assert own.value == 100
    assert any("by controls, not by people" in note for note in table.notes)
    page = (result.folder / "report.html").read_text(encoding="utf-8")
    assert "Where true failures come from" in page
    spec, place, shard, _ = read_run(result.folder)
    async with open_saved(result.folder, spec, place, shard) as evaluation:
        again = await evaluation.run(evaluation.runner(offline=True), page=False)
    assert again.tables == result.tables


async def test_another_judge_is_refused_by_name(tmp_path: Path) -> None:
    card = await audit(tmp_path, judge(fails_right=0.2))
    with pytest.raises(ConfigError, match="is of another judge; these differ: model"):
        await run_citing(tmp_path, judge(fails_right=0.3), card)
    card = await audit(tmp_path, judge(), judge_max_tokens=512, focus_points=False)
    with pytest.raises(
        ConfigError, match=r"these differ: options.focus_points, options.judge_max_tokens"
    ):
        await run_citing(tmp_path, judge(), card)
    with pytest.raises(ConfigError, match="no judge card found; run `mmconv judge`"):
        await run_citing(tmp_path, judge(), tmp_path)


async def test_nothing_is_corrected_by_a_judge_with_halo(tmp_path: Path) -> None:
    model = judge(fails_right=0.6, passes_wrong=0.1, halo=0.6)
    card = await audit(tmp_path, model)
    assert (card / CARD).is_file()
    result = await run_citing(tmp_path, model, card)
    assert (result.folder / CITED).is_file()
    assert "attribution_corrected" not in {table.name for table in result.tables}
    warnings = [note for note in result.tables[0].notes if note.startswith("WARNING: the audit")]
    assert "kinder after right turns in rating" in warnings[0]


def test_the_report_of_a_finished_run_takes_an_audit(tmp_path: Path) -> None:
    model = judge(fails_right=0.2)
    card = asyncio.run(audit(tmp_path, model))
    models = {"candidate": ALPHA, "judge": model}
    spec = RunSpec(benchmark="convbench", options=options_of(tmp_path), models=models)
    folder = asyncio.run(evaluate(spec, tmp_path / "runs")).folder
    succeed("report", str(folder), "--audit", str(card))
    assert "by controls, not by people" in (folder / "report.html").read_text(encoding="utf-8")
