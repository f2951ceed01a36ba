"""What trackers and Every Eval Ever get of a run; the packages themselves: `make interop`."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from mmconv.cli import commands, results
from mmconv.core.errors import ConfigError
from mmconv.run_folder.saved_run import read_tables
from tests.mmconv.report.runs import FAILING, make_run


class Trackio(SimpleNamespace):
    """Records what it is called with."""

    def __init__(self) -> None:
        super().__init__(project="", config={}, metrics={}, artifacts=[], finished=False)

    def init(self, project: str, *, name: str, config: dict[str, Any]) -> None:
        self.project, self.name, self.config = project, name, config

    def log(self, metrics: dict[str, float]) -> None:
        self.metrics |= metrics

    def log_artifact(self, path: Path, *, name: str, type: str) -> None:  # noqa: A002
        assert path.exists() and name and type
        self.artifacts.append(path.name)

    def finish(self) -> None:
        self.finished = True


@pytest.fixture(name="trackio")
def _trackio(monkeypatch: pytest.MonkeyPatch) -> Trackio:
    made = Trackio()
    monkeypatch.setattr(results, "find_spec", lambda _: True)
    monkeypatch.setitem(sys.modules, "trackio", made)
    monkeypatch.setenv("TRACKIO_DIR", "elsewhere")
    return made


async def export(run: Path, tool: str, out: Path) -> str:
    arguments = ["export", str(run), "--to", tool, "--out", str(out)]
    result = await asyncio.to_thread(CliRunner().invoke, commands, arguments)
    if result.exception is not None:
        raise result.exception
    return result.output


def read_record(folder: Path) -> Any:
    """The only record in the folder."""
    [path] = folder.iterdir()
    return orjson.loads(path.read_bytes())


async def test_a_tracker_gets_numbers_settings_and_files(trackio: Trackio, tmp_path: Path) -> None:
    run = await make_run("convbench", tmp_path, FAILING)
    output = await export(run, "trackio", tmp_path / "out")
    assert f"TRACKIO_DIR={tmp_path / 'out'} trackio show" in output
    assert (trackio.project, trackio.name) == ("mmconv-convbench", run.name)
    assert trackio.finished

    tables = {table.name: table for table in read_tables(run / "tables")}
    for name, table, row in (
        ("direct/S1", "scores", "S1"),
        ("direct_deltas/S2_hat - S2", "deltas", "S2_hat - S2"),
    ):
        cell = tables[table].rows[row]["direct (1-10)"]
        ends = ("", ".low", ".high", ".n", ".missing")
        logged = [trackio.metrics.get(f"{name}{end}") for end in ends]
        assert logged == [cell.value, cell.low, cell.high, cell.n, sum(cell.missing.values())]
        assert cell.missing
    assert all(isinstance(value, float | int) for value in trackio.metrics.values())

    assert trackio.config["models.candidate.model"] == "failing"
    assert trackio.config["conditions"] == '["free", "perception", "reasoning"]'
    assert {"tables", "manifest.json", "spec.json"} <= {*trackio.artifacts}


async def test_numbers_have_one_name_for_all_models(trackio: Trackio, tmp_path: Path) -> None:
    run = await make_run("botchat", tmp_path)
    await export(run, "trackio", tmp_path / "out")
    assert {"uncon/N_16", "uncon/N_16.low", "uncon/gteval/win_tie"} <= trackio.metrics.keys()
    assert not any("alpha" in name for name in trackio.metrics)

    await export(run, "every-eval-ever", tmp_path)
    record = read_record(tmp_path / "data" / "mmconv-botchat" / "unknown" / "alpha")
    configs = [result["metric_config"] for result in record["evaluation_results"]]
    assert {config["metric_name"] for config in configs if config["lower_is_better"]} == {"lose"}


async def test_a_record_of_every_eval_ever_has_the_scores(tmp_path: Path) -> None:
    run = await make_run("convbench", tmp_path, FAILING)
    await export(run, "every-eval-ever", tmp_path)
    await export(run, "every-eval-ever", tmp_path)
    record = read_record(tmp_path / "data" / "mmconv-convbench" / "unknown" / "gamma")
    made = {result["evaluation_result_id"]: result for result in record["evaluation_results"]}
    tables = {table.name: table for table in read_tables(run / "tables")}
    cell = tables["scores"].rows["S3"]["direct (1-10)"]
    score = made["direct/S3"]["score_details"]
    assert score["score"] == cell.value
    assert score["uncertainty"]["confidence_interval"]["lower"] == cell.low
    assert orjson.loads(score["details"]["missing"]) == dict(cell.missing)
    assert not any("deltas" in name or "attribution" in name for name in made)
    for result in made.values():
        config = result["metric_config"]
        assert config["min_score"] <= result["score_details"]["score"] <= config["max_score"]
        assert config["llm_scoring"]["judges"][0]["model_info"]["name"] == "arbiter"
    assert made["direct/S3"]["metric_config"]["max_score"] == 10
    assert made["pairwise/S3"]["metric_config"]["max_score"] == 100


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="--to mlflow needs a package: pip install mlflow"):
        asyncio.run(export(tmp_path, "mlflow", tmp_path / "out"))
