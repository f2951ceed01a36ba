"""`/v1/runs`: start, list, watch, stop and remove runs of benchmarks."""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Depends, Header, Query
from fastapi import Path as InPath
from pydantic import BaseModel, Field
from pydantic_core import to_jsonable_python
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mmconv.api import RunInfo
from mmconv.benchmarks.base import Benchmark
from mmconv.benchmarks.options import as_new
from mmconv.core.atomic_writes import write_file
from mmconv.core.config import Strict
from mmconv.core.errors import InputError, StoreError
from mmconv.core.run_stats import JobState, Progress
from mmconv.engine.run import Evaluation
from mmconv.report.page.content import About
from mmconv.run_folder.layout import SPEC, TABLES
from mmconv.run_folder.saved_run import INDEX, read_manifest
from mmconv.service.access import Caller, Reader, RunStarter, Shared, SharedRuns
from mmconv.service.errors import Problem, json_response
from mmconv.service.jobs import Work, job_page, remove_job, submitted_job, watch
from mmconv.service.openapi import LOCATION, answers, documented, stopped
from mmconv.service.requests import JsonRoute, Page, Word
from mmconv.service.run_requests import (
    RunRequest,
    build_problem,
    name_run,
    reading_data,
    require_key,
    resolve,
)
from mmconv.service.settings import OWN_DATA
from mmconv.service.state import Readable, Service
from mmconv.service.streams import AT_WORK, HEADERS, write_event
from mmconv.service.webhooks import check_webhook, send_webhook
from mmconv.store.jobs import Ending, Filter, Job, NewJob, Submission

log = logging.getLogger(__name__)

router = APIRouter(prefix="/v1", tags=["runs"], route_class=JsonRoute)

RUN: Final = "run"
"""The kind of jobs that are runs of benchmarks."""

RUN_ID = r"^[A-Za-z0-9._-]{1,128}$"

RunId = Annotated[str, InPath(pattern=RUN_ID)]
"""The id of a run, in a path."""

Sample = Annotated[str, InPath(min_length=1, max_length=1000)]
"""A sample's name, in a path. It may contain slashes."""

QUIET_SECONDS = 15.0
"""After this time without news a comment keeps a stream of events open."""

NOTES = "notes.json"
"""The file in a run's folder with its note and tags."""

Tag = Annotated[str, Field(max_length=40, pattern=r"^[^\s,]([^\x00-\x1f,]*[^\s,])?$")]
"""A tag of a run."""

REMOVED = ".removed-"
"""Prefix of the names of folders that are to be deleted."""

Key = Annotated[str | None, Header(max_length=255, pattern=r"^[\x21-\x7e]+$")]
"""The header `Idempotency-Key`."""


async def find_run(shared: Readable, caller: Caller, run: str, param: str = "run") -> Job:
    """The run of this id, unless it is of another token's dataset.

    Raises `Problem` 404 about the field `param`.
    """
    job = await shared.queue.get(run)
    if job is None or job.kind != RUN or (run.startswith(OWN_DATA) and not caller.owns(job)):
        raise Problem(404, f"no run {run} is here", param=param)
    return job


async def _run_in_path(run: RunId, shared: SharedRuns, caller: Reader) -> Job:
    return await find_run(shared, caller, run)


FoundRun = Annotated[Job, Depends(_run_in_path)]
"""A parameter: the run that the path names, for a caller who may read runs."""


@router.post(
    "/runs",
    status_code=202,
    response_model=RunInfo,
    responses={
        **documented(404, 409, 422),
        200: answers(LOCATION, model=RunInfo, description="It is under way or done already."),
        202: answers(LOCATION),
    },
)
async def start_run(
    body: RunRequest,
    shared: Shared,
    caller: RunStarter,
    idempotency_key: Key = None,
) -> Response:
    """Queue a run. Posting it again finds it, and resumes it if it was stopped or lost calls.

    A run whose data, prompts or models were changed in place is resumed too, with only the new
    calls. Only its owner or an admin can resume a run; others find it. Options and data are checked
    before it is queued. An `Idempotency-Key` identifies its run for 24 hours, and is refused for
    another run.
    """
    submitted = await submit_run(shared, caller, body, idempotency_key)
    job = submitted_job(submitted, caller)
    status = 200 if submitted.admission == "known" else 202
    return await _respond(shared, job, status, {"Location": f"/v1/runs/{job.id}"})


async def submit_run(
    shared: Service, caller: Caller, body: RunRequest, key: str | None = None
) -> Submission:
    """Check a run and queue it, unless it is known. Raises `Problem`."""
    if body.webhook is not None:
        check_webhook(shared.settings, body.webhook)
    spec = resolve(shared.settings, body, shared.find_data(body.data, caller.as_owner))
    run = name_run(body, spec)
    known = await shared.queue.get(run)
    if known is None and (new := as_new(spec)) != spec:
        added = {name: new.options[name] for name in new.options.keys() - spec.options.keys()}
        body = body.model_copy(update={"options": {**body.options, **added}})
        run, spec = name_run(body, new), new
        known = await shared.queue.get(run)
    if known is None or not known.is_current:
        for role, model in spec.models.items():
            require_key(model, body.models[role], f"models.{role}")
    if known is None:
        try:
            await shared.benchmark(spec)
        except InputError as error:
            raise build_problem(error, spec) from error
    outdated = known is not None and known.is_current and await is_outdated(shared, known)
    return await shared.queue.submit(
        NewJob(
            id=run,
            kind=RUN,
            owner=caller.name,
            spec=body.model_dump_json(exclude_unset=True),
            benchmark=spec.benchmark,
            model=body.models["candidate"],
        ),
        key=key,
        most=caller.limits.concurrent_runs,
        for_others=caller.may("admin"),
        afresh=outdated,
    )


async def _respond(
    shared: Readable, job: Job, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return json_response(await asyncio.to_thread(run_info, shared, job), status, headers)


class Notes(Strict):
    """A run's note, and tags to find it by. An empty text or list removes them."""

    note: Annotated[str, Field(max_length=4000)] | None = None
    tags: tuple[Tag, ...] | None = Field(default=None, max_length=16)


class RunQuery(BaseModel):
    """Which runs to list: at most `limit`, after the one with the id `after`."""

    state: JobState | None = None
    benchmark: Word | None = None
    model: Word | None = None
    after: Annotated[str, Field(pattern=RUN_ID)] | None = None
    limit: int = Field(default=50, ge=1, le=200)


@router.get("/runs", response_model=Page[RunInfo, str])
async def list_runs(
    shared: SharedRuns, caller: Reader, query: Annotated[RunQuery, Query()]
) -> Response:
    """List runs, newest first. Those of other tokens' datasets are left out, except for admins."""
    chosen = visible_runs(caller)
    chosen = replace(chosen, state=query.state, benchmark=query.benchmark, model=query.model)
    page, following = await job_page(shared, chosen, query.after, query.limit)
    infos = await asyncio.to_thread(lambda: [run_info(shared, job) for job in page])
    return json_response({"data": infos, "next": following})


def visible_runs(caller: Caller) -> Filter:
    """All runs that the caller may read."""
    return Filter(kind=RUN, private=OWN_DATA, reader=caller.as_owner)


@router.get("/runs/{run}", response_model=RunInfo, responses=documented(404))
async def get_run(job: FoundRun, shared: SharedRuns) -> Response:
    """Get a run's state and progress."""
    return await _respond(shared, job)


@router.patch("/runs/{run}", response_model=RunInfo, responses=documented(404, 409))
async def annotate_run(run: RunId, body: Notes, shared: SharedRuns, caller: RunStarter) -> Response:
    """Set the note or the tags of one of the token's runs. They are kept in the run's folder.

    What the request leaves out stays. A run has no folder before it begins.
    """
    job = await find_own_run(shared, caller, run)
    folder = run_folder(shared, job)
    if folder is None or not folder.is_dir():
        raise Problem(409, f"the run {run} has not begun, so it has no folder", code="not_here")

    def write() -> None:
        notes = read_notes(folder) | body.model_dump(exclude_none=True)
        write_file(folder / NOTES, orjson.dumps(notes))

    await asyncio.to_thread(write)
    return await _respond(shared, job)


@router.get(
    "/runs/{run}/events",
    response_class=StreamingResponse,
    responses={
        **documented(404),
        200: {"content": {"text/event-stream": {}}, "description": "Events until the run ends."},
    },
)
async def run_events(job: FoundRun, shared: SharedRuns, caller: Reader) -> StreamingResponse:
    """Stream `progress` events with the run's state, and a last one named `end`.

    The stream also ends when the server or its database goes away: connect again.
    """
    jobs = watch(shared, caller, job)
    await anext(jobs)  # the job itself, or a refusal, which must come before the status
    events = _events(shared, job, jobs)
    return StreamingResponse(events, media_type="text/event-stream", headers=HEADERS)


async def _events(shared: Readable, first: Job, jobs: AsyncIterator[Job]) -> AsyncIterator[bytes]:
    yield await _event(shared, first)
    sent, quiet_since = first, time.monotonic()
    try:
        async for job in jobs:
            if job != sent:
                yield await _event(shared, job)
                sent, quiet_since = job, time.monotonic()
            elif time.monotonic() - quiet_since > QUIET_SECONDS:
                yield AT_WORK
                quiet_since = time.monotonic()
    except StoreError as error:
        # The status has been sent.
        log.warning("a stream of events ends: %s", error)


async def _event(shared: Readable, job: Job) -> bytes:
    info = await asyncio.to_thread(run_info, shared, job)
    return write_event(info, "progress" if job.is_active else "end")


@router.delete(
    "/runs/{run}",
    status_code=202,
    response_model=RunInfo,
    responses=documented(404, 409) | stopped(RunInfo),
)
async def stop_run(
    request: Request, run: RunId, shared: Shared, caller: RunStarter, purge: bool = False
) -> Response:
    """Stop one of the token's runs. Its replies are kept; posting it again resumes it.

    With `purge`, remove one that has ended: its scores, tables, transcripts and report. The replies
    stay in the cache, where equal calls of any run find them.
    """
    job = await find_own_run(shared, caller, run)
    if purge:
        await remove_run(shared, job)
        return Response(status_code=204)
    if not job.is_active:
        return await _respond(shared, job)
    job = await shared.queue.stop(run) or job
    if not job.is_active:  # it had no worker yet that would announce its end
        request.app.state.worker.announce(RunWork(shared, job))
    return await _respond(shared, job, 202)


class RunWork(Work):
    """A run in execution. Its report page is made on first request."""

    kind = RUN
    _folder: str | None = None

    def progress(self) -> dict[str, Any]:
        """The fields of `Progress`, and the name of the run's folder once it is known."""
        progress = super().progress()
        return progress if self._folder is None else progress | {"folder": self._folder}

    async def run(self) -> Ending | None:
        """Run to the end. The result names the run's folder."""
        evaluation = await self._shared.open_run(self._job)
        names = RunRequest.model_validate_json(self._job.spec).models
        runner = evaluation.runner()
        self._folder = evaluation.run_id
        if not self.begin(runner, evaluation.plan_count, names):
            return None
        result = await evaluation.run(runner, page=False)
        if not result.complete:
            return self.halted(runner.stats.stop_reason)
        summary = {
            "folder": result.folder.name,
            "scores": result.scores,
            "unscored": dict(result.unscored),
        }
        return self.done(result.stats.lost, summary)

    async def announce(self) -> None:
        """Post the run's state to its webhook, if it has one."""
        url = RunRequest.model_validate_json(self._job.spec).webhook
        job = await self._shared.queue.get(self._job.id)
        if url is None or job is None or job.ended is None:
            return
        body = orjson.dumps(await asyncio.to_thread(run_info, self._shared, job))
        message_id = f"{job.id}-{int(job.ended.timestamp())}"
        await send_webhook(self._shared.settings, url, message_id, body)


async def find_own_run(shared: Readable, caller: Caller, run: str) -> Job:
    """The caller's run of this id. Raises `Problem` 403 for another token's, or 404."""
    job = await find_run(shared, caller, run)
    if not caller.owns(job):
        raise Problem(403, "this run is another token's", code="not_yours")
    return job


async def remove_run(shared: Service, job: Job) -> None:
    """Remove a run that has ended, with its folder. Replies stay in the store.

    A folder that another run shares, because it has the same specification, stays. Raises `Problem`
    409 for a run under way.
    """
    name, out = _folder_name(job), shared.settings.out

    def clear(removed: Job, others: Iterable[Job]) -> None:
        folders = [out / "shown" / removed.id, out / "compared"]
        if name and all(_folder_name(other) != name for other in others):
            folders.append(out / name)
        for folder in folders:
            # Renamed in one step, deleted later. It may not exist.
            with suppress(FileNotFoundError):
                folder.rename(out / f"{REMOVED}{secrets.token_hex(8)}")

    # Meanwhile no report is made from its files.
    async with shared.reporting:
        await remove_job(shared, job, clear)
    await asyncio.to_thread(_delete_removed, out)


def _folder_name(job: Job) -> str | None:
    """The name of the run's folder; None if it never began."""
    written = job.progress if job.result is None else orjson.loads(job.result)
    name: str | None = written.get("folder")
    return name


def run_folder(shared: Readable, job: Job) -> Path | None:
    """The run's folder, whether or not it is here; None if it never began."""
    name = _folder_name(job)
    return None if name is None else shared.settings.out / name


def _delete_removed(out: Path) -> None:
    """Delete removed folders, also those of a process that ended before it could."""
    for folder in out.glob(f"{REMOVED}*"):
        shutil.rmtree(folder, ignore_errors=True)


async def about_run(shared: Readable, job: Job) -> About | None:
    """What a run's data says of its samples; None if the data has changed or is gone."""
    try:
        benchmark = await readable_data(shared, job)
        folder = finished_folder(shared, job)
        return await asyncio.to_thread(_metadata, folder, benchmark)
    except (InputError, Problem, OSError):
        return None


def _metadata(folder: Path, benchmark: Benchmark[Any, Any]) -> About | None:
    if "data" in _changed(folder, benchmark):
        return None
    return {sample.id: benchmark.metadata(sample) for sample in benchmark.load()}


def finished_folder(shared: Readable, job: Job) -> Path:
    """The folder of a run that has finished at least once. Raises `Problem` 409."""
    folder = run_folder(shared, job)
    if folder is not None and job.result is not None:
        if not (folder / SPEC).exists():
            log.warning("%s of %s is gone: servers of one database need one `out`", folder, job.id)
            message = (
                f"the folder of the run {job.id} is not on this server; the operator can restore "
                "it, or give all servers of the database one `out`"
            )
            raise Problem(409, message, param="run", code="not_here")
        # A resumed run writes its scores first, and then the tables that are made of them.
        if not job.is_active or (folder / TABLES / INDEX).exists():
            return folder
    next_step = "wait for its end" if job.is_active else "start it again to finish it"
    message = f"the run {job.id} is not done (it is {job.state}): {next_step}"
    raise Problem(409, message, param="run", code="not_finished")


async def is_outdated(shared: Service, job: Job) -> bool:
    """Whether a finished run's data, prompts or models were changed in place since.

    What cannot be read any more does not count as changed.
    """
    try:
        folder = finished_folder(shared, job)
        evaluation = await shared.open_run(job)
        moved = evaluation.run_id != folder.name
        return moved or bool(await asyncio.to_thread(_changed, folder, evaluation.benchmark))
    except (InputError, Problem, OSError):
        return False


def _changed(folder: Path, benchmark: Benchmark[Any, Any]) -> list[str]:
    """Which of data and prompts differ from those of the results in the folder."""
    before = read_manifest(folder).model_dump(mode="json")["provenance"]
    today = to_jsonable_python(benchmark.provenance)
    return [name for name in ("data", "prompts") if before.get(name) != today.get(name)]


async def readable_run(shared: Readable, job: Job) -> Evaluation:
    """The run, ready to be read. Raises `Problem` 409 if what it names is gone."""
    with reading_data(_data_options(shared, job)):
        return await shared.open_run(job)


async def readable_data(shared: Readable, job: Job) -> Benchmark[Any, Any]:
    """The benchmark with the run's data. Raises `Problem` 409 if they are gone."""
    with reading_data(_data_options(shared, job)):
        return await shared.open_data(job)


def _data_options(shared: Readable, job: Job) -> Mapping[str, Any]:
    data = shared.find_data(orjson.loads(job.spec)["data"], None)
    return data.options if data else {}


def read_notes(folder: Path | None) -> dict[str, Any]:
    """The note and the tags in a run's folder, if it has any."""
    with suppress(OSError, ValueError):
        data = b"{}" if folder is None else (folder / NOTES).read_bytes()
        notes = Notes.model_validate_json(data)
        return {"note": notes.note or "", "tags": notes.tags or ()}
    return {"note": "", "tags": ()}


def run_info(shared: Readable, job: Job) -> dict[str, Any]:
    """The fields of `RunInfo`. Blocks: the run's folder has its notes."""
    result = {} if job.result is None else orjson.loads(job.result)
    progress = {**_EMPTY, **job.progress}
    progress.pop("folder", None)
    same = ("id", "owner", "state", "stopping", "benchmark", "model", "lost", "error", "created")
    times = ("queued", "started", "updated", "ended")
    return {name: getattr(job, name) for name in (*same, *times)} | {
        "request": _public_request(job),
        "progress": progress,
        "scores": result.get("scores"),
        "unscored": result.get("unscored"),
        "folder": _folder_name(job),
        **read_notes(run_folder(shared, job)),
    }


def _public_request(job: Job) -> Any:
    """The request without its webhook: readers of the run may not be trusted with the URL."""
    if '"webhook"' not in job.spec:
        return orjson.Fragment(job.spec)
    return {name: value for name, value in orjson.loads(job.spec).items() if name != "webhook"}


_EMPTY = asdict(Progress())
