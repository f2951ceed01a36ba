"""Server processes, forked from one that has loaded the service, so that each is there at once.

`mmconv serve` as it is typed has a test of its own.
"""

import os
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests.forking import fork


def start(settings: Path, log: Path, environ: Mapping[str, str], before: str) -> ForkServerProcess:
    """A process that runs the Python `before` and then serves what the settings say.

    All that it prints goes into `log`; `environ` is added to the environment as it is now.
    """
    whole = os.environ | dict(environ)
    return fork(_serve, settings, log, whole, before)


def start_page(arguments: Sequence[str], log: Path) -> ForkServerProcess:
    """A process of a command that serves a page, such as `view`, on a port that was free."""
    return fork(_command, [*arguments, "--port", "0"], log)


def _command(arguments: list[str], log: Path) -> None:
    _print_into(log)
    from mmconv.cli import commands

    commands(arguments)


def _print_into(log: Path) -> None:
    with log.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)


def _serve(settings: Path, log: Path, environ: Mapping[str, str], before: str) -> None:
    _print_into(log)
    os.environ.clear()
    os.environ.update(environ)
    exec(before)
    from mmconv.service.command import serve_command

    serve_command([str(settings)])
