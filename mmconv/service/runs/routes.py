"""`/v1/runs`: start, list, watch, stop and remove runs of benchmarks."""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import orjson
from fastapi import APIRouter, Header, Query
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from mmconv.api import RunInfo
from mmconv.benchmarks.options import as_new
from mmconv.core.errors import InputError, StoreError
from mmconv.core.run_stats import JobState
from mmconv.service.access import Caller, Reader, RunStarter, Shared, SharedRuns
from mmconv.service.errors import Problem, json_response
from mmconv.service.http.requests import JsonRoute, Page, QueryParameters, Word
from mmconv.service.http.responses import LOCATION, answers, documented, stopped
from mmconv.service.jobs import job_page, remove_job, too_many_jobs, watch
from mmconv.service.runs.execution import (
    RUN,
    RUN_ID,
    RunId,
    find_run,
    folder_not_here,
    is_outdated,
    run_info,
)
from mmconv.service.runs.requests import (
    RunRequest,
    build_problem,
    decisive,
    name_run,
    require_keys,
    resolve,
)
from mmconv.service.settings import Settings
from mmconv.service.state import Service
from mmconv.store.jobs import Filter, Job, NewJob, Submission

log = logging.getLogger(__name__)

router = APIRouter(prefix="/v1", tags=["runs"], route_class=JsonRoute)

QUIET_SECONDS = 15.0
"""After this time without news a comment keeps a stream of events open."""

REMOVED = ".removed-"
"""Prefix of the names of folders that are to be deleted."""

Key = Annotated[str | None, Header(max_length=255, pattern=r"^[\x21-\x7e]+$")]
"""The header `Idempotency-Key`."""


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
    asked: RunRequest,
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
    spec = resolve(shared.settings, asked)
    run = name_run(asked, spec)
    known = await shared.queue.get(run)
    if known is None and (new := as_new(spec)) != spec:
        added = {name: new.options[name] for name in new.options.keys() - spec.options.keys()}
        asked = asked.model_copy(update={"options": {**asked.options, **added}})
        run, spec = name_run(asked, new), new
        known = await shared.queue.get(run)
    if known is None or not known.is_current:
        require_keys(asked, spec)
    if known is None:
        try:
            await shared.benchmark(spec)
        except InputError as error:
            raise build_problem(error, spec) from error
    outdated = known is not None and known.is_current and await is_outdated(shared, known)
    submitted = await shared.queue.submit(
        NewJob(
            id=run,
            kind=RUN,
            owner=caller.name,
            spec=asked.canonical(),
            benchmark=spec.benchmark,
            model=asked.models["candidate"],
        ),
        key=idempotency_key,
        most=caller.limits.concurrent_runs,
        for_others=caller.may("admin"),
        afresh=outdated,
    )
    return answer_submission(submitted, caller)


def answer_submission(submitted: Submission, caller: Caller) -> Response:
    """The response to a submitted job: 202 queued, 200 known. Raises `Problem`."""
    if submitted.admission == "key_reused":
        raise Problem(
            422,
            "this idempotency key was used for another request",
            param="Idempotency-Key",
            code="idempotency_key_reused",
        )
    job = submitted.job
    if job is None:
        raise too_many_jobs(caller)
    if submitted.admission == "not_owned":
        state = f"is {job.state}"
        if job.state == "done":
            state = "has lost calls" if job.lost else "was made from files that have changed since"
        raise Problem(
            409,
            f"the run {job.id} belongs to the token {job.owner} and "
            f"{'is stopping' if job.stopping else state}: {job.owner} or an admin may resume it, "
            f"and GET /v1/runs/{job.id} shows its state",
            code="not_yours",
        )
    status = 200 if submitted.admission == "known" else 202
    return json_response(run_info(job), status, {"Location": f"/v1/runs/{job.id}"})


class RunQuery(QueryParameters):
    """Which runs to list: at most `limit`, after the one with the id `after`."""

    state: JobState | None = None
    benchmark: Word | None = None
    model: Word | None = None
    after: Annotated[str, Field(pattern=RUN_ID)] | None = None
    limit: int = Field(default=50, ge=1, le=200)


@router.get("/runs", response_model=Page[RunInfo, str])
async def list_runs(
    shared: SharedRuns, _caller: Reader, asked: Annotated[RunQuery, Query()]
) -> Response:
    """List runs, newest first."""
    chosen = Filter(kind=RUN, state=asked.state, benchmark=asked.benchmark, model=asked.model)
    page, following = await job_page(shared, chosen, asked.after, asked.limit)
    return json_response({"data": [run_info(job) for job in page], "next": following})


@router.get("/runs/{run}", response_model=RunInfo, responses=documented(404))
async def get_run(run: RunId, shared: SharedRuns, _caller: Reader) -> Response:
    """Get a run's state and progress."""
    return json_response(run_info(await find_run(shared, run)))


@router.get(
    "/runs/{run}/events",
    response_class=StreamingResponse,
    responses={
        **documented(404),
        200: {"content": {"text/event-stream": {}}, "description": "Events until the run ends."},
    },
)
async def run_events(run: RunId, shared: SharedRuns, caller: Reader) -> StreamingResponse:
    """Stream `progress` events with the run's state, and a last one named `end`.

    The stream also ends when the server or its database goes away: connect again.
    """
    job = await find_run(shared, run)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    events = _events(watch(shared, caller, job))
    # A refusal must be raised before the status is sent.
    stream = _stream(await anext(events, b""), events)
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


async def _stream(first: bytes, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    try:
        async for event in events:
            yield event
    except StoreError as error:
        # The status has been sent.
        log.warning("a stream of events ends: %s", error)


async def _events(jobs: AsyncIterator[Job]) -> AsyncIterator[bytes]:
    sent, quiet_since = None, time.monotonic()
    async for job in jobs:
        if job != sent:
            name = "progress" if job.is_active else "end"
            yield f"event: {name}\ndata: ".encode() + orjson.dumps(run_info(job)) + b"\n\n"
            sent, quiet_since = job, time.monotonic()
        elif time.monotonic() - quiet_since > QUIET_SECONDS:
            yield b": waiting\n\n"
            quiet_since = time.monotonic()


@router.delete(
    "/runs/{run}",
    status_code=202,
    response_model=RunInfo,
    responses=documented(404, 409) | stopped(RunInfo),
)
async def stop_run(run: RunId, shared: Shared, caller: RunStarter, purge: bool = False) -> Response:
    """Stop one of the token's runs. Its replies are kept; posting it again resumes it.

    With `purge`, remove one that has ended: its scores, tables, transcripts and report. The replies
    stay in the cache, where equal calls of any run find them.
    """
    job = await find_run(shared, run)
    if not caller.owns(job):
        raise Problem(403, "this run is another token's", code="not_yours")
    if purge:
        await remove_run(shared, job)
        return Response(status_code=204)
    if not job.is_active:
        return json_response(run_info(job))
    return json_response(run_info(await shared.queue.stop(run) or job), 202)


async def remove_run(shared: Service, job: Job) -> None:
    """Remove a run that has ended, with its folder. Replies stay in the store.

    A folder that another run shares, because it has the same specification, stays. Raises `Problem`
    409 for a run under way, and if its folder is not here: nothing would refer to it any more.
    """
    name = _folder_name(job)
    out = shared.settings.out
    # A run without a single reply may have removed its folder itself.
    has_written = job.result is not None or bool(job.progress.get("replies"))
    if name and not job.is_active and has_written and not (out / name).is_dir():
        advice = (
            "remove the run at the server that has it, or restore the folder (an empty one named "
            f"{name} will do if it is lost)"
        )
        raise folder_not_here(job, out / name, advice)

    def clear(removed: Job, others: Iterable[Job]) -> None:
        folders = [out / "shown" / removed.id, out / "compared"]
        if name and not any(_shares(shared.settings, other, name, removed) for other in others):
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
    name: str | None = (job.progress if job.result is None else orjson.loads(job.result)).get(
        "folder"
    )
    return name


def _shares(settings: Settings, other: Job, name: str, job: Job) -> bool:
    """Whether another run has the folder of this name, or is about to write it."""
    if _folder_name(other) == name:
        return True
    try:
        return other.is_active and _decisive(settings, other) == _decisive(settings, job)
    except Problem:
        return False


def _decisive(settings: Settings, job: Job) -> object:
    return decisive(resolve(settings, RunRequest.model_validate_json(job.spec)))


def _delete_removed(out: Path) -> None:
    """Delete removed folders, also those of a process that ended before it could."""
    for folder in out.glob(f"{REMOVED}*"):
        shutil.rmtree(folder, ignore_errors=True)
