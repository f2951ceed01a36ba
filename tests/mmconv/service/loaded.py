"""Server processes, forked from one that has loaded the service, so that each is there at once.

That one is started with the first of them and ends with the tests. `mmconv serve` as it is typed
has a test of its own.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["mmconv.service.server", __name__])


def start(settings: Path, log: Path, environ: Mapping[str, str], before: str) -> ForkServerProcess:
    """A process that runs the Python `before` and then serves what the settings say.

    All that it prints goes into `log`; `environ` is added to the environment as it is now.
    """
    whole = os.environ | dict(environ)
    process = _CONTEXT.Process(target=_serve, args=(settings, log, whole, before), daemon=True)
    process.start()
    return process


def _serve(settings: Path, log: Path, environ: Mapping[str, str], before: str) -> None:
    with log.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    os.environ.clear()
    os.environ.update(environ)
    exec(before)
    from mmconv.service.command import command

    command([str(settings)])
