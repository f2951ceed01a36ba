from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mmconv.benchmarks.convbench.data import (
    CAPTION,
    CATEGORIES,
    FOCUS_POINTS,
    NOT_VERIFIED,
    REFERENCES,
    Row,
)
from tests.mmconv.benchmarks.convbench.data_files import (
    Source,
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


class TestRefusals:
    def test_missing_columns_are_told_with_what_can_be_done(self, source: Source) -> None:
        write_lines(source.data, [record(n, image_id="1.png") for n in range(1, 31)])
        error = refusal(replace(source, needs=(CAPTION, *REFERENCES[:1])))
        assert error.problems == tuple(
            f"rows.jsonl line {n} (ID {n}): no {column}"
            for n in range(1, 31)
            for column in ("instruction-conditioned-caption", "first_turn_answer")
        )
        assert len(str(error).splitlines()) == 1 + 2 * 6 + 2
        assert "--no-judge" in str(error)
        assert "`mmconv annotate convbench`" in str(error)
        assert "--skip-bad-records" not in str(error)

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
        assert suffix.endswith("image 4.png is not in pictures; did you mean 4.jpeg?")
        assert "'../rows.jsonl' is not inside" in outside
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
    def test_one_problem_a_record(self, source: Source, fields: dict[str, Any], said: str) -> None:
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
                NOT_VERIFIED,
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
            ([{"ID": 1, CAPTION: ["A"]}], f"notes.jsonl line 1 (ID 1): {CAPTION} holds ['A']"),
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

    def test_a_bad_one_is_told_and_does_not_count(self, source: Source) -> None:
        annotated = self.annotated(source, {"ID": 1, CAPTION: "A", "status": "Verified"})
        fault = "notes.jsonl line 1 (ID 1): status is 'Verified'; write draft or verified"
        assert refusal(annotated).problems == (fault,)
        assert load(replace(annotated, skip_bad=True))[0].caption is None

    def test_drafts_need_leave(self, source: Source) -> None:
        note = {"ID": 2, CAPTION: "A square.", "status": "draft"}
        drafts = self.annotated(source, {"ID": 1, CAPTION: "A"}, note, {"ID": 3, CAPTION: "C"})
        assert [row.draft for row in load(drafts)] == [False, True, False]
        asked = replace(drafts, needs=(CAPTION,))
        error = refusal(asked)
        assert error.problems == (f"rows.jsonl line 2 (ID 2): {NOT_VERIFIED}",)
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
