"""Verdicts that are requested again show whether a judge has changed."""

from pathlib import Path

import pytest

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import ConfigError
from mmconv.engine.drift import SENTINELS, Drift, check_drift
from mmconv.engine.run import open_saved, read_run
from tests.drawn_data import write_scenes
from tests.mmconv.benchmarks.audit import planted_judge
from tests.mmconv.report.runs import ALPHA, evaluate


async def make_run(folder: Path, **options: object) -> Path:
    data, images = write_scenes(folder / "data", 12)
    files = {"data": str(data), "images": str(images), "grading": ["direct"]}
    judge = ModelSpec(
        provider=planted_judge.__name__,
        model="planted",
        options={"passes_wrong": 0.5, "forgets": 1},
    )
    spec = RunSpec(
        benchmark="convbench",
        options={**files, **options},
        models={"candidate": ALPHA} | ({} if "generate_only" in options else {"judge": judge}),
    )
    return (await evaluate(spec, folder / "runs")).folder


async def check(folder: Path) -> Drift:
    spec, place, shard, _ = read_run(folder)
    async with open_saved(folder, spec, place, shard) as evaluation:
        return await check_drift(evaluation)


async def test_a_judge_that_draws_lots_has_not_changed(tmp_path: Path) -> None:
    folder = await make_run(tmp_path)
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    drift = await check(folder)
    assert drift.shift.n == SENTINELS
    assert drift.changed
    assert not drift.has_changed
    assert files == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_a_harsher_judge_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = await make_run(tmp_path)
    monkeypatch.setattr(planted_judge.PlantedJudge, "_rating", lambda *_: 2)
    drift = await check(folder)
    assert drift.has_changed
    assert drift.shift.high is not None
    assert drift.shift.high < 0
    # the new verdicts are all 2, and none before was above 9
    assert drift.shift.mean is not None and drift.more.mean is not None
    assert drift.shift.mean**2 <= drift.more.mean <= 7**2


async def test_a_run_without_a_judge_has_no_sentinels(tmp_path: Path) -> None:
    folder = await make_run(tmp_path, generate_only=True)
    with pytest.raises(ConfigError, match="has no verdicts"):
        await check(folder)
