"""Runs the cells of a sweep in one process: which model is loaded when, and how each cell ended.

Cells of one model share it, and the judge of all cells is loaded once. A model is loaded at its
first request and closed after its last cell. On Ray a model takes the GPUs that it declares;
without Ray, models with weights take turns. What fails, fails its cells alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from mmconv.core.config import CANDIDATE, ModelSpec, RunSpec, ray_address
from mmconv.core.errors import ConfigError, MmconvError
from mmconv.core.protocols import Backend
from mmconv.core.run_stats import RunStats
from mmconv.engine import Model, Runner
from mmconv.engine.matrix import Cell
from mmconv.engine.resources import Resources, open_resources
from mmconv.engine.run import Evaluation, Place, Result
from mmconv.engine.setup import build_benchmark, build_models, model_identity, open_backend
from mmconv.run_folder.layout import PAGE, SPEC
from mmconv.run_folder.saved_run import find_unfinished, read_summary
from model_zoo.providers import provider_of
from model_zoo.ray import gpus_of, joined, local_gpus

_LOGGER = logging.getLogger(__name__)

AT_ONCE = 2
"""Cells of one model under way at once: the next one fills the model as the last calls end."""

_ROUNDING = 1e-6

Status = Literal["waiting", "running", "done", "failed", "stopped"]


@dataclass(slots=True)
class Placement:
    """Jobs on `gpus` GPUs, of which `used` are taken; never more than there are."""

    gpus: float
    used: float = 0.0

    def fits(self, need: float) -> bool:
        """Whether so many GPUs are free."""
        return self.used + need <= self.gpus + _ROUNDING

    async def run(self, jobs: Iterable[Job], work: Callable[[Job], Awaitable[None]]) -> None:
        """Do the work of all jobs, each as soon as it fits: those with the most GPUs first.

        So small jobs fill the gaps of large ones, and no large one is left for the end. Raises
        `ValueError` for a job that never fits.
        """
        waiting = sorted(jobs, key=lambda job: (-job.gpus, -job.size))
        if waiting and waiting[0].gpus > self.gpus - self.used + _ROUNDING:
            raise ValueError(f"{waiting[0].gpus:g} GPUs are more than {self.gpus - self.used:g}")
        freed = asyncio.Condition()

        async def place(job: Job) -> None:
            async with freed:  # who waits longest looks first: the largest
                await freed.wait_for(lambda: self.fits(job.gpus))
                self.used += job.gpus
            try:
                await work(job)
            finally:
                async with freed:
                    self.used -= job.gpus
                    freed.notify_all()

        async with asyncio.TaskGroup() as group:
            for job in waiting:
                group.create_task(place(job))


@dataclass(slots=True, kw_only=True)
class CellState:
    """What has become of a cell; `found`: an earlier session has finished it."""

    cell: Cell
    status: Status = "waiting"
    reason: str = ""
    found: bool = False
    folder: Path | None = None
    plans: int = 0
    stats: RunStats | None = None

    def fail(self, error: Exception) -> None:
        """Note an exception; the traceback of a bug is logged."""
        self.status = "failed"
        self.reason = str(error)
        if not isinstance(error, MmconvError):
            self.reason = f"{type(error).__name__}: {error}"
            _LOGGER.error("%s", self.cell.name, exc_info=error)

    def end(self, result: Result, shortfall: str | None) -> None:
        """Note the end of the run, and what it falls short of."""
        stop = result.stats.stop_reason
        if result.complete:
            self.folder = result.folder
            self.status, self.reason = ("failed", shortfall) if shortfall else ("done", "")
        elif stop is not None:
            self.status, self.reason = "failed", stop.description
        else:
            self.status = "stopped"


@dataclass(slots=True, kw_only=True)
class Job:
    """The cells of one model, which is closed after them unless other jobs use it too."""

    cells: list[CellState]
    model: Model
    gpus: float
    closes: bool

    @property
    def size(self) -> float:
        """The number of conversations."""
        return sum(state.plans for state in self.cells)


class Sweep:
    """The cells of a sweep, and how far they are.

    `shortfall` gives the reason why a complete run counts as failed. `report` is called when the
    status of a cell changes, `watch` before a cell's first request: if it sets `enough` of the
    runner, a reason to stop is one for the sweep.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        place: Place,
        *,
        page: bool,
        shortfall: Callable[[Result], str | None],
        report: Callable[[CellState], None],
        watch: Callable[[RunSpec, Runner], None] = lambda _spec, _runner: None,
    ) -> None:
        self.cells = [CellState(cell=cell) for cell in cells]
        self.placement = Placement(1.0)
        self.on_ray = False
        self._place = place
        self._page = page
        self._shortfall = shortfall
        self._report = report
        self._watch = watch
        self._is_stopping = False
        self._runners: set[Runner] = set()
        self._models: dict[str, Model] = {}
        self._unusable: dict[str, Exception] = {}
        self._resources: Resources
        self._reading = asyncio.Lock()

    def stop(self) -> None:
        """Request nothing more; wait for calls under way. Safe to call from a signal handler."""
        self._is_stopping = True
        for runner in self._runners:
            runner.stop()
        for model in self._models.values():
            model.stop()

    async def run(self) -> None:
        """Run what is missing, or until `stop`; how each cell ended is in `cells`.

        Raises `ConfigError` if Ray cannot be reached, `StoreError` for the store.
        """
        async with AsyncExitStack() as stack:
            self.on_ray = await asyncio.to_thread(self._uses_ray)
            if self.on_ray:
                self.placement.gpus = await stack.enter_async_context(joined())
            opening = open_resources(self._place.store_url)
            self._resources = await stack.enter_async_context(opening)
            stack.push_async_callback(lambda: self._close(self._models.values()))
            place = self._on_gpus if self.on_ray and self.placement.gpus else _in_turn
            self.placement.gpus = self.placement.gpus or 1.0
            jobs = await asyncio.to_thread(self._build_jobs, place)
            for state in self.cells:
                await self._prepare(state)
            await self.placement.run(jobs, self._work)

    def _uses_ray(self) -> bool:
        models = [model for state in self.cells for model in state.cell.spec.models.values()]
        if ray_address() != "local" or any(model.replicas or model.gpus for model in models):
            return True
        if not any(gpus_of(model, 1) for model in models) or local_gpus() < 2:
            return False
        if find_spec("ray") is None:
            _LOGGER.warning(
                "models take turns on one GPU; on several at once with: pip install 'mmconv[ray]'"
            )
            return False
        return True

    def _build_jobs(self, place: Callable[[ModelSpec], tuple[ModelSpec, float]]) -> list[Job]:
        judges: dict[str, ModelSpec] = {}
        candidates: dict[str, list[CellState]] = {}
        for state in self.cells:
            for role, model in state.cell.spec.models.items():
                if role == CANDIDATE:
                    candidates.setdefault(model_identity(model), []).append(state)
                else:
                    judges.setdefault(model_identity(model), model)
        for identity, model in judges.items():
            needed = self._build_model(identity, model, place)
            # without Ray it stays loaded while the other models take turns
            self.placement.used += 0.0 if place is _in_turn else needed
        jobs = []
        for identity, states in candidates.items():
            gpus = 0.0
            if identity not in judges:
                gpus = self._build_model(identity, states[0].cell.spec.models[CANDIDATE], place)
            if identity in self._models:
                shared = self._models[identity]
                closes = identity not in judges
                jobs.append(Job(cells=states, model=shared, gpus=gpus, closes=closes))
        return jobs

    def _build_model(
        self, identity: str, spec: ModelSpec, place: Callable[[ModelSpec], tuple[ModelSpec, float]]
    ) -> float:
        try:
            placed, gpus = place(spec)
            self._models[identity] = Model(
                provider_of(placed).fingerprint(placed),
                partial(self._load, identity, placed),
                placed.attempts,
            )
        except Exception as error:  # noqa: BLE001 - its cells fail, the others go on
            self._unusable[identity] = error
            return 0.0
        return gpus

    def _on_gpus(self, spec: ModelSpec) -> tuple[ModelSpec, float]:
        free = self.placement.gpus - self.placement.used
        share = gpus_of(spec, self.placement.gpus)
        if not share:
            return spec, 0.0
        most = max(1, int(free / share + _ROUNDING))
        replicas = most if spec.replicas == "auto" else spec.replicas or 1
        if not self.placement.fits(share * replicas):
            judged = " that the judge leaves" if self.placement.used else ""
            raise ConfigError(
                f"model {spec.label} needs {share * replicas:g} GPUs (replicas times gpus), more "
                f"than the {free:g} of {self.placement.gpus:g}{judged}; lower replicas or gpus"
            )
        return spec.model_copy(update={"replicas": replicas}), share * replicas

    async def _prepare(self, state: CellState) -> None:
        try:
            evaluation = await self._open(state.cell)
            state.plans = evaluation.plan_count
            if await asyncio.to_thread(_is_finished, evaluation, self._page):
                state.status, state.found, state.folder = "done", True, evaluation.folder
            else:
                evaluation.check_calls()
                evaluation.check_keys()
        except Exception as error:  # noqa: BLE001 - this cell fails, the others go on
            state.fail(error)
        if state.status != "waiting":
            self._report(state)

    async def _open(self, cell: Cell) -> Evaluation:
        models = build_models(cell.spec, self._lend)
        async with self._reading:  # image metadata has no other lock
            benchmark = await self._resources.read_data(partial(build_benchmark, cell.spec))
        return Evaluation(
            spec=cell.spec,
            place=self._place,
            resources=self._resources,
            models=models,
            benchmark=benchmark,
        )

    def _lend(self, spec: ModelSpec) -> Model:
        identity = model_identity(spec)
        if identity in self._unusable:
            raise self._unusable[identity]
        return self._models[identity].guest()

    async def _load(self, identity: str, spec: ModelSpec) -> Backend:
        if identity in self._unusable:  # it is not loaded again
            raise self._unusable[identity]
        try:
            return await open_backend(spec, self._resources.library, self._resources.store)
        except Exception as error:
            self._unusable[identity] = error
            raise

    async def _work(self, job: Job) -> None:
        room = asyncio.Semaphore(AT_ONCE)

        async def run(state: CellState) -> None:
            async with room:
                await self._run_cell(state)

        async with asyncio.TaskGroup() as group:
            for state in job.cells:
                if state.status == "waiting":
                    group.create_task(run(state))
        if job.closes:
            await self._close([job.model])

    async def _run_cell(self, state: CellState) -> None:
        if self._is_stopping:
            state.status = "stopped"
            return
        state.status = "running"
        self._report(state)
        try:
            await self._run_and_note(state)
        except Exception as error:  # noqa: BLE001 - this cell fails, the others go on
            state.fail(error)
        self._report(state)

    async def _run_and_note(self, state: CellState) -> None:
        evaluation = await self._open(state.cell)
        for change in evaluation.changed():
            _LOGGER.warning("%s", change)
        runner = evaluation.runner()
        state.stats = runner.stats
        self._watch(state.cell.spec, runner)
        self._runners.add(runner)
        try:
            if self._is_stopping:
                runner.stop()
            result = await evaluation.run(runner, page=self._page)
            if runner.enough is not None and runner.enough():
                self.stop()
        finally:
            self._runners.discard(runner)
        state.end(result, self._shortfall(result) if result.complete else None)

    async def _close(self, models: Iterable[Model]) -> None:
        for model in models:
            try:
                await model.aclose()
            except Exception as error:  # its cells have ended
                _LOGGER.error("closing a model failed", exc_info=error)


def _in_turn(spec: ModelSpec) -> tuple[ModelSpec, float]:
    """The model, and the only place that there is if it has weights."""
    return spec, 1.0 if gpus_of(spec, 1) else 0.0


def _is_finished(evaluation: Evaluation, page: bool) -> bool:
    folder = evaluation.folder
    if not (folder / SPEC).exists() or find_unfinished(folder) is not None:
        return False
    if page and not (folder / PAGE).exists():
        return False
    summary = read_summary(folder)
    if summary is None or any(role.failed or role.skipped for role in summary.models.values()):
        return False
    return not evaluation.changed()
