"""What makes all tests take less time and changes nothing that they see."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from functools import cache

import pytest

from images.scenes import draw

# Models of tests are so small that several threads only wait for each other. It must be set before
# torch is imported, and holds for the servers that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_finish() -> None:
    """Leave all that is imported by now out of what the collector of garbage looks through."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _drawn_once() -> Iterator[None]:
    """Draw each scene once: the same scene gives the same bytes, and its file takes its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mmconv.benchmarks.convbench.scenes.draw", cache(draw))
        yield
