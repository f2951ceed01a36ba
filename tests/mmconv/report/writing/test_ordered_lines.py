"""Ordered JSON Lines: order, wholeness, memory."""

from __future__ import annotations

import json
import random
import tracemalloc
from pathlib import Path

import pytest

from mmconv.report.writing import ordered_lines


def test_lines_end_in_ascending_order_whatever_order_they_came_in(tmp_path: Path) -> None:
    path = tmp_path / "made" / "records.jsonl"
    orders = list(range(-3, 500))
    random.Random(1).shuffle(orders)
    with ordered_lines(path) as lines:
        for order in orders:
            lines.append(order, f'{{"order": {order}, "text": "{"x" * (order % 11)}"}}'.encode())
        assert not path.exists()
    read = [json.loads(line)["order"] for line in path.read_text("utf-8").splitlines()]
    assert read == list(range(-3, 500))
    assert list(path.parent.iterdir()) == [path]


def test_lines_of_equal_order_stay_as_they_came(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    with ordered_lines(path) as lines:
        for order, text in [(2, b"c"), (1, b"a"), (2, b"d"), (1, b"b"), (2, b"")]:
            lines.append(order, text)
    assert path.read_bytes() == b"a\nb\nc\nd\n\n"


def test_no_lines_make_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    with ordered_lines(path):
        pass
    assert path.read_bytes() == b""


def test_an_exception_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    with pytest.raises(RuntimeError, match="stopped"), ordered_lines(path) as lines:
        lines.append(1, b"{}")
        raise RuntimeError("stopped")
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"before\n")
    with pytest.raises(RuntimeError, match="stopped"), ordered_lines(path) as lines:
        lines.append(1, b"{}")
        raise RuntimeError("stopped")
    assert path.read_bytes() == b"before\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_record_of_two_lines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="order 7"), ordered_lines(tmp_path / "r") as lines:
        lines.append(7, b"{}\n{}")


def test_lines_are_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    line = b"x" * 2000
    tracemalloc.start()
    try:
        with ordered_lines(path) as lines:
            for order in reversed(range(10_000)):
                lines.append(order, line)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.stat().st_size == 10_000 * 2001
    # 20 MB of lines; the buffers take 2 MiB, the index less than half a megabyte
    assert peak < 3_500_000
