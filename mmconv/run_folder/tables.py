"""The tables of a run's folder, read back from the JSON that `mmconv.report.tables` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from mmconv.core.errors import DataError
from mmconv.core.types import Cell, Table

INDEX = "index.json"
"""The names of a folder's tables in their order."""


def read_tables(folder: Path) -> tuple[Table, ...]:
    """The tables that `mmconv.report.tables.formats.write_tables` put into a folder, in its order.

    Raises `FileNotFoundError` where there are none, `DataError` where a file is no table.
    """
    return tuple(_read_table(folder / f"{name}.json") for name in read_names(folder))


def read_names(folder: Path) -> list[str]:
    """The names of the tables in a folder, in their order; raises as `read_tables` does."""
    path = folder / INDEX
    names = _read_json(path)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(str(path), ["holds no list of names"])
    return names


def _read_table(path: Path) -> Table:
    document = _read_json(path)
    try:
        rows = {
            name: {column: Cell(**cell) for column, cell in row.items()}
            for name, row in document.pop("rows").items()
        }
        columns, notes = tuple(document.pop("columns")), tuple(document.pop("notes"))
        findings = tuple(document.pop("findings", ()))
        return Table(**document, columns=columns, notes=notes, findings=findings, rows=rows)
    except (AttributeError, KeyError, TypeError) as error:
        raise DataError(str(path), [f"no table that mmconv wrote: {error}"]) from error


def _read_json(path: Path) -> Any:
    try:
        return orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise DataError(str(path), [f"cut short, or not JSON: {error}"]) from error
