"""Waiting for a job's end, with a bar on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from mmconv.answers import Progress
from mmconv.client.errors import ServiceError
from mmconv.core.run_stats import JobState

FIRST_LOOK, LONGEST_LOOK = 0.1, 2.0
"""Seconds until the server is asked for the first time, and at most between two times."""


class Job(Protocol):
    """What is waited for."""

    @property
    def id(self) -> str:
        """Its name."""
        ...

    @property
    def state(self) -> JobState:
        """How it is."""
        ...

    @property
    def progress(self) -> Progress:
        """How far it is."""
        ...


Waiting = TypeVar("Waiting", bound=Job)


def wait(look: Callable[[], Waiting], *, progress: bool) -> Waiting:
    """Look until the job is neither queued nor running; `progress` shows a bar on a terminal."""
    pause = FIRST_LOOK
    found = look()
    with _bar(found, shown=progress and sys.stderr.isatty()) as show:
        while found.state in ("queued", "running"):
            time.sleep(pause)
            pause = min(1.5 * pause, LONGEST_LOOK)
            found = look()
            show(found)
    return found


@contextmanager
def naming(job_id: str, method: str) -> Iterator[None]:
    """Note at what ends the waiting within that the job may go on; `Client.method` gets it again.

    That is Ctrl-C, or a `ServiceError` because the server is away.
    """
    try:
        yield
    except (KeyboardInterrupt, ServiceError) as error:
        error.add_note(
            f"{job_id} may go on at the server: Client.{method}({job_id!r}) can wait() for it or "
            "stop() it"
        )
        raise


@contextmanager
def _bar(job: Job, *, shown: bool) -> Iterator[Callable[[Job], None]]:
    """Shows a job's progress on standard error until the block ends."""
    if not shown:
        yield lambda job: None
        return
    # rich takes a tenth of a second to import, which a script without a terminal need not pay
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} calls"),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(job.id, total=job.progress.planned or None)

        def show(job: Job) -> None:
            far = job.progress
            told = f"{job.id}: {job.state}, {far.replies} replies, {far.rate:.1f}/s"
            if far.seconds_left:
                told += f", about {far.seconds_left:.0f} s left"
            bar.update(task, completed=far.calls, total=far.planned or None, description=told)

        yield show
