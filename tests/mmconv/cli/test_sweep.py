"""`mmconv sweep` as it is typed: its matrix, its end, and what signals and failures cost."""

import io
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml
from rich.console import Console

from mmconv.cli.sweeping import Progress, sweep_command
from mmconv.core.errors import ConfigError
from mmconv.core.run_stats import ModelStats, RunStats
from mmconv.engine.matrix import SweepSpec, read_sweep
from mmconv.engine.run import Place
from mmconv.engine.sweep import Sweep
from tests.doc_pages import ROOT, blocks
from tests.drawn_data import write_scenes
from tests.mmconv.processes import committed, mock_model, succeed, typed, wait_for_answers
from tests.mock_server import Behaviour, mock_server

SWEEPS = ROOT / "configs" / "sweeps"


def write_sweep(folder: Path, url: str = "", *, models: tuple[object, ...] = ()) -> Path:
    """Two models, which share a server if none are named, two benchmarks and two seeds."""
    data, images = write_scenes(folder / "data", 2)
    own = {"data": str(data), "images": str(images)}
    mock = mock_model(url)
    sweep = {
        "models": models or [{**mock, "name": name, "system": f"You are {name}."} for name in "ab"],
        "benchmarks": [
            {"benchmark": "convbench", "options": {**own, "grading": [grading]}, "name": grading}
            for grading in ("direct", "pairwise")
        ],
        "judge": "fake/judge" if models else mock,
        "seeds": [0, 1],
    }
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(sweep))
    return path


def words(sweep: Path, out: Path, *more: str) -> list[str]:
    return ["sweep", str(sweep), "--out", str(out), "--no-page", *more]


def test_a_signal_ends_it_and_the_same_command_resumes_it(tmp_path: Path) -> None:
    out, log = tmp_path / "runs", tmp_path / "answered.log"
    with mock_server(Behaviour(latency=0.1), log=log) as url:
        sweep = write_sweep(tmp_path, url)
        command = [sys.executable, "-m", "mmconv", *words(sweep, out)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        wait_for_answers(log, lambda: process.poll() is None, more=10)
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=60)
        assert process.returncode == 130, error
        assert f"Resume with:\n  mmconv sweep {sweep}" in error
        assert len(log.read_text().split()) == committed(out)
        resumed = typed(*words(sweep, out))
    assert resumed.exit_code == 0, resumed.output
    answered = log.read_text().split()
    assert len(answered) == len(set(answered))


def test_it_stops_when_all_cells_together_cost_more(tmp_path: Path) -> None:
    with mock_server() as url:
        price = {"price": {"input": 10, "output": 10}}
        models = tuple({**mock_model(url), **price, "name": name} for name in "ab")
        sweep = write_sweep(tmp_path, url, models=models)
        unpriced = typed(*words(sweep, tmp_path / "runs"), "--max-cost", "0.1")
        assert "--max-cost: no price for judge (judge)" in str(unpriced.exception)
        judged = yaml.safe_load(sweep.read_text()) | {"judge": {**mock_model(url), **price}}
        sweep.write_text(yaml.safe_dump(judged))
        ended = typed(*words(sweep, tmp_path / "runs"), "--max-cost", "0.1")
        assert ended.exit_code == 130, ended.output
        assert "failed: --max-cost 0.1: the calls of this session have cost $" in ended.stderr
        assert "\n0 of 8 cells are done\n" in ended.stdout
        whole = typed(*words(sweep, tmp_path / "runs"), "--max-cost", "100")
    assert whole.exit_code == 0, whole.output


def test_a_model_that_fails_is_named_with_its_reason(tmp_path: Path) -> None:
    missing = f"hf/{tmp_path}/missing"
    sweep = write_sweep(tmp_path, models=("fake/echo", missing))
    ended = typed(*words(sweep, tmp_path / "runs"))
    assert ended.exit_code == 1, ended.output
    assert "\n4 of 8 cells are done\n" in ended.stdout
    assert "echo (seed 0)" in ended.stdout
    assert re.search(r"pairwise, missing, seed 1 failed: .*missing", ended.stderr)
    assert "Resume with:\n  mmconv" in ended.stderr


def test_a_dry_run_prints_the_matrix(tmp_path: Path) -> None:
    large: dict[str, object] = {"provider": "vllm", "model": "org/large", "replicas": 2}
    priced = {"provider": "fake", "model": "echo", "price": {"input": 1e6, "output": 0}}
    large["options"] = {"tensor_parallel_size": 2}
    sweep = write_sweep(tmp_path, models=(priced, large))
    shown = succeed(*words(sweep, tmp_path / "runs", "--dry-run", "--set", "limit=1"))
    found = re.findall(r"^(\w[^\n]*?)  +(\d.*)$", shown.stdout, re.MULTILINE)
    rows = {name: numbers.split() for name, numbers in found}
    assert rows["direct, echo, seed 0"][:4] == ["0", "15", "0", "15"]
    assert float(rows["direct, echo, seed 0"][-1]) > 1
    assert rows["direct, large, seed 1"][:4] == ["4", "15", "0", "15"]
    assert rows["all"][:3] == ["156", "0", "156"]
    assert not [*tmp_path.glob("runs/convbench-*")]


@pytest.mark.parametrize("wrong", ["missing.yaml", "small.yaml"])
def test_a_wrong_file_is_refused(tmp_path: Path, wrong: str) -> None:
    (tmp_path / "small.yaml").write_text("models: [pocket]")
    refused = typed(*words(tmp_path / wrong, tmp_path / "runs"))
    assert isinstance(refused.exception, ConfigError) and wrong in str(refused.exception)


async def test_the_matrix_shows_every_cell(tmp_path: Path) -> None:
    cells = read_sweep(write_sweep(tmp_path, models=("fake/echo", "fake/slow")))
    place = Place(out=tmp_path)
    sweep = Sweep(cells, place, page=False, shortfall=lambda _: None, report=lambda _: None)
    running, failed, done = sweep.cells[:3]
    failed.status, done.status = "failed", "done"
    running.status, running.plans = "running", 10
    running.stats = RunStats(plans=5, planned=20)
    progress = Progress(sweep)
    assert progress.describe(running) == "loading"
    running.stats.models["candidate"] = counts = ModelStats(requested=4, failed=2)
    progress.describe(running)
    counts.requested = 8
    console = Console(file=io.StringIO(), width=100)
    console.print(progress.picture())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"echo, seed 0 │ 25%, [\d.]+/s, 2 failed, \d+ s left │ waiting", text)
    assert re.search(r"echo, seed 1 +│ failed +│ waiting", text)
    assert re.search(r"slow, seed 0 +│ done +│ waiting", text)
    assert progress.totals() == "2/8 cells, 8 replies requested, 2 failed"


def test_the_shipped_sweep_and_the_page_are_valid() -> None:
    cells = read_sweep(SWEEPS / "convbench.yaml")
    assert [cell.model for cell in cells] == ["pocket", "pocket-blind", "pocket-confused"]
    [example] = blocks((SWEEPS / "README.md").read_text(encoding="utf-8"), "yaml")
    SweepSpec.model_validate(yaml.safe_load(example))


def test_the_recipes_have_what_their_systems_need() -> None:
    """`tests/interop/test_recipes.py` reads them with KubeRay's schema and SkyPilot itself."""
    job = yaml.safe_load((SWEEPS / "rayjob.yaml").read_text(encoding="utf-8"))
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    [workers] = cluster["workerGroupSpecs"]
    pods = [group["template"]["spec"] for group in (cluster["headGroupSpec"], workers)]
    for pod in pods:
        [container] = pod["containers"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
    assert pods[1]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
    task = yaml.safe_load((SWEEPS / "skypilot.yaml").read_text(encoding="utf-8"))
    assert task["resources"]["accelerators"] and set(task["envs"]) == {"SWEEP", "STORE"}
    slurm = (SWEEPS / "slurm.sbatch").read_text(encoding="utf-8")
    subprocess.run(["bash", "-n", SWEEPS / "slurm.sbatch"], check=True)
    for text in (job["spec"]["entrypoint"], task["run"], slurm):
        [words] = re.findall(r"mmconv sweep (.*?)(?: &)?$", text, re.MULTILINE)
        with click.Context(sweep_command) as ctx:
            sweep_command.make_parser(ctx).parse_args(shlex.split(words))
