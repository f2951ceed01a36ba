"""Parquet files (.parquet) with images in their columns, as the Hugging Face hub has them.

An image is a struct of `bytes` and `path`, or plain bytes; it may be in a list or in a struct. Its
bytes stay in the file until it is opened, so memory holds two row groups at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

from mmconv.core.documents import name_place
from mmconv.core.errors import DataError

if TYPE_CHECKING:
    import pyarrow

ROWS = 64  # rows that are converted at a time
GROUPS = 2  # neighbouring row groups whose images are held: threads may be at their border

Steps: TypeAlias = tuple[str | int, ...]
"""The column, then the fields and places inside it, that lead to a value."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EmbeddedImage:
    """An image inside a Parquet file; `name` says which one: `turns[2].images[1] (cat.png)`.

    `read` gives its bytes; it raises `DataError` if the file can no longer be read.
    """

    name: str
    read: Callable[[], bytes]

    def __repr__(self) -> str:
        """What problems say that a field holds."""
        return "an image"


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Stream the rows; images are `EmbeddedImage`s, and null fields are left out.

    Raises `DataError` for a file that cannot be read.
    """
    columns = _ImageColumns(path)
    for group in range(columns.groups):
        table = columns.open(group)
        start = 0
        for batch in table.to_batches(max_chunksize=ROWS):
            for row, fields in enumerate(batch.to_pylist(), start=start):
                yield columns.embed(fields, group, row)
            start += batch.num_rows


class _ImageColumns:
    """The images of a file; threads that read from one row group read it once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._held: dict[tuple[int, str], pyarrow.Table] = {}
        # Imported here: pyarrow is slow to load, and most runs read no Parquet file.
        import pyarrow
        from pyarrow import parquet

        self._errors = (pyarrow.ArrowException, OSError)
        self._parquet = parquet
        try:
            self.groups: int = parquet.read_metadata(path).num_row_groups
        except self._errors as error:
            raise self._unreadable(error) from error

    def open(self, group: int, names: list[str] | None = None) -> pyarrow.Table:
        """The columns of a row group, by default all."""
        try:
            with self._parquet.ParquetFile(self._path) as file:
                return file.read_row_group(group, columns=names)
        except self._errors as error:
            raise self._unreadable(error) from error

    def embed(self, value: Any, group: int, row: int, steps: Steps = ()) -> Any:
        """A row, or a value in it, with a handle in the place of every image."""
        name = ""
        if isinstance(value, dict):
            path = value.get("path")
            if not (steps and value.keys() == {"bytes", "path"}):
                fields = {
                    key: self.embed(each, group, row, (*steps, key)) for key, each in value.items()
                }
                return {key: each for key, each in fields.items() if each is not None}
            if value["bytes"] is None:
                return path
            steps, value, name = (*steps, "bytes"), value["bytes"], path or ""
        if isinstance(value, list):
            return [
                self.embed(each, group, row, (*steps, place)) for place, each in enumerate(value)
            ]
        if not isinstance(value, bytes):
            return value
        label = _label(steps) + (f" ({name})" if name else "")
        return EmbeddedImage(name=label, read=partial(self.read, group, row, steps))

    def read(self, group: int, row: int, steps: Steps) -> bytes:
        """The bytes to which the steps lead."""
        column, *inside = str(steps[0]), *steps[1:]
        with self._lock:
            if (group, column) not in self._held:
                for old in [each for each in self._held if abs(each[0] - group) >= GROUPS]:
                    del self._held[old]
                self._held[group, column] = self.open(group, [column])
            table = self._held[group, column]
        value = table.column(column)[row]
        for step in inside:
            value = value[step]
        data: bytes = value.as_py()
        return data

    def _unreadable(self, error: Exception) -> DataError:
        fault = f"not a readable Parquet file ({error})"
        return DataError(str(self._path), [fault], "Write it again, or download it again.")


def _label(steps: Steps) -> str:
    """Steps as problems name fields; places count from 1."""
    steps = steps[:-1] if steps[-1] == "bytes" and len(steps) > 1 else steps
    return name_place(steps, first=1)
