import json
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import openpyxl
import pytest
from numpy.typing import NDArray

from mmconv.benchmarks.convbench.data import (
    CAPTION,
    CATEGORIES,
    FOCUS_POINTS,
    REFERENCES,
    Row,
    Source,
)
from mmconv.benchmarks.convbench.drafts import DraftFile
from tests.mmconv.benchmarks.convbench.data_files import (
    dataset,
    folder,
    left_out,
    load,
    record,
    refusal,
    write_lines,
)


class TestRows:
    def test_a_row_has_all_its_fields(self, source: Source) -> None:
        full = record(
            1,
            **{
                CAPTION: "A square.",
                **dict(zip(REFERENCES, ("one", "two ", "three"), strict=True)),
                **dict(zip(CATEGORIES, (" OCR ", "Age Reasoning", "  "), strict=True)),
                FOCUS_POINTS: "1. Is it a poem?",
                "status": "verified",
            },
        )
        write_lines(source.data, [full])
        (row,) = load(source)
        assert row == Row(
            id="1",
            image=row.image,
            instructions=("What is it? 1", "Why?", "Write a poem.\n"),
            caption="A square.",
            references=("one", "two ", "three"),
            focus_points="1. Is it a poem?",
            categories=("OCR", "Age Reasoning", None),
        )
        assert (row.image.media_type, row.image.width, row.image.height) == ("image/png", 10, 10)

    def test_what_is_not_given_is_none(self, source: Source) -> None:
        rows = load(source)
        assert [row.id for row in rows] == ["1", "2", "3"]
        assert rows[0].references == rows[0].categories == (None, None, None)
        assert rows[0].caption is rows[0].focus_points is rows[0].position is None

    def test_a_spreadsheet_whose_instruction_is_a_number(self, source: Source) -> None:
        path = source.data.with_suffix(".xlsx")
        book = openpyxl.Workbook()
        assert book.active is not None
        row = record(1, The_second_turn_instruction=42)
        book.active.append(list(row))
        book.active.append(list(row.values()))
        book.save(path)
        assert load(replace(source, data=path))[0].instructions[1] == "42"


class TestRefusals:
    def test_missing_columns_are_one_line_with_what_can_be_done(self, source: Source) -> None:
        write_lines(source.data, [record(n, image_id="1.png") for n in range(1, 31)])
        error = refusal(replace(source, needs=(CAPTION, *REFERENCES[:1])))
        rows = ", ".join(f"{n} (ID {n})" for n in range(1, 21))
        assert error.problems == (
            "30 records: no instruction-conditioned-caption; no first_turn_answer "
            f"(rows.jsonl line {rows} and 10 more)",
        )
        assert "--no-judge" in str(error)
        assert "`mmconv annotate convbench`" in str(error)
        assert "--skip-bad-records" not in str(error)

    def test_a_misspelt_column_is_shown(self, source: Source) -> None:
        rows = [record(n, first_turn_answr="a square") for n in (1, 2, 3)]
        write_lines(source.data, rows)
        error = refusal(replace(source, needs=REFERENCES[:1]))
        assert "Columns that nothing reads: first_turn_answr." in str(error)

    def test_all_bad_images_are_listed_at_once(self, source: Source) -> None:
        (folder(source) / "2.png").write_bytes(b"no image")
        (folder(source) / "4.jpeg").touch()
        rows = [record(1), record(2), record(3, image_id="gone.png"), record(4)]
        write_lines(source.data, [*rows, record(5, image_id="../rows.jsonl")])
        error = refusal(source)
        assert len(error.problems) == 4
        broken, gone, suffix, outside = error.problems
        assert broken.startswith("rows.jsonl line 2 (ID 2): ") and "2.png" in broken
        assert gone == "rows.jsonl line 3 (ID 3): image gone.png is not in pictures"
        assert suffix.endswith("image 4.png is not in pictures, but 4.jpeg is: the suffix differs")
        assert "'../rows.jsonl' does not lie inside" in outside
        assert f"Put the missing images into {source.images}." in str(error)
        assert "--skip-bad-records continues with the 1 good records." in str(error)

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"ID": 1}, "ID is that of rows.jsonl line 1"),
            ({"ID": "x"}, "ID is 'x', which is not a whole number from 1"),
            ({"ID": 1.5}, "ID is '1.5'"),
            ({"ID": 0}, "ID is '0'"),
            ({"ID": None}, "rows.jsonl line 2: no ID"),
            ({"The_second_turn_instruction": "  \n"}, "(ID 2): no The_second_turn_instruction"),
            ({"The_second_turn_instruction": True}, "The_second_turn_instruction holds True"),
            ({"image_id": ""}, "rows.jsonl line 2 (ID 2): no image_id"),
            ({"status": "done"}, "status is 'done'; write draft or verified"),
        ],
    )
    def test_a_bad_record_is_one_problem(
        self, source: Source, fields: dict[str, Any], said: str
    ) -> None:
        write_lines(source.data, [record(1), record(2, **fields)])
        error = refusal(source)
        assert len(error.problems) == 1
        assert said in error.problems[0]
        [place] = left_out(source)
        assert place.startswith("rows.jsonl line 2")

    def test_an_empty_file_is_listed_and_not_what_is_annotated(self, source: Source) -> None:
        notes = write_lines(source.data.parent / "notes.jsonl", [{"ID": 1, CAPTION: "A kite."}])
        source.data.write_text("\n", encoding="utf-8")
        assert refusal(replace(source, annotations=notes)).problems == ("holds no records",)

    def test_a_missing_folder_is_refused(self, source: Source) -> None:
        assert "folder does not exist" in str(refusal(replace(source, images=folder(source) / "x")))
        file = refusal(replace(source, images=source.data))
        assert file.problems == ("this is a file, not a folder",)

    def test_skipping_everything_is_refused(self, source: Source) -> None:
        bad = replace(source, needs=(CAPTION,), skip_bad=True)
        assert refusal(bad).problems == tuple(
            f"rows.jsonl line {n} (ID {n}): no instruction-conditioned-caption" for n in (1, 2, 3)
        )


class TestSkipping:
    def test_the_good_rows_are_loaded(self, source: Source) -> None:
        write_lines(source.data, [record(1), record(2, image_id="x.png"), record(3)])
        assert left_out(source) == {"rows.jsonl line 2 (ID 2)": ("image x.png is not in pictures",)}
        assert [row.id for row in load(replace(source, skip_bad=True))] == ["1", "3"]

    def test_every_reason_is_listed(self, source: Source) -> None:
        bad = record(1, image_id="x.png", The_third_turn_instruction="", status="draft")
        write_lines(source.data, [record(1, **{CAPTION: "A square."}), bad])
        assert left_out(replace(source, needs=(CAPTION,))) == {
            "rows.jsonl line 2 (ID 1)": (
                "is a draft that no person has verified",
                "no The_third_turn_instruction",
                "no instruction-conditioned-caption",
                "image x.png is not in pictures",
                "ID is that of rows.jsonl line 1",
            )
        }


class TestAnnotations:
    def annotated(self, source: Source, *records: dict[str, Any]) -> Source:
        path = write_lines(source.data.parent / "notes.jsonl", records)
        return replace(source, annotations=path)

    def test_they_are_joined_by_id(self, source: Source) -> None:
        notes = self.annotated(source, {"ID": "02", CAPTION: "A square.", REFERENCES[2]: "Roses"})
        rows = load(notes)
        assert [row.caption for row in rows] == [None, "A square.", None]
        assert rows[1].references == (None, None, "Roses")

    def test_equal_values_in_both_files_agree(self, source: Source) -> None:
        write_lines(source.data, [record(1, **{CAPTION: "A square."})])
        assert load(self.annotated(source, {"ID": 1, CAPTION: "A square. "}))[0].caption == (
            "A square."
        )

    def test_different_values_clash(self, source: Source) -> None:
        write_lines(source.data, [record(1, **{CAPTION: "A square."})])
        assert refusal(self.annotated(source, {"ID": 1, CAPTION: "A ball."})).problems == (
            "rows.jsonl line 1 (ID 1): instruction-conditioned-caption differs from notes.jsonl "
            "line 1",
        )

    @pytest.mark.parametrize(
        ("notes", "said"),
        [
            ([{"ID": 9, CAPTION: "A"}], "notes.jsonl line 1 (ID 9): no row has this ID"),
            ([{"ID": 9, CAPTION: ["A"]}], "notes.jsonl line 1 (ID 9): no row has this ID"),
            ([{CAPTION: "A"}], "notes.jsonl line 1: no ID"),
            ([{"ID": "x", CAPTION: "A"}], "notes.jsonl line 1: ID is 'x'"),
            (
                [{"ID": 1, CAPTION: "A"}, {"ID": 1, CAPTION: "B"}],
                "notes.jsonl line 2 (ID 1): notes.jsonl line 1 annotates this ID already",
            ),
        ],
    )
    def test_those_that_belong_to_no_row_are_refused_or_listed(
        self, source: Source, notes: list[dict[str, Any]], said: str
    ) -> None:
        annotated = self.annotated(source, *notes)
        (problem,) = refusal(annotated).problems
        assert problem.startswith(said)
        rows = dataset(replace(annotated, skip_bad=True))
        assert (len(rows.samples), len(rows.other_problems), rows.bad) == (3, 1, {})

    def test_a_bad_one_is_a_problem_of_its_row(self, source: Source) -> None:
        notes = [{"ID": key, CAPTION: "A", "status": "Verified"} for key in (1, 2)]
        annotated = replace(self.annotated(source, *notes), needs=(CAPTION, REFERENCES[0]))
        status = "status is 'Verified'; write draft or verified"
        assert refusal(annotated).problems == (
            f"rows.jsonl line 1 (ID 1): its annotation, notes.jsonl line 1: {status}",
            f"rows.jsonl line 2 (ID 2): its annotation, notes.jsonl line 2: {status}",
            f"rows.jsonl line 3 (ID 3): no {CAPTION}",
            f"rows.jsonl line 3 (ID 3): no {REFERENCES[0]}",
        )
        assert [*left_out(replace(annotated, needs=()))] == [
            "rows.jsonl line 1 (ID 1)",
            "rows.jsonl line 2 (ID 2)",
        ]

    def test_an_empty_file_of_them_is_listed(self, source: Source) -> None:
        empty = self.annotated(source)
        assert refusal(empty).problems == ("notes.jsonl: holds no records",)
        assert len(load(replace(empty, skip_bad=True))) == 3

    def test_bad_ones_of_later_rows_do_not_matter(self, source: Source) -> None:
        notes = source.data.with_name("notes.jsonl")
        limited = replace(source, annotations=notes)
        write_lines(notes, [{"ID": 1, CAPTION: "A kite."}, {"ID": 2, CAPTION: ["A"]}, {"ID": 3}])
        assert [row.caption for row in load(limited, limit=1)] == ["A kite."]
        write_lines(notes, [{"ID": 1, CAPTION: ["A"]}, {"ID": 2, CAPTION: ["A"]}, {"ID": 99}])
        assert [problem.split(": ")[0] for problem in refusal(limited, limit=1).problems] == [
            "notes.jsonl line 3 (ID 99)",
            "rows.jsonl line 1 (ID 1)",
        ]

    def test_drafts_need_leave(self, source: Source) -> None:
        note = {"ID": 2, CAPTION: "A square.", "status": "draft"}
        drafts = self.annotated(source, {"ID": 1, CAPTION: "A"}, note, {"ID": 3, CAPTION: "C"})
        assert [row.draft for row in load(drafts)] == [False, True, False]
        asked = replace(drafts, needs=(CAPTION,))
        error = refusal(asked)
        assert error.problems == (
            "rows.jsonl line 2 (ID 2): is a draft that no person has verified",
        )
        assert "--allow-drafts" in str(error)
        assert [*left_out(asked)] == ["rows.jsonl line 2 (ID 2)"]
        allowed = replace(asked, allow_drafts=True)
        assert [row.draft for row in load(allowed)] == [False, True, False]

    def test_one_that_is_not_json_is_refused_or_listed(self, source: Source) -> None:
        annotated = self.annotated(source, {"ID": 1, CAPTION: "A square."})
        with (source.data.parent / "notes.jsonl").open("a", encoding="utf-8") as file:
            file.write("{'ID': 2}\n")
        (problem,) = refusal(annotated).problems
        assert problem.startswith("notes.jsonl line 2: not JSON")
        assert load(replace(annotated, skip_bad=True))[0].caption == "A square."

    def test_a_file_of_the_same_name_loses_no_complaint(self, source: Source) -> None:
        other = source.data.parent / "notes"
        other.mkdir()
        write_lines(source.data, [record(1), record(2, image_id="x.png")])
        notes = write_lines(other / source.data.name, [{"ID": 1}, {"ID": 2, CAPTION: ["A"]}])
        (caption, image) = refusal(replace(source, annotations=notes)).problems
        assert image == "rows.jsonl line 2 (ID 2): image x.png is not in pictures"
        assert caption.startswith(
            "rows.jsonl line 2 (ID 2): its annotation, rows.jsonl line 2: "
            "instruction-conditioned-caption holds"
        )

    def test_lines_written_are_read_back(self, source: Source) -> None:
        path = source.data.parent / "notes.jsonl"
        path.write_text(f'{{"ID": 1, "{CAPTION}": "x"}}', encoding="utf-8")
        drafted = {
            CAPTION: "一个\n正方形",
            REFERENCES[0]: "a",
            REFERENCES[1]: "b",
            CATEGORIES[0]: "OCR",
            CATEGORIES[2]: "Roleplay",
        }
        DraftFile(path).add("2", drafted)
        first, second, third = load(replace(source, annotations=path))
        assert (first.caption, second.caption, third.caption) == ("x", "一个\n正方形", None)
        assert (second.references, second.focus_points) == (("a", "b", None), None)
        assert (second.categories, second.draft) == (("OCR", None, "Roleplay"), True)
        assert (first.draft, third.draft) == (False, False)
        line = path.read_text(encoding="utf-8").splitlines()[1]
        assert next(iter(json.loads(line))) == "ID"


class TestPositions:
    def positioned(self, source: Source, array: NDArray[Any]) -> Source:
        path = source.data.parent / "pairwise.npy"
        np.save(path, array)
        return replace(source, positions=path)

    def test_sides_go_by_id_not_by_order(self, source: Source) -> None:
        write_lines(source.data, [record(3), record(1)])
        rows = load(self.positioned(source, np.array([0, 1, 1])))
        assert [(row.id, row.position) for row in rows] == [("3", "B"), ("1", "A")]

    def test_too_few_are_refused(self, source: Source) -> None:
        error = refusal(self.positioned(source, np.array([0, 1])))
        assert error.problems == ("rows.jsonl line 3 (ID 3): pairwise.npy ends at ID 2",)

    @pytest.mark.parametrize(
        "array", [np.array([0, 1, 2]), np.array([[0, 1, 1]]), np.array([0.0, 1.0, 1.0])]
    )
    def test_other_arrays_are_refused(self, source: Source, array: NDArray[Any]) -> None:
        assert "not a plain row of zeros and ones" in str(refusal(self.positioned(source, array)))

    def test_objects_are_never_unpickled(self, source: Source) -> None:
        bad = self.positioned(source, np.array([Counter()], dtype=object))
        assert "pairwise.npy" in str(refusal(bad))
        assert "allow_pickle=False" in str(refusal(bad))

    def test_a_missing_file_is_refused(self, source: Source) -> None:
        missing = replace(source, positions=folder(source) / "none.npy")
        assert "none.npy" in str(refusal(missing))
