"""What is made of a finished run when it is asked for the first time, and kept as files.

It lies in the folder that clients may see (`mmconv.service.results.public_folder`), and goes when
that is renewed. What was made while the run's data could not be read is made anew when they can.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from mmconv.report.page.content import NOTHING, About
from mmconv.service.results.public_folder import find_public_folder, public_folder
from mmconv.service.results.run_files import read_in_thread
from mmconv.service.runs.lookup import about_run, find_run, finished_folder
from mmconv.service.runs.resources import RunResources

Make: TypeAlias = Callable[[Path, About], object]
"""Makes a file or folder at the path, with what the run's data say of its samples."""

WITHOUT = "made-without-data"
"""An empty file beside what was made while the data could not be read, as old as the last look."""

LOOK_SECONDS = 60.0
"""How often it is looked at most whether they can be read again."""


async def derived_file(resources: RunResources, run: str, name: str, make: Make) -> Path:
    """The file or folder of this name that is made of a run; raises `Problem` 404 or 409.

    One is made at a time, and what is there already waits for none.
    """
    shared = resources.service
    job = await find_run(shared, run)
    folder = finished_folder(shared, job)
    shown = await asyncio.to_thread(find_public_folder, shared.settings, job, folder)
    if shown is not None and _is_made(shown, name):
        return shown / name
    async with resources.reporting:
        shown = await read_in_thread(public_folder, shared.settings, job, folder)
        if _is_made(shown, name):
            return shown / name
        about = await about_run(resources, job)
        if about is not None and (shown / WITHOUT).exists():
            await asyncio.to_thread(shutil.rmtree, shown)
            shown = await read_in_thread(public_folder, shared.settings, job, folder)
        if about is None:
            (shown / WITHOUT).touch()
        if not (shown / name).exists():
            await read_in_thread(make, shown / name, NOTHING if about is None else about)
    return shown / name


def _is_made(shown: Path, name: str) -> bool:
    """Whether it is there, and nothing could be added to it as far as was looked lately."""
    if not (shown / name).exists():
        return False
    try:
        looked = (shown / WITHOUT).stat().st_mtime
    except FileNotFoundError:
        return True
    return time.time() < looked + LOOK_SECONDS
