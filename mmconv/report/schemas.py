"""The columns of the Parquet files: the fields of the JSON Lines beside them, in their order."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

from mmconv.run_folder.records import Entry

if TYPE_CHECKING:
    import pyarrow


def columns_of(kind: type[Entry]) -> pyarrow.Schema:
    """The columns of a file of such records."""
    import pyarrow as pa

    return pa.schema(_fields(kind))


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
