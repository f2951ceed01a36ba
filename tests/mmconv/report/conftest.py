import asyncio
import shutil
from functools import cache
from pathlib import Path

import pytest

from tests.mmconv.report.runs import ALPHA, BETA, Pair, make_run


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """`pair(benchmark)` are its runs of alpha and beta, made once: tests only read them."""

    @cache
    def made(benchmark: str) -> tuple[Path, Path]:
        folder = tmp_path_factory.mktemp("pair")
        first, second = (asyncio.run(make_run(benchmark, folder, each)) for each in (ALPHA, BETA))
        return first, second

    return made


@pytest.fixture
def copies(pair: Pair, tmp_path: Path) -> tuple[Path, Path]:
    """Those of ConvBench, to be changed or run beside others."""
    first, second = (shutil.copytree(run, tmp_path / run.name) for run in pair("convbench"))
    return first, second
