"""Sweeps in this process: where models are placed, what they share, and what a failure costs."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.engine.matrix import Cell
from mmconv.engine.run import Place, open_evaluation
from mmconv.engine.sweep import CellState, Placement, Sweep
from tests.mmconv.engine import sweep_models as models
from tests.mmconv.virtual_clock import run_virtually

PROVIDER = "tests.mmconv.engine.sweep_models"


@dataclass(frozen=True)
class Job:
    gpus: float
    seconds: float
    size: float = 1


def place(jobs: Sequence[Job], gpus: float) -> tuple[float, list[float]]:
    """The seconds that all jobs take, and how many GPUs were taken whenever one began."""
    placement = Placement(gpus)
    taken: list[float] = []
    running: list[Job] = []

    async def work(job: Job) -> None:
        running.append(job)
        taken.append(sum(each.gpus for each in running))
        await asyncio.sleep(job.seconds)
        running.remove(job)

    _, seconds = run_virtually(placement.run(cast("Any", jobs), cast("Any", work)))
    assert placement.used == pytest.approx(0) and not running
    return seconds, taken


@pytest.mark.parametrize("seed", range(20))
def test_five_models_on_eight_gpus_end_soon_and_never_take_nine(seed: int) -> None:
    rng = random.Random(seed)
    jobs = [Job(gpus, rng.uniform(1, 10)) for gpus in (1, 1, 2, 4, 8)]
    rng.shuffle(jobs)
    seconds, taken = place(jobs, 8)
    # nothing runs next to the largest model, and all others fit next to each other
    *others, largest = sorted(jobs, key=lambda job: job.gpus)
    best = largest.seconds + max(job.seconds for job in others)
    assert seconds <= 1.25 * best
    assert max(taken) <= 8 and len(taken) == 5


@pytest.mark.parametrize("seed", range(20))
def test_any_jobs_fit_and_leave_few_gaps(seed: int) -> None:
    rng = random.Random(seed)
    jobs = [Job(rng.choice([0.5, 1, 2, 4, 8]), rng.uniform(1, 10)) for _ in range(30)]
    seconds, taken = place(jobs, 8)
    area = sum(job.gpus * job.seconds for job in jobs) / 8
    assert max(taken) <= 8
    assert seconds <= 1.25 * area + max(job.seconds for job in jobs)


def test_the_longest_of_equal_needs_goes_first() -> None:
    seconds, _ = place([Job(1, 1, 1), Job(1, 1, 1), Job(1, 2, 2)], 2)
    assert seconds == 2


def test_a_job_that_never_fits_is_refused() -> None:
    with pytest.raises(ValueError, match=r"4 GPUs are more than 2"):
        place([Job(4, 1)], 2)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    models.LOADED.clear()
    models.OPEN.clear()
    models.TOGETHER.clear()
    models.HOLD, models.HELD = asyncio.Event(), asyncio.Event()


def model(name: str, **fields: Any) -> ModelSpec:
    return ModelSpec(provider=PROVIDER, model=name, attempts=1, **fields)


def cells(folder: Path, *names: str, judge: str = "judge", **fields: Any) -> list[Cell]:
    """Two benchmarks over two riddles for each model."""
    made = []
    for benchmark in ("first", "second"):
        data = folder / f"{benchmark}.jsonl"
        records = [{"id": str(n), "riddle": f"What is {n} {benchmark}?"} for n in range(2)]
        data.write_bytes(b"\n".join(map(orjson.dumps, records)))
        for name in names:
            spec = RunSpec(
                benchmark="tests.example_benchmark:Riddles",
                options={"data": str(data)},
                models={"candidate": model(name, **fields), "judge": model(judge)},
            )
            made.append(Cell(model=name, benchmark=benchmark, seed=None, spec=spec))
    return made


def sweep(folder: Path, chosen: Sequence[Cell], changes: list[str] | None = None) -> Sweep:
    def report(state: CellState) -> None:
        if changes is not None:
            changes.append(f"{state.cell.name}: {state.status}")

    place = Place(out=folder / "runs")
    return Sweep(chosen, place, page=False, shortfall=lambda _: None, report=report)


def statuses(made: Sweep) -> dict[str, str]:
    return {state.cell.name: state.status for state in made.cells}


async def test_models_take_turns_and_the_judge_is_loaded_once(tmp_path: Path) -> None:
    made = sweep(tmp_path, cells(tmp_path, "a", "b", "c"))
    await made.run()
    assert set(statuses(made).values()) == {"done"}
    assert models.LOADED == {"a": 1, "b": 1, "c": 1, "judge": 1}
    assert all(len(names - {"judge"}) == 1 for names in models.TOGETHER)
    assert not models.OPEN


async def test_a_cell_is_in_the_folder_of_its_run(tmp_path: Path) -> None:
    chosen = cells(tmp_path, "a")
    made = sweep(tmp_path, chosen)
    await made.run()
    async with open_evaluation(chosen[0].spec, Place(out=tmp_path / "runs")) as evaluation:
        assert made.cells[0].folder == evaluation.folder
        result = await evaluation.run(evaluation.runner(), page=False)
    assert (result.stats.requested, result.stats.replies) == (0, 4)


async def test_what_is_finished_is_not_done_again(tmp_path: Path) -> None:
    await sweep(tmp_path, cells(tmp_path, "a", "b")).run()
    models.LOADED.clear()
    again = sweep(tmp_path, cells(tmp_path, "a", "b"))
    await again.run()
    assert all(state.found and state.status == "done" for state in again.cells)
    assert not models.LOADED
    once_more = sweep(tmp_path, cells(tmp_path, "a", "b"))
    (tmp_path / "first.jsonl").write_bytes(orjson.dumps({"id": "0", "riddle": "What else?"}))
    await once_more.run()
    assert [state.found for state in once_more.cells] == [False, False, True, True]
    assert set(statuses(once_more).values()) == {"done"}


async def test_a_model_that_fails_fails_its_own_cells(tmp_path: Path) -> None:
    made = sweep(tmp_path, cells(tmp_path, "broken", "a", "dying"))
    await made.run()
    assert statuses(made) == {
        f"{benchmark}, {name}": status
        for benchmark in ("first", "second")
        for name, status in {"broken": "failed", "a": "done", "dying": "failed"}.items()
    }
    reasons = {state.cell.model: state.reason for state in made.cells}
    assert reasons["broken"] == "broken: it has no weights"
    assert "it has died" in reasons["dying"]
    assert models.LOADED["broken"] == 1


async def test_a_model_that_cannot_be_found_fails_before_the_others_begin(tmp_path: Path) -> None:
    changes: list[str] = []
    chosen = cells(tmp_path, "a")
    missing = ModelSpec(provider="hf", model=str(tmp_path / "missing"))
    spec = chosen[0].spec.model_copy(
        update={"models": {**chosen[0].spec.models, "candidate": missing}}
    )
    made = sweep(
        tmp_path, [*chosen, Cell(model="missing", benchmark="x", seed=None, spec=spec)], changes
    )
    await made.run()
    assert changes[0] == "x, missing: failed"
    assert str(tmp_path / "missing") in made.cells[-1].reason
    assert [state.status for state in made.cells] == ["done", "done", "failed"]


async def test_bad_data_fail_their_benchmark(tmp_path: Path) -> None:
    chosen = cells(tmp_path, "a", "b")
    (tmp_path / "second.jsonl").unlink()
    made = sweep(tmp_path, chosen)
    await made.run()
    assert [state.status for state in made.cells] == ["done", "done", "failed", "failed"]
