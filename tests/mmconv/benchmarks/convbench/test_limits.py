"""A limited run: its first rows, and what is wrong with them alone."""

from __future__ import annotations

from dataclasses import replace

from mmconv.benchmarks.convbench.columns import CAPTION
from mmconv.benchmarks.convbench.data import Source
from tests.mmconv.benchmarks.convbench.data_files import (
    dataset,
    folder,
    left_out,
    load,
    record,
    refusal,
    write_lines,
)


def test_images_after_the_last_wanted_row_are_not_looked_at(source: Source) -> None:
    (folder(source) / "2.png").write_bytes(b"no picture")
    (folder(source) / "3.png").unlink()
    assert [row.id for row in load(source, limit=1)] == ["1"]
    assert "2.png" in str(refusal(source, limit=2))


def test_they_are_neither_where_many_are_looked_at_ahead(source: Source) -> None:
    write_lines(source.data, [record(1), *(record(number) for number in range(4, 80))])
    assert dataset(source, limit=1).bad == {}


def test_rows_that_are_left_out_do_not_count(source: Source) -> None:
    (folder(source) / "1.png").unlink()
    write_lines(source.data, [record(1), {"ID": 5}, record(2), record(3), record(4)])
    skipping = replace(source, skip_bad=True)
    assert [row.id for row in load(skipping, limit=2)] == ["2", "3"]
    assert [*left_out(source, limit=2)] == [
        "rows.jsonl line 1 (ID 1)",
        "rows.jsonl line 2 (ID 5)",
    ]


def test_rows_after_the_last_wanted_one_are_not_complained_of(source: Source) -> None:
    write_lines(source.data, [record(1), {"ID": 2}, record(1), record(3)])
    rows = dataset(source, limit=1)
    assert ([row.id for row in rows.samples], rows.beyond, rows.bad) == (["1"], 3, {})
    assert "(ID 2): no image_id" in str(refusal(source, limit=2))


def test_only_the_first_rows_are_complained_of_where_one_of_them_is_bad(source: Source) -> None:
    (folder(source) / "1.png").unlink()
    write_lines(source.data, [record(1), record(2), record(3), record(4), {"ID": 5}])
    error = refusal(source, limit=2)
    assert error.problems == ("rows.jsonl line 1 (ID 1): image 1.png is not in pictures",)
    assert "--skip-bad-records takes the next good records in their place." in str(error)
    assert [row.id for row in load(replace(source, skip_bad=True), limit=2)] == ["2", "3"]


def test_no_other_records_are_promised_where_there_are_none(source: Source) -> None:
    (folder(source) / "1.png").unlink()
    assert "goes on with the 2 good records." in str(refusal(source, limit=3))


def test_bad_annotations_of_later_rows_are_not_complained_of(source: Source) -> None:
    notes = source.data.with_name("notes.jsonl")
    limited = replace(source, annotations=notes)
    write_lines(notes, [{"ID": 1, CAPTION: "A kite."}, {"ID": 2, CAPTION: ["A"]}, {"ID": 3}])
    assert [row.caption for row in load(limited, limit=1)] == ["A kite."]
    write_lines(notes, [{"ID": 1, CAPTION: ["A"]}, {"ID": 2, CAPTION: ["A"]}, {"ID": 99}])
    assert [problem.split(": ")[0] for problem in refusal(limited, limit=1).problems] == [
        "notes.jsonl line 3 (ID 99)",
        "rows.jsonl line 1 (ID 1)",
    ]
