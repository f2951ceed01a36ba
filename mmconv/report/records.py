"""Records as files: JSON Lines in a fixed order, and Parquet made from them.

Both stream: memory holds some bytes per line, or one row group. What a record contains is for the
caller to say. A file appears under its name only when it is whole.
"""

from __future__ import annotations

import io
import os
import tempfile
from array import array
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from mmconv.errors import DataError
from mmconv.whole_files import whole

if TYPE_CHECKING:
    import pyarrow

_BUFFER = 1 << 20


class OrderedLines:
    """Takes lines in any order and leaves a file of them in ascending order.

    A context manager. Lines wait in an unnamed file in the target's folder, which the system
    removes with the process; memory holds 16 bytes for each group that came together. Leaving the
    block writes the target at once and whole; leaving it by an exception writes nothing and keeps
    what was there before.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._orders = array("q")
        self._lengths = array("q")

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._spool: IO[bytes] = tempfile.TemporaryFile(buffering=_BUFFER, dir=self._path.parent)
        return self

    def append(self, order: int, *lines: bytes) -> None:
        """Take lines without their ends; those of equal order keep the order in which they came.

        Raises `ValueError` if one of them holds a line end.
        """
        if not lines:
            return
        if any(b"\n" in line for line in lines):
            raise ValueError(f"a record of order {order} is more than one line")
        block = b"\n".join((*lines, b""))
        self._spool.write(block)
        self._orders.append(order)
        self._lengths.append(len(block))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._spool:
            if kind is None:
                with whole(self._path) as part, part.open("wb", buffering=_BUFFER) as target:
                    for block in self._sorted():
                        target.write(block)

    def _sorted(self) -> Iterator[bytes]:
        self._spool.flush()
        spool = self._spool.fileno()
        offsets = array("q", accumulate(self._lengths, initial=0))
        for place in sorted(range(len(self._orders)), key=self._orders.__getitem__):
            # A buffered reader would throw its buffer away at every jump; mapping the file would
            # count all of it as this process's memory.
            yield os.pread(spool, self._lengths[place], offsets[place])


def write_parquet(
    lines: Path, target: Path, schema: pyarrow.Schema, *, group_bytes: int = 1 << 20
) -> None:
    """Turn a JSON Lines file into a Parquet file with this schema.

    Each of its columns may be null, and is where a record lacks the field. A row group is made of
    `group_bytes` of JSON and the rest of the line there. Whatever does not fit, a field unknown to
    the schema included, raises `DataError`. An empty file gives an empty table.
    """
    import pyarrow
    from pyarrow import parquet

    # Arrow's own allocator keeps what it has freed, tens of megabytes that this process lacks
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    done = 0
    with (
        whole(target) as part,
        lines.open("rb") as source,
        parquet.ParquetWriter(part, schema, compression="zstd") as writer,
    ):
        # the reader's own streaming holds some thirty blocks at once: this holds one
        while block := source.read(group_bytes) + source.readline():
            try:
                writer.write_table(_parsed(block, schema))
            except pyarrow.ArrowInvalid as error:
                problem = _misfit(block, schema, done) or str(error)
                advice = "The records and the schema that the report asks for do not agree."
                raise DataError(str(lines), [problem], advice) from error
            done += block.count(b"\n")


def _parsed(block: bytes, schema: pyarrow.Schema) -> pyarrow.Table:
    """The records of whole lines; raises `pyarrow.ArrowInvalid` for one that does not fit."""
    from pyarrow import json

    return json.read_json(
        io.BytesIO(block),
        json.ReadOptions(block_size=len(block) + 1, use_threads=False),
        json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
    )


def _misfit(block: bytes, schema: pyarrow.Schema, before: int) -> str | None:
    """The first line that does not fit and why: a block's error does not tell which it was."""
    import pyarrow

    for number, line in enumerate(io.BytesIO(block), start=before + 1):
        try:
            _parsed(line, schema)
        except pyarrow.ArrowInvalid as error:
            return f"line {number}: {error}"
    return None
