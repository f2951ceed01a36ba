"""Three good rows of ConvBench, with their images."""

from pathlib import Path

import pytest

from tests.mmconv.benchmarks.convbench.data_files import Source, three_rows


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return three_rows(tmp_path)
