"""`/v1/runs`: start, list, watch and stop runs of benchmarks.

What a finished run left behind is given out by `mmconv.service.results.routes`.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from mmconv.answers import RunInfo
from mmconv.core.errors import InputError
from mmconv.core.run_stats import JobState
from mmconv.service.access import Caller, Reader, RunStarter, Shared
from mmconv.service.docs.responses import documented, stopped, with_location
from mmconv.service.errors.problems import Problem, json_response
from mmconv.service.http.json_bodies import JsonRoute
from mmconv.service.http.query_parameters import QueryParameters, Word
from mmconv.service.jobs.operations import Deletion, job_page, too_many_jobs
from mmconv.service.runs.execution import RUN
from mmconv.service.runs.lookup import RUN_ID, RunId, find_run, is_outdated, run_info
from mmconv.service.runs.problems import build_problem
from mmconv.service.runs.removal import remove_run
from mmconv.service.runs.requests import RunRequest, name_run, require_keys, resolve
from mmconv.service.runs.resources import Resources
from mmconv.store.job_queries import stands
from mmconv.store.jobs import Filter, Job, NewJob, Submission

router = APIRouter(prefix="/v1", tags=["runs"], route_class=JsonRoute)

Key = Annotated[str | None, Header(max_length=255, pattern=r"^[\x21-\x7e]+$")]
"""The header `Idempotency-Key`."""


@router.post(
    "/runs",
    status_code=202,
    response_model=RunInfo,
    responses={
        **documented(404, 409, 422),
        **with_location(200, model=RunInfo, description="The run is under way or done already."),
        **with_location(202),
    },
)
async def start_run(
    asked: RunRequest,
    shared: Shared,
    resources: Resources,
    caller: RunStarter,
    idempotency_key: Key = None,
) -> Response:
    """Queue a run; posting it again finds it, and resumes it if it was stopped or lost calls.

    So does a run whose data, prompts or models were changed in place since: what is new is asked.
    Another token's is only found. What is to be resumed, its owner or an admin must post.
    Options and data are checked before it is queued. An `Idempotency-Key` stands for its run for 24
    hours, and is refused for another one.
    """
    spec = resolve(shared.settings, asked)
    run = name_run(asked, spec)
    known = await shared.queue.get(run)
    if known is None or not stands(known):
        require_keys(asked, spec)
    if known is None:
        try:
            await resources.benchmarks.get(spec)
        except InputError as error:
            raise build_problem(error, spec) from error
    outdated = known is not None and stands(known) and await is_outdated(resources, known)
    submitted = await shared.queue.submit(
        NewJob(
            id=run,
            kind=RUN,
            owner=caller.name,
            spec=asked.canonical(),
            benchmark=spec.benchmark,
            model=asked.seats["candidate"],
        ),
        key=idempotency_key,
        most=caller.limits.concurrent_runs,
        for_others=caller.may("admin"),
        afresh=outdated,
    )
    return answer_submission(submitted, caller)


def answer_submission(submitted: Submission, caller: Caller) -> Response:
    """What a client is told of a job it submitted: 202 queued, 200 known; raises `Problem`."""
    if submitted.admission == "key_reused":
        raise Problem(
            422,
            "this idempotency key was used for another request",
            param="Idempotency-Key",
            code="idempotency_key_reused",
        )
    if submitted.job is None:
        raise too_many_jobs(caller)
    if submitted.admission == "not_owned":
        raise _not_owned(submitted.job)
    location = {"Location": f"/v1/runs/{submitted.job.id}"}
    status = 200 if submitted.admission == "known" else 202
    return json_response(run_info(submitted.job), status, location)


def _not_owned(job: Job) -> Problem:
    how = f"is {job.state}"
    if job.state == "done":
        how = "has lost calls" if job.lost else "was made from files that have changed since"
    if job.stopping:
        how = "is stopping"
    return Problem(
        409,
        f"the run {job.id} is the token {job.owner}'s and {how}: {job.owner} or an admin may "
        f"resume it, and GET /v1/runs/{job.id} tells how it is",
        code="not_yours",
    )


class RunQuery(QueryParameters):
    """Which runs a list holds: at most `limit`, behind the one with the id `after`."""

    state: JobState | None = None
    benchmark: Word | None = None
    model: Word | None = None
    after: Annotated[str, Field(pattern=RUN_ID)] | None = None
    limit: int = Field(default=50, ge=1, le=200)


class RunList(BaseModel):
    """Runs, the newest first; `next` is the `after` of the following page, or null."""

    data: list[RunInfo]
    next: str | None


@router.get("/runs", response_model=RunList, responses=documented())
async def list_runs(
    shared: Shared, _caller: Reader, asked: Annotated[RunQuery, Query()]
) -> Response:
    """List runs, the newest first."""
    chosen = Filter(kind=RUN, state=asked.state, benchmark=asked.benchmark, model=asked.model)
    page, following = await job_page(shared, chosen, asked.after, asked.limit)
    return json_response({"data": [run_info(job) for job in page], "next": following})


@router.get("/runs/{run}", response_model=RunInfo, responses=documented(404))
async def get_run(run: RunId, shared: Shared, _caller: Reader) -> Response:
    """Tell how a run is."""
    return json_response(run_info(await find_run(shared, run)))


@router.delete(
    "/runs/{run}",
    status_code=202,
    response_model=RunInfo,
    responses=documented(404, 409) | stopped(RunInfo),
)
async def stop_run(
    run: RunId, shared: Shared, resources: Resources, caller: RunStarter, asked: Deletion
) -> Response:
    """Stop a run of one's own; what is answered is kept, and posting it again resumes it.

    With `purge`, remove one that is not under way: its scores, tables, transcripts and report. The
    replies stay in the store, where equal calls of others find them too.
    """
    job = await find_run(shared, run)
    if job.owner != caller.name and not caller.may("admin"):
        raise Problem(403, "this run is another token's", code="not_yours")
    if asked.purge:
        await remove_run(resources, job)
        return Response(status_code=204)
    if not job.is_active:
        return json_response(run_info(job))
    return json_response(run_info(await shared.queue.stop(run) or job), 202)
