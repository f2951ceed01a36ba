"""A dialogue put together from a request, and carried out as a job of the queue.

A job's images were kept when it was queued; its models are asked through seats of its own, so that
stopping it stops nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import orjson

from mmconv.api.schemas import Progress
from mmconv.core.config import CANDIDATE, RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_json
from mmconv.core.plans import Finished, Plan
from mmconv.core.types import Failure, Image, Outcome
from mmconv.dialogues.plans import PROMPTS, Dialogue
from mmconv.dialogues.reading import read_dialogue
from mmconv.dialogues.request import DialogueRequest
from mmconv.dialogues.results import DialogueResult
from mmconv.engine import Runner, Seat
from mmconv.service.errors import Problem, without_runs
from mmconv.service.jobs import DONE, JobProgress, ending_of_halt
from mmconv.service.metrics import RunnerMetrics
from mmconv.service.models import (
    convbench_only,
    is_offline,
    prompt_folder,
    prompt_set,
    words_of_failure,
)
from mmconv.service.request_images import RequestImages, request_images
from mmconv.service.runs.requests import decisive, named_model
from mmconv.service.settings import Settings
from mmconv.service.state import Service
from mmconv.store.jobs import Ending, Job

DIALOGUE: Final = "dialogue"
"""The kind of a dialogue's job in the queue."""

JUDGE = "judge"


class DialogueWork:
    """See `mmconv.service.worker.Work`."""

    def __init__(self, shared: Service, job: Job) -> None:
        self._shared = shared
        self._job = job
        self._runner: Runner | None = None
        self._metrics: RunnerMetrics | None = None
        self._total = 0
        self._stopped = False
        self._progress = JobProgress()

    def progress(self) -> dict[str, Any]:
        """The fields of `Progress`; a conversation is the dialogue under one condition."""
        if self._runner is None or self._metrics is None:
            return asdict(Progress())
        self._metrics.update(self._runner.stats)
        return self._progress.read(self._runner.stats, self._total)

    def stop(self) -> None:
        """Make no new calls."""
        self._stopped = True
        if self._runner is not None:
            self._runner.stop()

    async def run(self) -> Ending | None:
        """Hold the dialogue to its end."""
        try:
            with request_images(self._shared) as images:
                return await self._hold(images)
        except Problem as problem:
            raise ConfigError(problem.message) from problem

    async def _hold(self, images: RequestImages) -> Ending | None:
        request = DialogueRequest.model_validate_json(self._job.spec)
        names = names_of(request)
        seats = self._shared.models.lend(_spec(self._shared.settings, request))
        dialogue = await build_dialogue(self._shared, request, images)
        plans = await make_plans(dialogue)
        finished: list[Finished] = []
        self._total = len(plans)
        self._metrics = RunnerMetrics(self._shared.metrics, DIALOGUE, names, self._job.owner)
        self._runner = Runner(seats, self._shared.store, window=len(plans))
        if self._stopped or not await self._runner.run(plans, finished.append):
            return ending_of_halt(self._job, self._runner.stats, self.progress())
        result = presentable_result(dialogue, finished)
        return Ending(
            state="done",
            progress=self.progress() | DONE,
            lost=self._runner.stats.lost,
            result=orjson.dumps(result).decode(),
        )


async def build_dialogue(
    shared: Service, asked: DialogueRequest, images: RequestImages
) -> Dialogue:
    """The dialogue with its images and prompts; raises `Problem` naming the field."""
    offline = _is_offline(shared, asked.judge)
    if offline and asked.judge is not None and asked.prompts != "convbench":
        raise convbench_only(asked.judge, "prompts")
    first = await _pictures(images, asked.images, "images")
    pictures = [
        await _pictures(images, turn.images, f"turns[{place}].images")
        for place, turn in enumerate(asked.turns)
    ]
    pictures[0] = (*first, *pictures[0])
    prompts = {name: prompt_set(shared.settings, name) for name in PROMPTS}
    return Dialogue.of(asked, tuple(pictures), prompts, offline=offline)


def presentable_result(dialogue: Dialogue, finished: Iterable[Finished]) -> DialogueResult:
    """The result for clients, its failures' messages cleaned."""
    return read_dialogue(
        dialogue,
        [
            replace(each, outcomes={call: _clean(found) for call, found in each.outcomes.items()})
            for each in finished
        ],
    )


def _clean(outcome: Outcome) -> Outcome:
    if not isinstance(outcome, Failure):
        return outcome
    message = without_runs(words_of_failure(outcome.kind, outcome.message))
    return replace(outcome, message=message)


async def _pictures(images: RequestImages, named: Sequence[str], param: str) -> tuple[Image, ...]:
    found = [await images.image(each, f"{param}[{place}]") for place, each in enumerate(named)]
    return tuple(found)


async def make_plans(dialogue: Dialogue) -> tuple[Plan, ...]:
    """Its plans, made in a thread: prompts of all turns before each turn may be long."""
    return await asyncio.to_thread(lambda: dialogue.plans)


def own_seat(seat: Seat, asked: DialogueRequest) -> Seat:
    """The seat with what the request says of sampling over what the model's file says."""
    chosen = asked.sampling.model_dump(exclude_unset=True)
    return replace(seat, sampling={**seat.sampling, **chosen})


def _is_offline(shared: Service, judge: str | None) -> bool:
    """Whether the judge is not a language model. Raises `Problem` 404 for an unknown judge."""
    if judge is None:
        return False
    shared.model(judge, "judge")
    return is_offline(shared.models.specs[judge])


def names_of(asked: DialogueRequest) -> dict[str, str]:
    """The public names of the dialogue's models, by seat."""
    return {CANDIDATE: asked.model} | ({} if asked.judge is None else {JUDGE: asked.judge})


def name_dialogue(settings: Settings, owner: str, spec: str) -> str:
    """The job's id: a hash of whose it is, what it asks, and all that this depends on here.

    `spec` is the request as JSON. Raises `Problem` 404, and `ValidationError` for one of another
    version.
    """
    seats = decisive(_spec(settings, DialogueRequest.model_validate_json(spec)))
    prompts = [str(prompt_folder(settings, name)) for name in PROMPTS]
    return f"{DIALOGUE}-{hash_json([owner, spec, seats, prompts])[:12]}"


def _spec(settings: Settings, asked: DialogueRequest) -> RunSpec:
    """The dialogue's seats as a run would name them; raises `Problem` 404."""
    return RunSpec(
        benchmark=DIALOGUE,
        seats={seat: named_model(settings, name, seat) for seat, name in names_of(asked).items()},
        sampling={CANDIDATE: asked.sampling},
    )
