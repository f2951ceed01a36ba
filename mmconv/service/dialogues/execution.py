"""A dialogue built from a request, and executed as a job of the queue.

A job's images were stored when it was queued. It has roles of its own, so stopping it stops nothing
else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mmconv.benchmarks.dialogue import Dialogue
from mmconv.core.config import CANDIDATE, RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_json
from mmconv.core.plans import Finished, Plan
from mmconv.core.types import Image
from mmconv.engine import RoleModel, Runner
from mmconv.service.dialogues.request import DialogueRequest
from mmconv.service.dialogues.results import DialogueRun
from mmconv.service.errors import Problem
from mmconv.service.inline import JUDGE, build_benchmark
from mmconv.service.jobs import Work
from mmconv.service.models import convbench_only, is_offline, prompt_folder
from mmconv.service.request_images import RequestImages, request_images
from mmconv.service.runs.requests import decisive, named_model
from mmconv.service.settings import Settings
from mmconv.service.state import Service
from mmconv.store.jobs import Ending

DIALOGUE: Final = "dialogue"
"""The benchmark's name, and the kind of a dialogue's job in the queue."""

PROMPTS = ("dialogue", "convbench", "convbench_reference")
"""The sets of prompts that a dialogue may use."""


class DialogueWork(Work):
    """A queued dialogue. A conversation of its progress is the dialogue under one condition."""

    kind = DIALOGUE

    async def run(self) -> Ending | None:
        """Hold the dialogue to its end."""
        try:
            with request_images(self._shared) as images:
                return await self._hold(images)
        except Problem as problem:
            raise ConfigError(problem.message) from problem

    async def _hold(self, images: RequestImages) -> Ending | None:
        job, settings = self._job, self._shared.settings
        if name_dialogue(settings, job.owner, job.spec) != job.id:
            raise ConfigError("what it names is configured otherwise by now; post it again")
        request = DialogueRequest.model_validate_json(job.spec)
        roles = self._shared.models.lend(_spec(settings, request))
        dialogue = await build_dialogue(self._shared, request, images)
        plans = await make_plans(dialogue)
        finished: list[Finished] = []
        runner = Runner(roles, self._shared.store, window=len(plans))
        begun = self.begin(runner, len(plans), names_of(request))
        if not begun or not await runner.run(plans, finished.append):
            return self.halted(runner.stats.stop_reason)
        return self.done(runner.stats.lost, dialogue.result(finished))


async def build_dialogue(
    shared: Service, request: DialogueRequest, images: RequestImages
) -> DialogueRun:
    """The dialogue with its images and prompts; raises `Problem` naming the field."""
    models = _spec(shared.settings, request).models
    offline = request.judge if JUDGE in models and is_offline(models[JUDGE]) else None
    if offline is not None and request.prompts != "convbench":
        raise convbench_only(offline, "prompts")
    first = await _open(images, request.images, "images")
    shown = [
        await _open(images, turn.images, f"turns[{place}].images")
        for place, turn in enumerate(request.turns)
    ]
    shown[0] = (*first, *shown[0])
    benchmark = build_benchmark(shared.settings, DIALOGUE, request.options, models)
    assert isinstance(benchmark, Dialogue)
    if offline is None:
        benchmark.convbench_folder = prompt_folder(shared.settings, "convbench")
    return DialogueRun(request=request, benchmark=benchmark, sample=request.sample(shown))


async def _open(images: RequestImages, names: Sequence[str], param: str) -> tuple[Image, ...]:
    opened = [await images.image(name, f"{param}[{place}]") for place, name in enumerate(names)]
    return tuple(opened)


async def make_plans(dialogue: DialogueRun) -> tuple[Plan, ...]:
    """Its plans, made in a thread: prompts of all turns before each turn may be long."""
    return await asyncio.to_thread(dialogue.plans)


def own_role(role: RoleModel, asked: DialogueRequest) -> RoleModel:
    """The role with the request's sampling over that of the model's file."""
    chosen = asked.sampling.model_dump(exclude_unset=True)
    return replace(role, sampling={**role.sampling, **chosen})


def names_of(asked: DialogueRequest) -> dict[str, str]:
    """The public names of the dialogue's models, by role."""
    return {CANDIDATE: asked.model} | ({} if asked.judge is None else {JUDGE: asked.judge})


def name_dialogue(settings: Settings, owner: str, spec: str) -> str:
    """The job's id: a hash of its owner, its request, and all that these depend on here.

    `spec` is the request as JSON. Raises `Problem` 404, and `ValidationError` for one of another
    version.
    """
    roles = decisive(_spec(settings, DialogueRequest.model_validate_json(spec)))
    prompts = [str(prompt_folder(settings, name)) for name in PROMPTS]
    return f"{DIALOGUE}-{hash_json([owner, spec, roles, prompts])[:12]}"


def _spec(settings: Settings, asked: DialogueRequest) -> RunSpec:
    """The dialogue's roles as a run would name them; raises `Problem` 404."""
    return RunSpec(
        benchmark=DIALOGUE,
        models={role: named_model(settings, name, role) for role, name in names_of(asked).items()},
        sampling={CANDIDATE: asked.sampling},
    )
