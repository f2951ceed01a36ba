"""Parquet files made from JSON Lines, with the same fields in the same order.

They stream: memory holds one row group. A file appears under its name only when it is whole.
"""

from __future__ import annotations

import io
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

from mmconv.core.atomic_writes import whole
from mmconv.core.errors import DataError
from mmconv.run_folder.records import Entry

if TYPE_CHECKING:
    import pyarrow


def columns_of(kind: type[Entry]) -> pyarrow.Schema:
    """The columns of a file of such records."""
    import pyarrow as pa

    return pa.schema(_fields(kind))


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


def _fields(kind: type[Entry]) -> list[tuple[str, pyarrow.DataType]]:
    return [(name, _column(field.annotation)) for name, field in kind.model_fields.items()]


def _column(held: Any) -> pyarrow.DataType:
    """What holds values of a field's type; any of them may be null."""
    import pyarrow as pa

    plain = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    if held in plain:
        return plain[held]
    if isinstance(held, type) and issubclass(held, Entry):
        return pa.struct(_fields(held))
    inside, other = get_args(held)
    return _column(inside) if other is NoneType else pa.list_(_column(inside))


def _parsed(block: bytes, schema: pyarrow.Schema) -> pyarrow.Table:
    """The records of whole lines; raises `pyarrow.ArrowInvalid` for one that does not fit."""
    import pyarrow as pa
    from pyarrow import json

    return json.read_json(
        # a Python file would be read under the interpreter's lock, which the tables hold
        pa.BufferReader(block),
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
