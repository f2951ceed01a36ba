"""`/v1/dialogues:batch`: many dialogues in one request, as a run of a dataset that they make up.

The dataset and the run are ordinary ones: they are listed, resumed, compared and removed as all.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from mmconv.api import BatchResult
from mmconv.benchmarks.dialogue import condition_name
from mmconv.core.config import CANDIDATE
from mmconv.report.tables.formats import FORMATS
from mmconv.run_folder.layout import TABLES
from mmconv.run_folder.saved_run import read_tables
from mmconv.service.access import Caller, RunStarter, Shared
from mmconv.service.datasets import NewDataset, OwnDataset
from mmconv.service.dialogue_run import DialogueContent, DialogueRequest, DialogueSettings
from mmconv.service.dialogues import DIALOGUE, check_request, open_images
from mmconv.service.errors import Problem, json_response
from mmconv.service.jobs import submitted_job, wait
from mmconv.service.openapi import LOCATION, answers, documented
from mmconv.service.request_images import RequestImages, request_images, work_on_image
from mmconv.service.requests import JsonRoute, Words
from mmconv.service.run_files import read_in_thread
from mmconv.service.run_requests import RunRequest
from mmconv.service.runs import finished_folder, run_info, submit_run
from mmconv.service.state import Service
from mmconv.store.jobs import Job

router = APIRouter(prefix="/v1", tags=["dialogues"], route_class=JsonRoute)

TITLE = "dialogues of a request"

SHOWN = {"scores": "scores", "deltas": "deltas", "attribution": "attribution_net"}
"""Field of the response -> the run's table."""


class BatchDialogue(DialogueContent):
    """One of the dialogues; `id` names it in results, by default its number."""

    id: Words | None = None


class BatchRequest(DialogueSettings):
    """Dialogues to be held and judged in the same way, as one run.

    The other fields are those of a `DialogueRequest`.
    """

    dialogues: tuple[BatchDialogue, ...] = Field(min_length=1)

    def requests(self) -> Iterator[tuple[str, DialogueRequest]]:
        """Each dialogue as a separate request, with its field."""
        shared = self.model_dump(exclude_unset=True, exclude={"dialogues"})
        for place, dialogue in enumerate(self.dialogues):
            own = dialogue.model_dump(exclude_unset=True, exclude={"id"})
            yield f"dialogues[{place}]", DialogueRequest.model_validate(shared | own)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the dialogues."""
        return tuple(
            dialogue.id or str(number) for number, dialogue in enumerate(self.dialogues, start=1)
        )


@router.post(
    "/dialogues:batch",
    status_code=202,
    response_model=BatchResult,
    responses={
        **documented(404, 409),
        200: answers({}, model=BatchResult, description="The run is done."),
        202: answers(LOCATION),
    },
)
async def add_batch(
    body: BatchRequest,
    shared: Shared,
    caller: RunStarter,
    seconds: Annotated[float, Query(alias="wait", ge=0, le=3600)] = 0,
) -> Response:
    """Hold many dialogues in one run: its named scores, deltas and attribution, with intervals.

    The dialogues become a dataset of the token, and the run is one of it: `GET /v1/runs/{id}` has
    its state, its samples, its tables. With `?wait=600` the response comes when the run is done,
    with 200 and the tables, or with 202 if it failed, was stopped, or takes longer. Posting it
    again finds it, and resumes it if it was stopped or lost calls.

    Scores are named as in ConvBench: S2_hat is turn 2 with turn 1 given, S0 the whole conversation.
    A request holds 200 dialogues and 64 images; for more, send a dataset.
    """
    for param, message in _faults(shared, body):
        raise Problem(400, f"{param}: {message}", param=param)
    own = await _store(shared, caller, body)
    names = [condition_name(given) for given in body.given]
    run = RunRequest(
        data=own.id,
        models=body.models,
        options=body.options,
        conditions=tuple(names),
        sampling={CANDIDATE: body.sampling} if body.sampling.model_fields_set else {},
    )
    job = submitted_job(await submit_run(shared, caller, run), caller)
    job = await wait(shared, caller, job, seconds)
    info = await asyncio.to_thread(run_info, shared, job)
    result = {"run": info, **await _tables(shared, job)}
    status = 200 if job.state == "done" else 202
    return json_response(result, status, {"Location": f"/v1/runs/{job.id}"})


def _faults(shared: Service, body: BatchRequest) -> Iterator[tuple[str, str]]:
    """The problems of the request: a field and a message. Raises `Problem` for limits."""
    turns = max(len(dialogue.turns) for dialogue in body.dialogues)
    check_request(shared, body, turns, "dialogues")
    for name, count in Counter(body.ids).items():
        if count > 1:
            yield "dialogues", f"{count} have the id {name!r}"
    for field, request in body.requests():
        yield from ((f"{field}.{param}", message) for param, message in request.faults())
        for place, turn in enumerate(request.turns):
            if any(text and not text.strip() for text in (turn.instruction, turn.reference)):
                yield f"{field}.turns[{place}]", "a text is blank"


async def _store(shared: Service, caller: Caller, body: BatchRequest) -> OwnDataset:
    """The dialogues as a dataset of the caller. Raises `Problem`."""
    files: dict[str, Callable[[], bytes]] = {}
    new = NewDataset(benchmark=DIALOGUE, title=TITLE, generate_only=body.judge is None)
    room = partial(shared.room, caller.name, caller.limits.stored_bytes)
    with request_images(shared, caller.as_owner) as images:
        records = [
            {"id": name} | await _record(shared, images, files, each, f"dialogues[{place}]")
            for place, (name, each) in enumerate(zip(body.ids, body.dialogues, strict=True))
        ]
        write = shared.datasets.write
        return await work_on_image(
            shared, "dialogues", write, caller.name, new, records, files, room
        )


async def _record(
    shared: Service,
    images: RequestImages,
    files: dict[str, Callable[[], bytes]],
    dialogue: BatchDialogue,
    field: str,
) -> dict[str, Any]:
    """A dialogue as a record of a dataset; `files` gets readers of its images."""

    async def keep(names: tuple[str, ...], param: str) -> list[str]:
        opened = await open_images(images, names, param)
        for image in opened:
            files[image.sha256] = partial(shared.images.read, image.sha256)
        return [image.sha256 for image in opened]

    first = await keep(dialogue.images, f"{field}.images")
    turns = []
    for place, turn in enumerate(dialogue.turns):
        shown = await keep(turn.images, f"{field}.turns[{place}].images")
        texts = turn.model_dump(exclude_unset=True, exclude={"images"})
        turns.append(texts | {"images": shown if place else [*first, *shown]})
    return {"turns": turns} | ({"caption": dialogue.caption} if dialogue.caption else {})


async def _tables(shared: Service, job: Job) -> dict[str, Any]:
    """The tables of a run that is done, by the response's field."""
    if job.state != "done":
        return dict.fromkeys(SHOWN)
    folder = finished_folder(shared, job)
    tables = {table.name: table for table in await read_in_thread(read_tables, folder / TABLES)}
    return {
        field: orjson.loads(FORMATS["json"](tables[name])) if name in tables else None
        for field, name in SHOWN.items()
    }
