"""What reading a file of records comes to."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from mmconv.benchmarks.data_files.records import read_records
from mmconv.core.errors import DataError


def fails(path: Path, sheet: str | None = None, columns: Sequence[str] = ()) -> str:
    with pytest.raises(DataError) as caught:
        list(read_records(path, sheet, columns=columns))
    return str(caught.value)
