"""Which jobs of a shared queue this server can carry out, by what its operator has configured."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from mmconv.dialogues.request import DialogueRequest
from mmconv.service.desk import RUN
from mmconv.service.run_requests import RunRequest
from mmconv.service.settings import Settings
from mmconv.store.jobs import Job


def lacking(settings: Settings, job: Job) -> str | None:
    """What the job names and this server has not; None where it can carry the job out.

    A job that cannot be read lacks nothing: it fails where it is carried out, with words.
    """
    try:
        return ", ".join(_missing(settings, job)) or None
    except ValidationError:
        return None


def _missing(settings: Settings, job: Job) -> Iterator[str]:
    if job.kind == RUN:
        run = RunRequest.model_validate_json(job.spec)
        models = [*run.seats.values()]
        if run.data not in settings.data:
            yield f"data set {run.data!r}"
    else:
        dialogue = DialogueRequest.model_validate_json(job.spec)
        models = [each for each in (dialogue.model, dialogue.judge) if each is not None]
    yield from (f"model {name!r}" for name in models if name not in settings.models)
