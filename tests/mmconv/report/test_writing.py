"""A run's folder as it is written: ordered lines, counts of its records, Parquet, tables, notes."""

import asyncio
import json
import random
import tracemalloc
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from judges.parsers import rating
from mmconv.benchmarks.registry import TITLES
from mmconv.core.config import ModelSpec
from mmconv.core.errors import DataError
from mmconv.core.plans import Finished, Plan
from mmconv.core.types import Call, Failure, Outcome, Reply
from mmconv.report.writing import RunFolder, ordered_lines, write_parquet
from mmconv.run_folder.layout import PAGE, REPORT
from mmconv.run_folder.saved_run import read_finished, read_tables
from tests.mmconv.processes import typed
from tests.mmconv.report.runs import SIZE, make_run

READABLE = Reply(text="Good. Rating: [[7]]")
UNREADABLE = Reply(text="Who am I to say?")


def finished(order: int, outcomes: Mapping[str, Outcome]) -> Finished:
    """A plan of an answer and its judgement, which may be asked for once more."""
    answer = Call(id="answer", model="candidate", messages=())
    fallback = Call(id="judgement~retry_1", model="judge", messages=(), parser=rating)
    judgement = replace(fallback, id="judgement", fallbacks=(fallback,))
    plan = Plan(order=order, sample=str(order), condition="free", calls=(answer, judgement))
    return Finished(plan=plan, outcomes=outcomes, resolved={})


def test_a_verdict_is_unread_if_none_of_its_replies_can_be_read(tmp_path: Path) -> None:
    answered: dict[str, Outcome] = {"answer": UNREADABLE}
    failed = Failure(kind="server", message="down", attempts=8)
    all_judged: tuple[dict[str, Outcome], ...] = (
        {"judgement": READABLE},
        {"judgement": UNREADABLE, "judgement~retry_1": READABLE},
        {"judgement": UNREADABLE, "judgement~retry_1": UNREADABLE},
        {"judgement": UNREADABLE, "judgement~retry_1": failed},
        {"judgement": failed},
    )
    with RunFolder(tmp_path / "run").records() as records:
        for order, judged in enumerate(all_judged):
            records.add(finished(order, answered | judged), ())
    quality = records.quality
    assert +quality.judged() == {"read": 1, "read after a retry": 1, "unreadable": 2}
    assert (quality.calls, quality.failed, quality.skipped) == (13, 2, 0)


async def test_tables_of_a_session_before_do_not_stand_beside_new_scores(tmp_path: Path) -> None:
    folder = await make_run("fbbench", tmp_path)
    with suppress(ValueError), RunFolder(folder).records():
        raise ValueError("nothing is written")
    with RunFolder(folder).records() as records:
        records.discard()
    assert read_finished(folder).tables
    with RunFolder(folder).records():
        pass  # a run that is killed now has scores, and not yet their tables
    with pytest.raises(DataError, match=r"the run is not finished: it has no index\.json"):
        read_finished(folder)


@pytest.mark.parametrize("benchmark", TITLES)
async def test_tables_with_intervals_explain_them_once(benchmark: str, tmp_path: Path) -> None:
    tables = read_tables(await make_run(benchmark, tmp_path) / "tables")
    notes = {
        table.name: sum(note.startswith("Brackets hold") for note in table.notes)
        for table in tables
    }
    cells = {
        table.name: [cell for row in table.rows.values() for cell in row.values()]
        for table in tables
    }
    expected = {name: int(any(cell.low is not None for cell in cells[name])) for name in cells}
    assert notes == expected
    # its records are too few
    assert 1 in expected.values() or benchmark == "mtbench101"


def test_that_answers_are_not_the_model_s_is_told_wherever_numbers_are(tmp_path: Path) -> None:
    silent = ModelSpec(provider="fake", model="scripted", options={"script": {"(?s).*": ""}})
    folder = asyncio.run(make_run("convbench", tmp_path, silent, page=True, conditions=("free",)))
    note = f"free, turn 1 ({SIZE} of {SIZE}, 100.0 %)"
    report = (folder / REPORT).read_text(encoding="utf-8")
    assert report.index("- **warning**: More than 1 %") < report.index(note) < report.index("S1")
    page = (folder / PAGE).read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert page.index(note) < page.index('<section id="headline"')
    printed = typed("score", str(folder)).stderr
    assert any(line.startswith("WARNING: ") and note in line for line in printed.splitlines())


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
def test_a_record_off_the_schema_leaves_no_file(tmp_path: Path, record: dict[str, Any]) -> None:
    good = [_record(order) for order in range(20)]
    source = _lines(tmp_path / "records.jsonl", [*good, record, *good])
    with pytest.raises(DataError, match=r"records\.jsonl"):
        write_parquet(source, tmp_path / "records.parquet", SCHEMA, group_bytes=400)
    assert list(tmp_path.iterdir()) == [source]
