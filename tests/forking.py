"""Processes of tests, forked from one that has loaded what they need: each is there at once.

That one is started with the first of them and ends with the tests. Python has one such process, so
what it loads is told here for all.
"""

import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from typing import Any

from mmconv.benchmarks.registry import TITLES
from model_zoo.providers import PROVIDERS
from tests import torchvision_stub

_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        *("mmconv.service.server", "mmconv.cli.evaluating", PROVIDERS["openai"]),
        *(f"mmconv.benchmarks.{benchmark}.benchmark" for benchmark in TITLES),
        *("tests.mmconv.service.loaded", "tests.mmconv.processes"),
    ]
)


def fork(target: Callable[..., object], *arguments: Any) -> ForkServerProcess:
    """A process that calls the target, begun; it ends with this one at the latest."""
    process = _CONTEXT.Process(target=_run, args=(target, arguments), daemon=True)
    process.start()
    return process


def _run(target: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    # The path of the tests comes along; what they have put there for themselves is not installed.
    stub = str(torchvision_stub.FOLDER)
    sys.path[:] = [place for place in sys.path if place != stub]
    target(*arguments)
