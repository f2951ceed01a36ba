"""One run from its specification to its folder: plans, replies, scores, tables, manifest.

All files of the folder can be written again from the cached replies: `spec.json`, `manifest.json`,
`scores` and `transcripts` as JSON Lines and Parquet, `tables/`, `summary.json`. To resume a run,
run the same specification again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from mmconv.benchmarks.audit.card import Judged, describe_judging
from mmconv.benchmarks.base import Benchmark
from mmconv.benchmarks.options import as_new, options_in_force
from mmconv.benchmarks.registry import find_class
from mmconv.core.config import CANDIDATE, RunSpec, database_url
from mmconv.core.errors import ConfigError, StoreError
from mmconv.core.judges import JUDGE, judge_roles
from mmconv.core.plans import Finished, Plan, name_trial
from mmconv.core.run_stats import RunStats, Throughput
from mmconv.core.types import Call, Table
from mmconv.engine import RoleModel, Runner
from mmconv.engine.identity import identify
from mmconv.engine.resources import Resources, close_all, open_models, open_resources
from mmconv.engine.setup import (
    about_models,
    build_benchmark,
    check_calls,
    check_keys,
    known_replies,
)
from mmconv.report.audits import cite, tabulate
from mmconv.report.changed_inputs import (
    check_unchanged,
    describe_changes,
    describe_gone,
    recorded_samples,
)
from mmconv.report.data_quality import DataQuality
from mmconv.report.notes import (
    fake_model_notes,
    headline,
    other_models,
    plain_turns,
    same_family,
    shard_notes,
    software,
    summary,
    trial_notes,
)
from mmconv.report.writing import Records, RunFolder, import_ahead
from mmconv.run_folder.layout import (
    MANIFEST,
    PROGRESS,
    SCORES,
    SPEC,
    SUMMARY,
    TRANSCRIPTS,
    WHOLE,
    Manifest,
    Shard,
    Start,
)
from mmconv.run_folder.saved_run import read_start
from mmconv.store.connections import with_password, without_password

Entered = TypeVar("Entered")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The folder of runs, and the store that they share (a path or a database URL)."""

    out: Path = Path("runs")
    store: str = ""

    @property
    def store_url(self) -> str:
        """The store's path or URL; by default a file in the folder of runs."""
        return self.store or str(self.out / "store.sqlite")

    @property
    def absolute_store(self) -> str:
        """The store as an absolute path, or a URL without password."""
        url = self.store_url
        return without_password(url) if "://" in url else str(Path(url).absolute())


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a run: its folder, tables and counts, and whether it is complete.

    `unscored` counts scores without a value by reason, out of `scores`; `quality` summarises
    missing replies and verdicts.
    """

    folder: Path
    tables: tuple[Table, ...]
    stats: RunStats
    complete: bool
    seconds: float
    scores: int
    unscored: Mapping[str, int]
    quality: DataQuality


@dataclass(kw_only=True)
class Evaluation:
    """A run with its data checked and its models named, ready to plan, run, score or show."""

    spec: RunSpec
    place: Place
    resources: Resources
    models: Mapping[str, RoleModel]
    benchmark: Benchmark[Any, Any]
    shard: Shard = WHOLE
    named: Path | None = None
    """The folder of an existing run, which may have been renamed."""

    @property
    def run_id(self) -> str:
        """The run's name: benchmark, candidate, a hash of its identity, and the shard."""
        return identify(self.spec, self.benchmark, self.fingerprints, self.shard)

    @property
    def fingerprints(self) -> dict[str, str]:
        """The models' fingerprints by role."""
        return _fingerprints(self.models)

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self.named or self.place.out / self.run_id

    @property
    def samples(self) -> int:
        """Number of samples of this run or shard, without trials."""
        return len(range(self._whole)[self._part]) - len(self._gone(self.spec.chosen))

    @property
    def _whole(self) -> int:
        if self.spec.chosen is not None:
            return len(self.spec.chosen)
        return min(self.benchmark.size, self.spec.limit or self.benchmark.size)

    @property
    def _part(self) -> slice:
        return slice(self.shard.index, None, self.shard.count)

    def _gone(self, chosen: tuple[str, ...] | None) -> tuple[str, ...]:
        """Keys of samples that this run or shard chose at its start and no longer finds."""
        if chosen is None:
            return ()
        today = {*self._all_keys}
        return tuple(key for key in chosen[self._part] if key not in today)

    @cached_property
    def _all_keys(self) -> tuple[str, ...]:
        """The keys of the samples of all shards, read once since spreadsheets open slowly."""
        return tuple(sample.id for _, sample in self._numbered())

    @property
    def plan_count(self) -> int:
        """Number of plans: samples times conditions times trials."""
        return self.samples * len(self.benchmark.conditions) * self.spec.trials

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for readers: on models and samples, and the benchmark's notes."""
        return (*self._run_notes(), *self.benchmark.notes)

    def plans(self, chosen: Callable[[str], bool] | None = None) -> Iterator[tuple[Plan, Any]]:
        """Stream all plans with their samples, or only those of `chosen` sample names."""
        order = 0
        for number, sample in self._numbered():
            if number % self.shard.count != self.shard.index:
                continue
            for trial in range(self.spec.trials):
                name = name_trial(sample.id, trial + 1)
                if chosen is not None and not chosen(name):
                    continue
                for condition in self.benchmark.conditions:
                    calls = self.benchmark.calls(sample, condition)
                    if trial:
                        repeated = partial(_repeated, trial=trial)
                        calls = tuple(call.changed(repeated) for call in calls)
                    plan = Plan(
                        order=order,
                        sample=name,
                        condition=condition,
                        calls=calls,
                        replies=known_replies(
                            self.spec,
                            name,
                            condition,
                            calls,
                            partial(self.benchmark.references, sample, condition),
                        ),
                    )
                    yield plan, sample
                    order += 1

    def _numbered(self) -> Iterator[tuple[int, Any]]:
        if self.spec.chosen is None:
            yield from islice(enumerate(self.benchmark.load()), self.spec.limit)
            return
        numbers = {key: number for number, key in enumerate(self.spec.chosen)}
        for sample in self.benchmark.load():
            if (number := numbers.get(sample.id)) is not None:
                yield number, sample

    def runner(self, *, offline: bool = False) -> Runner:
        """A runner for this evaluation; with `offline` it only reads cached replies."""

        def check_models() -> None:
            self.check_calls()
            self.check_keys()

        store = self.resources.store
        return Runner(self.models, store, offline=offline, before_asking=check_models)

    def check_calls(self) -> None:
        """Raise `ConfigError` for models that are known not to accept their calls."""
        check_calls(self.spec, self._first_calls)

    def check_keys(self) -> None:
        """Raise `ConfigError` for missing API keys of the roles that get calls."""
        check_keys(self.spec, dict.fromkeys(call.model for call in self._first_calls))

    @cached_property
    def _first_calls(self) -> tuple[Call, ...]:
        """The calls of the first sample, planned once since spreadsheets open slowly."""
        first = islice(self.plans(), len(self.benchmark.conditions))
        return tuple(call for plan, _ in first for call in plan.calls)

    async def run(self, runner: Runner, *, page: bool = True) -> Result:
        """Run to the end, or until the runner is stopped, and write the run's folder.

        With `page` it also writes the HTML report, which takes a while with many images. Raises
        `InputError` or `StoreError`, and writes nothing, if an offline runner finds no reply, or
        fewer than a complete run had.
        """
        started = time.monotonic()
        output = RunFolder(self.folder)
        if not runner.offline:
            await asyncio.to_thread(
                self.resources.store.add_run, self.run_id, self.spec.model_dump_json()
            )
            start = Start(
                spec=self.spec,
                store=self.place.absolute_store,
                started_in=Path.cwd(),
                shard=self.shard,
                samples=await asyncio.to_thread(lambda: self._all_keys),
            )
            output.write_json(SPEC, start.model_dump(mode="json"))
        with ExitStack() as results:
            records, complete = await self._collect(runner, output, results, page=page)
            # a stopped run keeps its earlier scores, and their manifest
            if complete or not (self.folder / SCORES).exists():
                output.write_json(MANIFEST, self.manifest(runner.stats).model_dump())
            await close_all(role.model.aclose() for role in self.models.values())
            tables = await self._report(output, records, runner.stats) if complete else ()
            seconds = time.monotonic() - started
            if not runner.offline:
                counts = summary(self.spec, runner.stats, complete, seconds)
                output.write_json(SUMMARY, counts.model_dump())
                if complete:
                    (self.folder / PROGRESS).unlink(missing_ok=True)
            if complete and page:
                await asyncio.to_thread(self.write_page)
        return Result(
            folder=self.folder,
            tables=tables,
            stats=runner.stats,
            complete=complete,
            seconds=seconds,
            scores=len(records.scores),
            unscored=records.unscored,
            quality=records.quality,
        )

    async def _collect(
        self, runner: Runner, output: RunFolder, results: ExitStack, *, page: bool
    ) -> tuple[Records, bool]:
        """Run all plans and write their records; `results` then locks the folder."""
        try:
            async with _left_aside(output.records()) as records:
                pace = Throughput()
                progress = output.progress(partial(pace.measure, runner.stats, self.plan_count))
                async with nullcontext() if runner.offline else progress:
                    complete = await self._drive(runner, records, page=page)
                if not complete:
                    records.discard()
                if runner.offline:
                    store = self.place.absolute_store
                    check_unchanged(self.folder, self.manifest(), runner.stats, store, scored=True)
                    if not runner.stats.replies:
                        raise StoreError(f"{store} holds no reply of {self.run_id}")
                await asyncio.to_thread(results.enter_context, output.alone())
        except Exception:
            if not runner.stats.replies:
                output.withdraw()
            raise
        return records, complete

    def changed(self) -> tuple[str, ...]:
        """Lines on files that changed, or packages that were upgraded, since the last session."""
        if not (self.folder / SPEC).exists():
            return ()
        gone = self._gone(recorded_samples(self.folder))
        return describe_changes(self.folder, self.manifest().model_copy(update={"gone": gone}))

    def write_page(self) -> Path:
        """Write the HTML report of a complete run into its folder; returns its path."""
        # template and plots are imported only for a page
        from mmconv.report.page import write_page

        return write_page(self.folder, self.resources.library, self.metadata())

    def metadata(self) -> dict[str, Mapping[str, str]]:
        """The samples' metadata (references, criteria), by sample and name."""
        samples = self.benchmark.load()
        return {sample.id: self.benchmark.metadata(sample) for sample in samples}

    async def _report(
        self, output: RunFolder, records: Records, stats: RunStats
    ) -> tuple[Table, ...]:
        path = self.folder / TRANSCRIPTS
        trials = await asyncio.to_thread(trial_notes, self.spec, self.samples, path)
        notes = (*self._run_notes(), *other_models(self.spec, stats.answered_by), *trials)
        facts = headline(self.spec, self.benchmark, self.samples, stats.answered_by)
        tables = partial(tabulate, self.benchmark, self.folder, self._judged)
        return await output.conclude(tables, records, notes, facts)

    def cite(self, audit: Path) -> None:
        """Have an audit's card correct this run; raises `ConfigError` if it is of another judge."""
        if (count := len(judge_roles(self.spec.models))) != 1:
            raise ConfigError(f"--audit corrects runs with one judge; this one has {count}")
        cite(self.folder, audit, self._judged())

    def _judged(self) -> Judged:
        """How the verdicts of this run are made; those of an audit are its candidate's."""
        role = self.models.get(JUDGE) or self.models[CANDIDATE]
        return describe_judging(
            self.benchmark,
            model=role.model.fingerprint,
            system=role.system,
            sampling=dict(role.sampling),
        )

    def _run_notes(self) -> tuple[str, ...]:
        return (
            *fake_model_notes(self.spec),
            *same_family(self.spec),
            *plain_turns(self.spec, about_models(self.spec)),
            *shard_notes(self.shard, self.samples, self._whole),
            *(f"GONE: {line}." for line in describe_gone(self._gone(self.spec.chosen))),
        )

    def manifest(self, stats: RunStats | None = None) -> Manifest:
        """The provenance of the run as of today, with the models that answered if known."""
        answered_by = {} if stats is None else stats.answered_by
        return Manifest(
            run=self.run_id,
            benchmark=self.benchmark.name,
            conditions=self.benchmark.conditions,
            samples=self.samples,
            gone=self._gone(self.spec.chosen),
            seed=self.spec.seed,
            models=self.fingerprints,
            about_models=about_models(self.spec),
            answered_by=answered_by,
            options=options_in_force(self.spec.benchmark, self.spec.options),
            provenance=self.benchmark.provenance,
            notes=(*other_models(self.spec, answered_by), *self.notes),
            **software(),
        )

    async def _drive(self, runner: Runner, output: Records, *, page: bool) -> bool:
        ahead: list[asyncio.Task[None]] = []

        def finish(finished: Finished, sample: Any) -> None:
            if not ahead:  # now, since all models are busy; earlier it would delay the first calls
                ahead.append(asyncio.create_task(asyncio.to_thread(import_ahead, page=page)))
            output.add(finished, self.benchmark.score_finished(sample, finished))

        complete = await self.carry_out(runner, finish)
        await asyncio.gather(*ahead)
        return complete

    async def carry_out(self, runner: Runner, take: Callable[[Finished, Any], None]) -> bool:
        """Run all plans; `take` gets each with its sample as it ends. Else like `Runner.run`."""
        under_way: dict[int, Any] = {}

        def take_in() -> Iterator[Plan]:
            for plan, sample in self.plans():
                under_way[plan.order] = sample
                yield plan

        def finish(finished: Finished) -> None:
            take(finished, under_way.pop(finished.plan.order))

        return await runner.run(take_in(), finish)


@asynccontextmanager
async def open_evaluation(
    spec: RunSpec, place: Place, shard: Shard = WHOLE
) -> AsyncIterator[Evaluation]:
    """Open a run that may not exist yet, with the options that new runs get (`as_new`).

    A run that was started in this place before there were such options keeps its own. Raises
    `InputError` before anything is paid, `StoreError` for the store.
    """
    async with _open_models(spec, place, create=True) as (resources, models):
        if (new := as_new(spec)) != spec:
            earlier = identify(spec, find_class(spec.benchmark), _fingerprints(models), shard)
            spec = spec if (place.out / earlier / SPEC).exists() else new
        yield Evaluation(
            spec=spec,
            place=place,
            resources=resources,
            models=models,
            benchmark=await resources.read_data(partial(build_benchmark, spec)),
            shard=shard,
        )


@asynccontextmanager
async def open_saved(
    folder: Path, spec: RunSpec, place: Place, shard: Shard = WHOLE
) -> AsyncIterator[Evaluation]:
    """Open the run in a folder; the rest is as `read_run` returns it.

    Raises `InputError` for its data, `StoreError` for the store, which must exist.
    """
    async with _open_models(spec, place, create=False) as (resources, models):
        yield Evaluation(
            spec=spec,
            place=place,
            resources=resources,
            models=models,
            benchmark=await resources.read_data(partial(build_benchmark, spec)),
            shard=shard,
            named=folder,
        )


@asynccontextmanager
async def _open_models(
    spec: RunSpec, place: Place, *, create: bool
) -> AsyncIterator[tuple[Resources, Mapping[str, RoleModel]]]:
    if CANDIDATE not in spec.models:
        raise ConfigError("nothing to evaluate: name the model (--candidate, or models.candidate)")
    async with (
        open_resources(place.store_url, create=create) as resources,
        open_models(spec, resources) as models,
    ):
        yield resources, models


def read_run(folder: Path) -> tuple[RunSpec, Place, Shard, Path]:
    """Specification, place, shard and working directory of an existing run.

    The specification has the samples that the run chose, if the folder has them. A database's
    password is not in the folder; it is taken from the environment if that names the same database.
    Raises `InputError` like `mmconv.run_folder.saved_run.read_start`.
    """
    start = read_start(folder)
    store = with_password(start.store, database_url())
    place = Place(out=folder.parent.absolute(), store=store)
    return start.spec.as_chosen(start.samples), place, start.shard, start.started_in


@asynccontextmanager
async def _left_aside(context: AbstractContextManager[Entered]) -> AsyncIterator[Entered]:
    """Enter a context here; leave it in a thread, since that takes a while."""
    with ExitStack() as stack:
        yield stack.enter_context(context)
        await asyncio.to_thread(stack.pop_all().close)


def _fingerprints(models: Mapping[str, RoleModel]) -> dict[str, str]:
    return {name: role.model.fingerprint for name, role in models.items()}


def _repeated(call: Call, trial: int) -> Call:
    """The call in a later trial: another random draw."""
    later = replace(call.sampling, trial=call.sampling.trial + 1000 * trial)
    return replace(call, sampling=later)
