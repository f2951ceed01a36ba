"""Which jobs of a shared queue this server can carry out, by what its operator has configured.

A job's id stands for all that its results depend on. Where today's settings give another id, what
would be asked here is not what was posted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import ValidationError

from mmconv.dialogues.request import DialogueRequest
from mmconv.service.dialogues.execution import name_dialogue, names_of
from mmconv.service.errors.problems import Problem
from mmconv.service.runs.execution import RUN
from mmconv.service.runs.requests import RunRequest, name_run, resolve
from mmconv.service.settings import Settings
from mmconv.store.jobs import Job


def lacking(settings: Settings, job: Job) -> str | None:
    """What the job needs and this server has not; None where it can carry the job out.

    A job that cannot be read lacks nothing: it fails where it is carried out, with words.
    """
    try:
        missing = ", ".join(_missing(settings, job))
        same = missing or _name(settings, job) == job.id
    except ValidationError:
        return None
    return missing or (None if same else "the settings that it was posted under")


def _missing(settings: Settings, job: Job) -> Iterator[str]:
    if job.kind == RUN:
        run = RunRequest.model_validate_json(job.spec)
        models: Iterable[str] = run.seats.values()
        if run.data not in settings.data:
            yield f"data set {run.data!r}"
    else:
        models = names_of(DialogueRequest.model_validate_json(job.spec)).values()
    yield from (f"model {name!r}" for name in models if name not in settings.models)


def _name(settings: Settings, job: Job) -> str | None:
    """The id that the job would have if it were posted today; None if it would be refused."""
    try:
        if job.kind == RUN:
            run = RunRequest.model_validate_json(job.spec)
            return name_run(run, resolve(settings, run))
        return name_dialogue(settings, job.owner, job.spec)
    except Problem:
        return None
