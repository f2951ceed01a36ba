"""`/v1/dialogues`: a run of the benchmark of dialogues with the one sample that a request holds.

A small one is answered at once. One of more calls than the settings allow becomes a job of the
queue and is answered with its id. Calls that were made before are not made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from mmconv.api import DialogueInfo, DialogueResult, QueuedDialogue
from mmconv.benchmarks.base.sample import images_of
from mmconv.benchmarks.dialogue import Dialogue
from mmconv.core.config import CANDIDATE, RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.judges import JUDGE
from mmconv.core.keys import hash_json
from mmconv.core.plans import Finished
from mmconv.core.run_stats import JobState, Progress
from mmconv.core.types import Image
from mmconv.engine import Runner
from mmconv.service.access import Asker, Caller, Chatter, Shared
from mmconv.service.dialogue_run import DialogueRequest, DialogueRun, DialogueSettings
from mmconv.service.errors import Problem, json_response
from mmconv.service.images import keep_image
from mmconv.service.jobs import Work, job_page, remove_job, submitted_job, wait
from mmconv.service.models import check_answered, run_plans
from mmconv.service.openapi import LOCATION, answers, documented, stopped
from mmconv.service.request_images import RequestImages, request_images, work_on_image
from mmconv.service.requests import (
    JsonRoute,
    Page,
    Word,
    check_bounds,
    check_volume,
    while_connected,
)
from mmconv.service.run_requests import (
    build_benchmark,
    convbench_only,
    decisive,
    is_offline,
    named_model,
    require_key,
)
from mmconv.service.settings import Settings
from mmconv.service.state import Service
from mmconv.store.jobs import Ending, Filter, Job, NewJob

router = APIRouter(prefix="/v1", tags=["dialogues"], route_class=JsonRoute)

DIALOGUE: Final = "dialogue"
"""The benchmark's name, and the kind of a dialogue's job in the queue."""

PROMPTS = ("dialogue", "convbench", "convbench_reference")
"""The sets of prompts that a dialogue may use."""

DIALOGUE_ID = r"^dialogue-[0-9a-f]{12}$"

DialogueId = Annotated[str, Path(pattern=DIALOGUE_ID)]
"""The id of a dialogue that became a job."""


class DialogueQuery(BaseModel):
    """Which dialogues a list holds: at most `limit`, behind the one with the id `after`."""

    state: JobState | None = None
    model: Word | None = None
    after: Annotated[str, Field(pattern=DIALOGUE_ID)] | None = None
    limit: int = Field(default=50, ge=1, le=200)


@router.post(
    "/dialogues",
    response_model=DialogueResult,
    responses={
        **documented(404, 409, 502, 503, 504),
        202: answers(LOCATION, model=QueuedDialogue, description="A job: see its Location."),
    },
)
async def add_dialogue(
    body: DialogueRequest,
    request: Request,
    shared: Shared,
    caller: Chatter,
    seconds: Annotated[float, Query(alias="wait", ge=0, le=3600)] = 0,
) -> Response:
    """Hold a dialogue under its conditions; with a judge, also with verdicts and deltas.

    A dialogue of up to `synchronous_calls` calls (40), of models and judge together, is answered at
    once with 200 and the dialogue. A larger one, or one of more calls than the token may have
    waiting, is queued, which needs the scope run. The response is 202 and a job without
    `conditions` and `deltas`. Get its `location` until its state is done; then its `result` is the
    dialogue. With `?wait=600` the response comes when the job is done, with 200 and the dialogue,
    or with 202 if it failed, was stopped, or takes longer; at once if the token has too many
    watchers.

    Failed calls are part of a dialogue. If no call was answered, the response is the first failure,
    as in chat, and the job has failed. If the client leaves, calls under way are cached, and the
    same dialogue resumes after them.

    Three turns under three conditions, in both gradings and orders, are 33 calls. Posting a queued
    dialogue again finds it, and resumes it if it was stopped or lost calls.
    """
    for param, message in body.faults():
        raise Problem(400, f"{param}: {message}", param=param)
    check_request(shared, body, len(body.turns), "turns")
    outcome = await while_connected(request, _hold(shared, caller, body, seconds))
    if isinstance(outcome, DialogueResult):
        return json_response(outcome)
    if outcome.state == "done":
        return Response(outcome.result, media_type="application/json")
    queued = _queued_dialogue(outcome)
    return json_response(queued, 202, {"Location": queued["location"]})


@router.get("/dialogues", response_model=Page[DialogueInfo, str])
async def list_dialogues(
    shared: Shared, caller: Asker, query: Annotated[DialogueQuery, Query()]
) -> Response:
    """List the token's queued dialogues, for an admin all; newest first, without results."""
    chosen = Filter(kind=DIALOGUE, owner=caller.as_owner, state=query.state, model=query.model)
    page, following = await job_page(shared, chosen, query.after, query.limit)
    return json_response({"data": [_dialogue_info(job) for job in page], "next": following})


@router.get("/dialogues/{dialogue}", response_model=QueuedDialogue, responses=documented(404))
async def get_dialogue(dialogue: DialogueId, shared: Shared, caller: Asker) -> Response:
    """Get the state of one of the token's queued dialogues, and its result."""
    return json_response(_queued_dialogue(await _find(shared, caller, dialogue)))


@router.delete(
    "/dialogues/{dialogue}",
    status_code=202,
    response_model=QueuedDialogue,
    responses=documented(404, 409) | stopped(QueuedDialogue),
)
async def stop_dialogue(
    dialogue: DialogueId, shared: Shared, caller: Chatter, purge: bool = False
) -> Response:
    """Stop a queued dialogue. Its replies are kept, and posting it again resumes it.

    With `purge`, remove one that has ended. Its images stay until they are removed too.
    """
    job = await _find(shared, caller, dialogue)
    if purge:
        await remove_job(shared, job)
        return Response(status_code=204)
    if not job.is_active:
        return json_response(_queued_dialogue(job))
    return json_response(_queued_dialogue(await shared.queue.stop(job.id) or job), 202)


def check_request(shared: Service, body: DialogueSettings, turns: int, param: str) -> None:
    """Check the models and the volume of dialogues of up to so many turns, in the field `param`.

    Raises `Problem`.
    """
    for role, name in body.models.items():
        field = "model" if role == CANDIDATE else role
        model = named_model(shared.settings, name, field)
        require_key(model, name, field)
        if role == JUDGE and is_offline(model) and body.prompts != "convbench":
            raise convbench_only(name, "prompts")
    length = check_bounds(body, shared.settings.sizes)
    judged = 0 if body.judge is None else len(body.gradings) + (body.order == "both")
    check_volume(length, len(body.given) * turns * (1 + judged), param)


async def _hold(
    shared: Service, caller: Caller, body: DialogueRequest, seconds: float
) -> DialogueResult | Job:
    """The result of a small dialogue, or the job that a larger one becomes; raises `Problem`."""
    role = shared.model(body.model)
    chosen = body.sampling.model_dump(exclude_unset=True)
    roles = {CANDIDATE: replace(role, sampling={**role.sampling, **chosen})}
    if body.judge is not None:
        roles[JUDGE] = shared.model(body.judge, JUDGE)
    with request_images(shared, caller.as_owner) as images:
        dialogue = await build_dialogue(shared, body, images)
        plans = await asyncio.to_thread(dialogue.plans)
        calls = sum(len(plan.calls) for plan in plans)
        if calls <= min(shared.settings.synchronous_calls, caller.limits.queued_calls):
            finished = await run_plans(shared, caller, roles, body.models, plans, DIALOGUE)
            check_answered(finished)
            return dialogue.result(finished)
        job = await _submit(shared, caller, dialogue, calls)
    return await wait(shared, caller, job, seconds)


async def _submit(shared: Service, caller: Caller, dialogue: DialogueRun, calls: int) -> Job:
    """Queue the dialogue, its images kept as the caller's; raises `Problem`."""
    if not caller.may("run"):
        raise Problem(
            403,
            f"a dialogue of {calls} calls is queued like a run, and this token does not have the "
            "scope 'run'",
            code="missing_scope",
        )
    request = _by_id(dialogue)
    spec = request.model_dump_json(exclude_unset=True)
    name = name_dialogue(shared.settings, caller.name, spec)
    for image in images_of(dialogue.sample):
        data = await work_on_image(shared, "images", shared.images.read, image.sha256)
        await work_on_image(shared, "images", keep_image, shared, caller, data, image.media_type)
    submitted = await shared.queue.submit(
        NewJob(
            id=name,
            kind=DIALOGUE,
            owner=caller.name,
            spec=spec,
            model=request.model,
        ),
        most=caller.limits.concurrent_runs,
    )
    return submitted_job(submitted, caller)


def _by_id(dialogue: DialogueRun) -> DialogueRequest:
    """The request with the images of each turn by their ids."""
    turns = []
    for turn, opened in zip(dialogue.request.turns, dialogue.sample.turns, strict=True):
        turns.append(turn.model_dump(exclude_unset=True, exclude={"images"}))
        if opened.images:
            turns[-1]["images"] = [f"image:{image.sha256}" for image in opened.images]
    fields = dialogue.request.model_dump(exclude_unset=True)
    return DialogueRequest.model_validate(fields | {"images": (), "turns": turns})


async def _find(shared: Service, caller: Caller, name: str) -> Job:
    """The caller's own dialogue, for an admin anybody's; raises `Problem` 404."""
    job = await shared.queue.get(name)
    if job is not None and job.kind == DIALOGUE and caller.owns(job):
        return job
    raise Problem(404, "no dialogue of this id is here", param="dialogue")


def _queued_dialogue(job: Job) -> dict[str, Any]:
    """The fields of `QueuedDialogue`."""
    result = None if job.result is None else orjson.Fragment(job.result)
    return asdict(_dialogue_info(job)) | {"result": result}


def _dialogue_info(job: Job) -> DialogueInfo:
    place = f"/v1/dialogues/{job.id}"
    about = f"not done yet: GET {place} until its state is done, then read its result"
    return DialogueInfo(
        id=job.id,
        owner=job.owner,
        model=job.model,
        location=place,
        about=about if job.is_active else None,
        state=job.state,
        stopping=job.stopping,
        progress=Progress(**job.progress),
        error=job.error,
        created=job.created,
        ended=job.ended,
    )


class DialogueWork(Work):
    """A queued dialogue. A conversation of its progress is the dialogue under one condition."""

    kind = DIALOGUE

    async def run(self) -> Ending | None:
        """Hold the dialogue to its end."""
        shared, job = self._shared, self._job
        if name_dialogue(shared.settings, job.owner, job.spec) != job.id:
            raise ConfigError("what it names is configured otherwise by now; post it again")
        request = DialogueRequest.model_validate_json(job.spec)
        roles = shared.models.lend(_spec(shared.settings, request))
        finished: list[Finished] = []
        with request_images(shared, job.owner) as images:
            dialogue = await build_dialogue(shared, request, images)
            plans = await asyncio.to_thread(dialogue.plans)
            runner = Runner(roles, shared.store, window=len(plans))
            begun = self.begin(runner, len(plans), request.models)
            if not begun or not await runner.run(plans, finished.append):
                return self.halted(runner.stats.stop_reason)
        return self.done(runner.stats.lost, dialogue.result(finished))


async def build_dialogue(
    shared: Service, request: DialogueRequest, images: RequestImages
) -> DialogueRun:
    """The dialogue with its images and prompts; raises `Problem` naming the field."""
    models = _spec(shared.settings, request).models
    first = await open_images(images, request.images, "images")
    shown = [
        await open_images(images, turn.images, f"turns[{place}].images")
        for place, turn in enumerate(request.turns)
    ]
    shown[0] = (*first, *shown[0])
    benchmark = build_benchmark(shared.settings, DIALOGUE, request.options, models)
    assert isinstance(benchmark, Dialogue)
    return DialogueRun(request=request, benchmark=benchmark, sample=request.sample(shown))


async def open_images(images: RequestImages, names: Sequence[str], param: str) -> tuple[Image, ...]:
    """The images that the field `param` names. Raises `Problem`."""
    opened = [await images.image(name, f"{param}[{place}]") for place, name in enumerate(names)]
    return tuple(opened)


def name_dialogue(settings: Settings, owner: str, spec: str) -> str:
    """The job's id: a hash of its owner, its request, and all that these depend on here.

    `spec` is the request as JSON. Raises `Problem` 404, and `ValidationError` for one of another
    version.
    """
    roles = decisive(_spec(settings, DialogueRequest.model_validate_json(spec)))
    prompts = [str(settings.prompt_folder(name)) for name in PROMPTS]
    return f"{DIALOGUE}-{hash_json([owner, spec, roles, prompts])[:12]}"


def _spec(settings: Settings, body: DialogueRequest) -> RunSpec:
    """The dialogue's roles as a run would name them; raises `Problem` 404."""
    return RunSpec(
        benchmark=DIALOGUE,
        models={role: named_model(settings, name, role) for role, name in body.models.items()},
        sampling={CANDIDATE: body.sampling},
    )
