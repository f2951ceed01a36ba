"""A finished run's folder as clients may see it: its files, but for what tells of this machine.

Reports and comparisons print specifications, so the one that lies here has the operator's names in
place of paths and addresses. Scores and tables are links to the run's own.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from mmconv.benchmarks.shared.options import file_options
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.run_folder.layout import MANIFEST, SCORES, SPEC, SUMMARY, TABLES, TRANSCRIPTS
from mmconv.run_folder.saved_run import INDEX, read_lines
from mmconv.service.results.run_files import clean_call
from mmconv.service.runs.requests import RunRequest, description
from mmconv.service.settings import Settings
from mmconv.store.jobs import Job

LINKED = (MANIFEST, SUMMARY, TABLES, SCORES)

PARQUET = Path(TRANSCRIPTS).with_suffix(".parquet").name
"""The transcripts in Parquet, which are made of those in lines."""


def public_folder(settings: Settings, job: Job, run: Path) -> Path:
    """The folder to show of the run that lies in `run`; made where it is not there, or is older.

    Blocks; may be called by several threads and processes at once.
    """
    found = find_public_folder(settings, job, run)
    if found is not None:
        return found
    shown = _place(settings, job)
    shown.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=shown.parent, prefix=f".{job.id}-") as name:
        draft = Path(name)
        _fill(draft, run, _with_names(settings, job, run))
        shutil.rmtree(shown, ignore_errors=True)
        # Where another thread or process was faster, it had the same content.
        with suppress(OSError):
            draft.rename(shown)
    return shown


def find_public_folder(settings: Settings, job: Job, run: Path) -> Path | None:
    """The same folder, if it is there and no older than the run."""
    shown = _place(settings, job)
    try:
        made = (shown / SPEC).stat().st_mtime_ns
    except FileNotFoundError:
        return None
    return shown if made > max(result_times(run), default=0) else None


def result_times(run: Path) -> list[int]:
    """When what a run's folder says of its results was written, by the files' clock.

    A run that is resumed writes them one after another, and what is made meanwhile is out of date.
    """
    results = (run / SCORES, run / TABLES / INDEX, run / SUMMARY)
    return [each.stat().st_mtime_ns for each in results if each.exists()]


def _place(settings: Settings, job: Job) -> Path:
    return (settings.out / "shown" / job.id).absolute()


def _fill(draft: Path, run: Path, spec: dict[str, Any]) -> None:
    for name in LINKED:
        if (run / name).exists():
            (draft / name).symlink_to((run / name).absolute())
    _copy_transcripts(run / TRANSCRIPTS, draft / TRANSCRIPTS)
    (draft / SPEC).write_bytes(orjson.dumps({"spec": spec}))


def _copy_transcripts(source: Path, target: Path) -> None:
    """A link where nothing failed, else a copy whose failures tell nothing of this machine.

    Where it is a link, the same in Parquet is one too.
    """
    with target.open("wb") as copy:
        changed = False
        for line in read_lines(source):
            changed |= line.record["state"] == "failure"
            copy.write(orjson.dumps(clean_call(line.record)) + b"\n")
    if not changed:
        target.unlink()
        for name in (source.name, PARQUET):
            if (source.parent / name).exists():
                (target.parent / name).symlink_to((source.parent / name).absolute())


def _with_names(settings: Settings, job: Job, run: Path) -> dict[str, Any]:
    """The run's specification with names for what lies on this machine.

    Of a benchmark of ours all options are in it: what is made of a run reads them.
    """
    request = RunRequest.model_validate_json(job.spec)
    known = description(job.benchmark or "")
    own = request.options
    if known is not None:
        files = file_options(known.options)
        given = orjson.loads((run / SPEC).read_bytes())["spec"]["options"]
        own = {name: request.data if name in files else each for name, each in given.items()}
    spec = RunSpec(
        benchmark=job.benchmark or "",
        options={"data": request.data, **own},
        seats={seat: _named(settings, name) for seat, name in request.seats.items()},
        **request.unnamed(),
    )
    return spec.model_dump(mode="json", exclude_unset=True)


def _named(settings: Settings, name: str) -> ModelSpec:
    own = settings.models.get(name)
    if own is None:
        return ModelSpec(provider="unknown", model=name)
    return ModelSpec(
        provider=own.provider,
        model=name,
        name=own.name or name,
        system=own.system,
        sampling=own.sampling,
        price=own.price,
    )
