"""What bounds the time of all tests or shortens it, and changes nothing that they see."""

import gc
import os

import pytest

# Models of tests are so small that several threads only wait for each other. It must be set before
# torch is imported, and holds for the servers that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")


REAL_SECONDS = 900
"""What a test may take that waits for a real server; `timeout` in pyproject.toml bounds others."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("real") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(REAL_SECONDS))


def pytest_collection_finish() -> None:
    """Leave all that is imported by now out of what the collector of garbage looks through."""
    gc.collect()
    gc.freeze()
