"""A finished run's folder as clients may see it, and files made from it on first request.

Reports and comparisons print specifications, so this folder has the operator's names in place of
paths and addresses. Scores and tables are links to the run's own. Derived files are kept in the
folder and renewed with it. Those made while the run's data could not be read are made again later.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import orjson

from mmconv.report.page.content import NOTHING, About
from mmconv.run_folder.layout import MANIFEST, SCORES, SPEC, SUMMARY, TABLES, TRANSCRIPTS, WARNINGS
from mmconv.run_folder.saved_run import INDEX, read_lines
from mmconv.service.run_files import clean_call, read_in_thread
from mmconv.service.runs import about_run, finished_folder
from mmconv.service.state import Readable
from mmconv.store.jobs import Job

LINKED = (MANIFEST, SUMMARY, TABLES, SCORES, WARNINGS)

PARQUET = Path(TRANSCRIPTS).with_suffix(".parquet").name
"""The transcripts in Parquet, made from those in JSON Lines."""

WITHOUT = "made-without-data"
"""An empty file that marks results made without the data. Its time is that of the last check."""

CHECK_SECONDS = 60.0
"""How often it is checked at most whether the data can be read again."""

Make: TypeAlias = Callable[[Path, About], object]
"""Makes a file or folder at the path, given what the run's data says of its samples."""


async def derived_file(shared: Readable, job: Job, name: str, make: Make) -> Path:
    """The file or folder of this name that is made from a run. Raises `Problem` 409.

    One is made at a time. Existing ones are returned at once.
    """
    folder = finished_folder(shared, job)
    shown = _path_of(shared, job)
    if await asyncio.to_thread(_is_current, shown, folder, name):
        return shown / name
    async with shared.reporting:
        await read_in_thread(public_folder, shared, job, folder)
        if _is_current(shown, folder, name):
            return shown / name
        about = await about_run(shared, job)
        if about is not None and (shown / WITHOUT).exists():
            await asyncio.to_thread(shutil.rmtree, shown)
            await read_in_thread(public_folder, shared, job, folder)
        if about is None:
            (shown / WITHOUT).touch()
        if not (shown / name).exists():
            await read_in_thread(make, shown / name, NOTHING if about is None else about)
    return shown / name


def _path_of(shared: Readable, job: Job) -> Path:
    return (shared.derived / "shown" / job.id).absolute()


def _is_current(shown: Path, run: Path, name: str) -> bool:
    """Whether the file is newer than the run, and made with the data or checked lately."""
    if not (_is_newer(shown, run) and (shown / name).exists()):
        return False
    try:
        return time.time() < (shown / WITHOUT).stat().st_mtime + CHECK_SECONDS
    except FileNotFoundError:
        return True


def _is_newer(shown: Path, run: Path) -> bool:
    with suppress(FileNotFoundError):
        return (shown / SPEC).stat().st_mtime_ns > max(result_times(run), default=0)
    return False


def public_folder(shared: Readable, job: Job, run: Path) -> Path:
    """The public folder of the run in `run`; made if it does not exist or is older.

    Blocks. Several threads and processes may call it at once.
    """
    shown = _path_of(shared, job)
    if _is_newer(shown, run):
        return shown
    shown.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=shown.parent, prefix=f".{job.id}-") as name:
        draft = Path(name)
        for file in LINKED:
            _link(run / file, draft)
        _copy_transcripts(run / TRANSCRIPTS, draft / TRANSCRIPTS)
        spec = shared.public_spec(job, run).model_dump(mode="json", exclude_unset=True)
        (draft / SPEC).write_bytes(orjson.dumps({"spec": spec}))
        shutil.rmtree(shown, ignore_errors=True)
        # If another thread or process was faster, its folder has the same content.
        with suppress(OSError):
            draft.rename(shown)
    return shown


def result_times(run: Path) -> list[int]:
    """When the results in a run's folder were written, in nanoseconds.

    A resumed run writes them one after another. What is made meanwhile is out of date.
    """
    results = (run / SCORES, run / TABLES / INDEX, run / SUMMARY)
    return [path.stat().st_mtime_ns for path in results if path.exists()]


def _copy_transcripts(source: Path, target: Path) -> None:
    """Copy transcripts with failures cleaned. If nothing failed, link them and their Parquet."""
    with target.open("wb") as copy:
        changed = False
        for line in read_lines(source):
            changed |= line.record["state"] == "failure"
            copy.write(orjson.dumps(clean_call(line.record)) + b"\n")
    if not changed:
        target.unlink()
        for name in (source.name, PARQUET):
            _link(source.parent / name, target.parent)


def _link(source: Path, folder: Path) -> None:
    """Link a file in the folder, if it exists, so that both may be moved together."""
    if source.exists():
        place = os.path.relpath(source.resolve(), folder.resolve())
        (folder / source.name).symlink_to(place)
