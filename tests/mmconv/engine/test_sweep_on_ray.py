"""A sweep on a real Ray that claims to have eight GPUs."""

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import orjson
import pytest
import ray

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.engine.matrix import Cell
from mmconv.engine.run import Place
from mmconv.engine.sweep import Sweep
from tests.model_zoo.processes import RAY_SECONDS, children, wait_until_gone

GPUS = 8
NEEDS = {"one": (1, 1), "uno": (1, 1), "two": (1, 2), "four": (2, 2), "eight": (1, 8)}
"""Replicas, and the GPUs of each."""


@pytest.fixture(autouse=True)
def _ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    before = children()
    ray.init(
        "local",  # other tests may have a cluster on this machine
        num_gpus=GPUS,
        num_cpus=1,
        include_dashboard=False,
        object_store_memory=80 * 2**20,
        log_to_driver=False,
    )
    started = children() - before
    yield
    ray.shutdown()
    wait_until_gone(started, RAY_SECONDS)


def cell(folder: Path, name: str, together: int, **fields: Any) -> Cell:
    data = folder / "data.jsonl"
    data.write_bytes(orjson.dumps({"id": "1", "riddle": "What?"}))
    options = {"log": str(folder / "log"), "together": together}
    candidate = ModelSpec(
        provider="tests.mmconv.engine.ray_sleeper", model=name, options=options, **fields
    )
    spec = RunSpec(
        benchmark="tests.example_benchmark:Riddles",
        options={"data": str(data)},
        models={"candidate": candidate, "judge": ModelSpec(provider="fake", model="judge")},
    )
    return Cell(model=name, benchmark="riddles", seed=None, spec=spec)


async def test_five_models_are_placed_on_eight_gpus(tmp_path: Path) -> None:
    """The largest is alone, and then all others are there at once: no schedule is better.

    A model that needs more fails, and one that takes what is free gets all of them.
    """
    replicas = sum(count for count, _ in NEEDS.values())  # and that of `silent`
    cells = [
        cell(tmp_path, name, 1 if name == "eight" else replicas + 1, replicas=count, gpus=gpus)
        for name, (count, gpus) in NEEDS.items()
    ]
    cells.append(cell(tmp_path, "nine", 1, replicas=3, gpus=3))
    cells.append(cell(tmp_path, "silent", 1, replicas="auto", gpus=8))
    place = Place(out=tmp_path / "runs")
    sweep = Sweep(cells, place, page=False, shortfall=lambda _: None, report=lambda _: None)
    await sweep.run()
    reasons = {state.cell.model: state.reason for state in sweep.cells if state.status != "done"}
    assert reasons == {
        "nine": "model nine needs 9 GPUs (replicas times gpus), more than the 8 of 8; lower "
        "replicas or gpus"
    }
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    used = [*accumulate(int(change) for change, _ in lines)]
    assert max(used) == GPUS and used[-1] == 0
    assert used.count(GPUS) == 3
    assert {name for _, name in lines[:4]} == {"eight", "silent"}
