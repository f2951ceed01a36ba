"""Parquet files of JSON Lines: round trip, bounded groups, what does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from mmconv.core.errors import DataError
from mmconv.report.writing import write_parquet

SCHEMA = pyarrow.schema(
    [
        ("sample", pyarrow.string()),
        (
            "turns",
            pyarrow.list_(pyarrow.struct([("turn", pyarrow.int64()), ("text", pyarrow.string())])),
        ),
        ("value", pyarrow.float64()),
    ]
)


def _record(order: int) -> dict[str, Any]:
    return {
        "sample": f"sample {order}",
        "turns": [{"turn": 1, "text": "é\n中" * (order % 5)}, {"turn": 2, "text": None}],
        "value": None if order % 7 == 0 else order / 3,
    }


def _lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.mark.parametrize("group_bytes", [1, 700, 1 << 20])
def test_parquet_gives_the_records_back_in_bounded_groups(tmp_path: Path, group_bytes: int) -> None:
    records = [_record(order) for order in range(50)]
    source = _lines(tmp_path / "records.jsonl", records)
    target = tmp_path / "records.parquet"
    write_parquet(source, target, SCHEMA, group_bytes=group_bytes)
    table = parquet.read_table(target)
    assert table.to_pylist() == records
    assert table.schema.names == SCHEMA.names
    groups = parquet.read_metadata(target).num_row_groups
    size = source.stat().st_size
    assert groups == 1 if group_bytes > size else size / (group_bytes + 200) < groups <= 50


def test_an_empty_file_gives_an_empty_table_with_the_schema(tmp_path: Path) -> None:
    source = _lines(tmp_path / "records.jsonl", [])
    write_parquet(source, tmp_path / "records.parquet", SCHEMA)
    table = parquet.read_table(tmp_path / "records.parquet")
    assert (table.num_rows, table.schema.names) == (0, SCHEMA.names)


def test_a_field_that_is_not_there_is_null(tmp_path: Path) -> None:
    source = _lines(tmp_path / "records.jsonl", [{"sample": "a"}])
    write_parquet(source, tmp_path / "records.parquet", SCHEMA)
    rows = parquet.read_table(tmp_path / "records.parquet").to_pylist()
    assert rows == [{"sample": "a", "turns": None, "value": None}]


@pytest.mark.parametrize(
    "record",
    [
        {"sample": "a", "unheard": 1},
        {"sample": "a", "turns": [{"turn": 1, "unheard": 2}]},
        {"sample": "a", "turns": [{"turn": 1.5}]},
        {"sample": 1},
    ],
)
def test_a_record_that_does_not_fit_the_schema_is_an_error_and_leaves_no_file(
    tmp_path: Path, record: dict[str, Any]
) -> None:
    good = [_record(order) for order in range(20)]
    source = _lines(tmp_path / "records.jsonl", [*good, record, *good])
    with pytest.raises(DataError, match=r"records\.jsonl"):
        write_parquet(source, tmp_path / "records.parquet", SCHEMA, group_bytes=400)
    assert list(tmp_path.iterdir()) == [source]
