"""A folder of runs, read as a server's runs are: what `mmconv view` serves.

Other processes write the folder. A run that they finish, resume or delete meanwhile is read again.
Files made of runs (parts of pages, comparisons) are in a temporary folder, removed at the end.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import orjson
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from images import ImageStore
from mmconv.benchmarks.base import Benchmark, ImageOptions
from mmconv.benchmarks.options import describe, file_options
from mmconv.benchmarks.registry import TITLES
from mmconv.core.config import CANDIDATE, RunSpec
from mmconv.core.errors import ConfigError, DataError, InputError, StoreError
from mmconv.core.keys import hash_json
from mmconv.core.run_stats import Progress
from mmconv.engine.run import Evaluation, Place, open_saved, read_run
from mmconv.engine.setup import build_benchmark
from mmconv.run_folder.layout import (
    PROGRESS,
    SCORES,
    SPEC,
    SUMMARY,
    TABLES,
    RunSummary,
    Shard,
    Specified,
)
from mmconv.run_folder.saved_run import (
    INDEX,
    find_unfinished,
    read_specified,
    read_summary,
)
from mmconv.service.access import LOCAL
from mmconv.service.app import build_app
from mmconv.service.run_files import describe_damage
from mmconv.service.runs import RUN, RUN_ID
from mmconv.service.settings import Settings
from mmconv.service.state import Readable
from mmconv.service.web.data import run_rows
from mmconv.store.jobs import Filter, Job

STATE = (SPEC, SUMMARY, PROGRESS, SCORES, f"{TABLES}/{INDEX}")
"""The files whose times say whether a run must be read again."""

Times: TypeAlias = tuple[int, ...]
"""When each file of `STATE` was written, in nanoseconds; 0 for one that does not exist."""

ALIVE_SECONDS = 30.0
"""After this time without news of its progress a session is taken for dead."""

WRITING_SECONDS = 600.0
"""The same, once all calls have ended and results are being written."""

DEPTHS = (f"*/{SPEC}", f"*/*/{SPEC}")
"""Where runs are below the folder: `mmconv demo` writes into a folder of its own."""

MADE = frozenset({"shown", "compared"})
"""Folders that a server makes of its runs."""

GROUPS = ("runs", "results", "comparisons", "web.pages", "web.data")
"""The modules of the service whose GET routes read runs."""

LEFT_OUT = frozenset({"/new", "/try", "/docs"})
"""Pages that need models."""


class RunFolders:
    """The runs in a folder as jobs (`mmconv.service.state.JobList`)."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._known: dict[Path, tuple[Times, Job]] = {}
        self._folders: dict[str, Path] = {}

    async def get(self, job_id: str) -> Job | None:
        """The run of this id, if it is here."""
        if job_id not in self._folders:
            await asyncio.to_thread(self.read)
        if job_id not in self._folders:
            return None
        return await asyncio.to_thread(self._job, job_id)

    async def page(self, chosen: Filter, *, after: str | None = None, limit: int = 50) -> list[Job]:
        """At most `limit` runs, the newest first. Raises `KeyError` for an unknown `after`."""
        jobs = [
            job
            for job in await asyncio.to_thread(self.read)
            if all(
                value in (None, getattr(job, name, value)) for name, value in asdict(chosen).items()
            )
        ]
        if after is not None:
            names = [job.id for job in jobs]
            if after not in names:
                raise KeyError(after)
            jobs = jobs[names.index(after) + 1 :]
        return jobs[:limit]

    def place(self, job_id: str) -> Path:
        """The folder of a run that was listed."""
        return self._folders[job_id]

    def read(self) -> list[Job]:
        """All runs, the newest first."""
        self._folders = dict(self._named())
        jobs = (self._job(name) for name in self._folders)
        return sorted(filter(None, jobs), key=lambda job: (job.created, job.id), reverse=True)

    def _named(self) -> Iterator[tuple[str, Path]]:
        """Each run's id, which is valid in an address, and its folder."""
        for pattern in DEPTHS:
            for path in sorted(self._out.glob(pattern)):
                folder = path.parent
                name = folder.relative_to(self._out).as_posix()
                if name.split("/")[0] not in MADE:
                    yield _id_of(name), folder

    def _job(self, job_id: str) -> Job | None:
        """The run as it is now; None if it was deleted."""
        folder = self._folders[job_id]
        times = tuple(_time(folder / name) for name in STATE)
        if not times[0]:
            return None
        known = self._known.get(folder)
        if known is None or known[0] != times:
            name = folder.relative_to(self._out).as_posix()
            known = self._known[folder] = times, _read_job(job_id, name, folder, times)
        job = known[1]
        return replace(job, state="running", ended=None) if _is_running(job, times) else job


def _id_of(name: str) -> str:
    """The folder's name as far as it is valid in an address, else with a hash."""
    if re.fullmatch(RUN_ID, name):
        return name
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name)[:100]}-{hash_json(name)[:6]}"


def _time(path: Path) -> int:
    """When the file was written, in nanoseconds; 0 if it does not exist."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _read_job(job_id: str, name: str, folder: Path, times: Times) -> Job:
    """The run as its files say at these times, as if no session went on."""
    progress: Mapping[str, Any] = {}
    specified = summary = unfinished = error = None
    with suppress(OSError, TypeError, ValueError):
        progress = asdict(Progress(**orjson.loads((folder / PROGRESS).read_bytes())))
    try:
        specified, summary = read_specified(folder), read_summary(folder)
        unfinished = find_unfinished(folder)
    except InputError as problem:
        # one that is not about data: the run was deleted this moment
        error = describe_damage(problem) if isinstance(problem, DataError) else str(problem)
    started, *others = (datetime.fromtimestamp(time / 1e9, UTC) for time in times)
    spec = specified.spec if specified else None
    is_done = error is None and unfinished is None
    roles = summary.models.values() if summary else ()
    return Job(
        id=job_id,
        kind=RUN,
        owner=LOCAL,
        spec=orjson.dumps(_request(specified)).decode(),
        benchmark=spec.benchmark if spec else None,
        model=spec.models[CANDIDATE].label if spec else None,
        state="done" if is_done else "stopped" if error is None else "failed",
        stopping=False,
        worker=None,
        lease=None,
        starts=1,
        progress={"folder": name, **(progress or _ended_progress(summary))},
        lost=sum(role.failed + role.skipped for role in roles) if is_done else 0,
        result=orjson.dumps({"folder": name, "unscored": {}}).decode() if is_done else None,
        error=error,
        created=started,
        queued=started,
        started=started,
        updated=max(started, *others),
        ended=max(started, *others),
    )


def _is_running(job: Job, times: Times) -> bool:
    """Whether a session goes on, as far as the run's files say."""
    written = dict(zip(STATE, times, strict=True))
    is_writing = job.progress.get("conversations") == job.progress.get("total")
    seconds = WRITING_SECONDS if is_writing else ALIVE_SECONDS
    is_fresh = time.time() - written[PROGRESS] / 1e9 < seconds
    return is_fresh and written[PROGRESS] > written[SUMMARY]


def _ended_progress(summary: RunSummary | None) -> Mapping[str, Any]:
    """The fields of `Progress` of a session that ended."""
    if summary is None:
        return {}
    roles = summary.models.values()
    counts = {
        name: sum(getattr(role, name) for role in roles)
        for name in ("requested", "cached", "failed", "skipped", "retried")
    }
    calls = sum(role.needless for role in roles) + sum(counts.values()) - counts["retried"]
    return asdict(
        Progress(
            **counts,
            calls=calls,
            planned=calls,
            conversations=summary.plans,
            total=summary.plans,
            replies=counts["requested"] + counts["cached"],
            input_tokens=sum(role.input_tokens for role in roles),
            output_tokens=sum(role.output_tokens for role in roles),
            seconds=summary.seconds,
        )
    )


def _request(specified: Specified | None) -> dict[str, Any]:
    """The run as a request to a server would name it: models by label, data by file if any."""
    if specified is None:
        return {"data": "", "models": {}}
    spec, shard = specified.spec, specified.shard
    files = _file_options(spec)
    data = Path(str(spec.options.get("data") or TITLES.get(spec.benchmark, spec.benchmark)))
    request = spec.model_dump(
        mode="json",
        exclude_defaults=True,
        exclude={"benchmark", "models", "prompts"},
    )
    return request | {
        "data": Path(*data.parts[-2:]).as_posix(),
        "models": {role: model.label for role, model in spec.models.items()},
        "options": {name: value for name, value in spec.options.items() if name not in files}
        | ({} if shard.is_whole else {"part": str(shard)}),
    }


def _file_options(spec: RunSpec) -> frozenset[str]:
    known = describe(spec.benchmark).options if spec.benchmark in TITLES else ImageOptions
    return file_options(known)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsFolder(Readable):
    """What requests share that read a folder of runs.

    `opened` closes the stores of unfinished runs whose samples were shown (`evaluations`).
    """

    queue: RunFolders
    images: ImageStore
    opened: AsyncExitStack
    evaluations: dict[str, Evaluation] = field(default_factory=dict)

    async def open_run(self, job: Job) -> Evaluation:
        """See `Readable`."""
        async with self.reading:
            if job.id not in self.evaluations:
                folder = self.queue.place(job.id)
                spec, place, shard = read_absolute(folder)
                opening = open_saved(folder, spec, place, shard)
                try:
                    evaluation = await self.opened.enter_async_context(opening)
                except StoreError as error:
                    raise ConfigError(str(error)) from error
                self.evaluations[job.id] = evaluation
        return self.evaluations[job.id]

    async def open_data(self, job: Job) -> Benchmark[Any, Any]:
        """See `Readable`. Runs of the same samples share what was read."""
        spec, _, _ = read_absolute(self.queue.place(job.id))
        key = hash_json([spec.model_dump(mode="json", exclude={"models"}), spec.chosen])
        build = partial(asyncio.to_thread, build_benchmark, spec, self.images)
        return await self.cached_benchmark(key, build)

    def public_spec(self, job: Job, folder: Path) -> RunSpec:
        """See `Readable`. All of it: its readers can read the folder."""
        return read_specified(folder).spec


def read_absolute(folder: Path) -> tuple[RunSpec, Place, Shard]:
    """A run as `read_run` has it, its paths absolute: they start from where it was started."""
    spec, place, shard, started_in = read_run(folder)
    files = _file_options(spec)
    options = {
        name: str(started_in / value) if name in files and isinstance(value, str) else value
        for name, value in spec.options.items()
    }
    prompts = spec.prompts and started_in / spec.prompts
    return spec.model_copy(update={"options": options, "prompts": prompts}), place, shard


@asynccontextmanager
async def open_view(settings: Settings) -> AsyncIterator[FastAPI]:
    """The ASGI application over the folder `settings.out`: the pages, and the routes they call.

    Raises `ConfigError` for a folder without runs.
    """
    queue = RunFolders(settings.out)
    runs = await asyncio.to_thread(queue.read)
    require_runs(settings.out, runs)
    async with AsyncExitStack() as stack:
        temporary = stack.enter_context(TemporaryDirectory(prefix="mmconv-view-"))
        shared = RunsFolder(
            settings=settings,
            queue=queue,
            images=ImageStore(),
            derived=Path(temporary),
            opened=stack,
        )
        routers = (import_module(f"mmconv.service.{name}").router for name in GROUPS)
        app = build_app(shared, map(_reading, routers), openapi_url=None)
        # the numbers of many runs take a second, in which the reader opens the page
        ahead = asyncio.create_task(asyncio.to_thread(run_rows, shared, runs))
        yield app
        await ahead


def require_runs(folder: Path, jobs: Sequence[Job]) -> None:
    """Raise `ConfigError` for a folder without runs."""
    if (folder / SPEC).exists():
        raise ConfigError(f"{folder} is the folder of one run: name the folder that holds it")
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no runs found (folder does not exist)")
    if not jobs:
        hint = f"no folder in it has a {SPEC}; `mmconv run --out {folder}` writes runs into it"
        raise ConfigError(f"{folder}: no runs found ({hint})")


def _reading(router: APIRouter) -> APIRouter:
    """The routes that read runs, and the one that writes notes on them."""
    reading = APIRouter()
    reading.routes.extend(
        route
        for route in router.routes
        if isinstance(route, APIRoute)
        and route.methods in ({"GET"}, {"PATCH"})
        and route.path not in LEFT_OUT
    )
    return reading
