"""What is made of a finished run when it is asked for the first time, and kept as files.

It lies in the folder that clients may see (`mmconv.service.shown`), and goes when that is renewed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from mmconv.report.page.content import About
from mmconv.service.desk import Desk
from mmconv.service.run_access import about_run, find_run, finished_folder
from mmconv.service.run_files import read_aside
from mmconv.service.shown import find_shown, shown_folder
from mmconv.service.state import Service

Make: TypeAlias = Callable[[Path, About], object]
"""Makes a file or folder at the path, with what the run's data say of its samples."""


async def made_of(shared: Service, desk: Desk, run: str, name: str, make: Make) -> Path:
    """The file or folder of this name that is made of a run; raises `Problem` 404 or 409.

    One is made at a time, and what is there already waits for none.
    """
    job = await find_run(shared, run)
    folder = finished_folder(shared, job)
    shown = await asyncio.to_thread(find_shown, shared.settings, job, folder)
    if shown is not None and (shown / name).exists():
        return shown / name
    async with desk.reporting:
        shown = await read_aside(shown_folder, shared.settings, job, folder)
        if not (shown / name).exists():
            about = await about_run(shared, desk, job)
            await read_aside(make, shown / name, about)
    return shown / name
