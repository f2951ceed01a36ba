import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from mmconv.benchmarks.convbench.columns import CAPTION, CATEGORIES, FOCUS_POINTS, REFERENCES
from mmconv.benchmarks.convbench.drafts import DraftFile, held
from mmconv.core.errors import ConfigError, DataError
from tests.mmconv.benchmarks.convbench.data_files import write_lines

VERIFIED = {"ID": 3, CAPTION: "A kite.", REFERENCES[0]: "one", "status": "verified"}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_draft_is_one_line_in_the_authors_columns(tmp_path: Path) -> None:
    file = DraftFile(tmp_path / "drafts.jsonl")
    file.add("7", {CAPTION: "A dog.\nIt barks.", FOCUS_POINTS: "1. ?", CATEGORIES[2]: "Navigation"})
    assert lines(file.path) == [
        {
            "ID": 7,
            CAPTION: "A dog.\nIt barks.",
            CATEGORIES[2]: "Navigation",
            FOCUS_POINTS: "1. ?",
            "status": "draft",
        }
    ]
    assert file.line("7") == {
        CAPTION: "A dog.\nIt barks.",
        FOCUS_POINTS: "1. ?",
        CATEGORIES[2]: "Navigation",
    }


def test_lines_that_are_there_are_known_and_kept(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "drafts.jsonl", [VERIFIED])
    before = path.read_bytes()
    file = DraftFile(path)
    assert file.line("3") is not None
    assert file.line("7") is None
    file.add("7", {CAPTION: "A dog."})
    assert path.read_bytes().startswith(before)
    assert [line["ID"] for line in lines(path)] == [3, 7]


def test_what_completes_a_verified_line_makes_it_a_draft_of_both(tmp_path: Path) -> None:
    earlier = write_lines(tmp_path / "earlier.jsonl", [VERIFIED])
    before = earlier.read_bytes()
    file = DraftFile(tmp_path / "drafts.jsonl", earlier)
    file.add("3", {REFERENCES[1]: "two"})
    assert lines(file.path) == [{**VERIFIED, REFERENCES[1]: "two", "status": "draft"}]
    assert earlier.read_bytes() == before


@pytest.mark.parametrize("status", ["verified", "draft"])
def test_a_complete_line_is_taken_over_with_its_status(tmp_path: Path, status: str) -> None:
    given = {**VERIFIED, "status": status}
    file = DraftFile(tmp_path / "drafts.jsonl", write_lines(tmp_path / "earlier.jsonl", [given]))
    assert file.copy("3")
    assert not file.copy("4")
    assert lines(file.path) == [given]


def test_a_line_without_a_status_counts_as_verified(tmp_path: Path) -> None:
    given = {column: value for column, value in VERIFIED.items() if column != "status"}
    file = DraftFile(tmp_path / "drafts.jsonl", write_lines(tmp_path / "earlier.jsonl", [given]))
    file.copy("3")
    assert lines(file.path) == [VERIFIED]


def test_the_earlier_file_may_be_the_same(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "drafts.jsonl", [VERIFIED])
    file = DraftFile(path, path)
    assert file.line("3") is not None
    file.add("7", {CAPTION: "A dog."})
    assert lines(path) == [VERIFIED, {"ID": 7, CAPTION: "A dog.", "status": "draft"}]


def test_bad_lines_are_refused(tmp_path: Path) -> None:
    bad: list[dict[str, Any]] = [
        VERIFIED,
        VERIFIED,
        {CAPTION: "Whose?"},
        {"ID": 4, "status": "done"},
    ]
    with pytest.raises(DataError) as caught:
        DraftFile(write_lines(tmp_path / "drafts.jsonl", bad))
    assert caught.value.problems == (
        "drafts.jsonl line 2: an earlier line annotates ID 3",
        "drafts.jsonl line 3: no ID",
        "drafts.jsonl line 4: status is 'done'; write draft or verified",
    )


def test_a_bad_line_of_the_earlier_file_is_not_taken_over(tmp_path: Path) -> None:
    bad = [VERIFIED, {"ID": 4, CAPTION: "A cat.", "status": "done"}]
    file = DraftFile(tmp_path / "drafts.jsonl", write_lines(tmp_path / "earlier.jsonl", bad))
    assert not file.copy("4")


def test_the_file_must_be_json_lines(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"name it \.jsonl"):
        DraftFile(tmp_path / "drafts.xlsx")


class TestHeld:
    def test_the_file_must_be_writable(self, tmp_path: Path) -> None:
        (tmp_path / "folder.jsonl").mkdir()
        told = pytest.raises(ConfigError, match=r"folder\.jsonl: Is a directory")
        with told, held(tmp_path / "folder.jsonl"):
            pass

    def test_a_second_holder_is_refused_until_the_first_has_let_go(self, tmp_path: Path) -> None:
        path = tmp_path / "drafts.jsonl"
        with held(path):
            told = pytest.raises(ConfigError, match=r"drafts\.jsonl: another `mmconv annotate`")
            with told, held(path):
                pass
            DraftFile(path).add("7", {CAPTION: "A dog."})
        with held(path):
            assert DraftFile(path).line("7") is not None

    def test_a_file_that_takes_the_place_of_the_first_can_be_held(self, tmp_path: Path) -> None:
        path = write_lines(tmp_path / "drafts.jsonl", [{"ID": 7}, {"ID": 5}])
        with held(path):
            DraftFile(path).arrange({"5": 0, "7": 1})
        with held(path):
            assert [line["ID"] for line in lines(path)] == [5, 7]

    @pytest.mark.parametrize("there", [False, True])
    def test_a_new_file_is_not_left_empty(self, tmp_path: Path, there: bool) -> None:
        path = tmp_path / "new" / "drafts.jsonl"
        if there:
            path.parent.mkdir()
            path.touch()
        with held(path):
            pass
        assert path.exists() == there


def test_a_line_that_is_not_json_is_refused_in_the_output_and_passed_over_before(
    tmp_path: Path,
) -> None:
    earlier = write_lines(tmp_path / "earlier.jsonl", [VERIFIED])
    with earlier.open("a", encoding="utf-8") as file:
        file.write("{'ID': 4}\n")
    with pytest.raises(DataError, match=r"earlier\.jsonl line 2: not JSON"):
        DraftFile(earlier)
    assert DraftFile(tmp_path / "drafts.jsonl", earlier).copy("3")


class TestOrder:
    """The rows are 5, 3 and 7, in this order."""

    ORDER: ClassVar = {"5": 0, "3": 1, "7": 2}

    def test_lines_are_moved_and_not_changed(self, tmp_path: Path) -> None:
        path = tmp_path / "drafts.jsonl"
        path.write_bytes(b'\xef\xbb\xbf{"ID": "07"}\r\n\n{"ID":99}\n{ "ID": 3 }\n{"ID": 5.0}')
        path.chmod(0o640)
        DraftFile(path).arrange(self.ORDER)
        assert path.read_bytes() == b'{"ID": 5.0}\n{ "ID": 3 }\n{"ID": "07"}\r\n{"ID":99}\n'
        assert path.stat().st_mode & 0o777 == 0o640
        assert [*tmp_path.iterdir()] == [path]

    def test_what_is_in_order_is_left_as_it_is(self, tmp_path: Path) -> None:
        path = tmp_path / "drafts.jsonl"
        path.write_bytes(b'{"ID": 5}\r\n\n{"ID": 7}')
        before = path.stat()
        DraftFile(path).arrange(self.ORDER)
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    @pytest.mark.parametrize("spoilt", [b"{", b"[1]", b'{"ID": "x"}', b"{}"])
    def test_a_file_that_was_spoilt_meanwhile_is_left_as_it_is(
        self, tmp_path: Path, spoilt: bytes
    ) -> None:
        file = DraftFile(write_lines(tmp_path / "drafts.jsonl", [{"ID": 7}, {"ID": 5}]))
        with file.path.open("ab") as added:
            added.write(spoilt)
        before = file.path.read_bytes()
        file.arrange(self.ORDER)
        assert file.path.read_bytes() == before

    def test_a_file_that_is_elsewhere_stays_there(self, tmp_path: Path) -> None:
        (tmp_path / "there").mkdir()
        there = write_lines(tmp_path / "there" / "drafts.jsonl", [{"ID": 7}, {"ID": 5}])
        here = tmp_path / "drafts.jsonl"
        here.symlink_to(there)
        DraftFile(here).arrange(self.ORDER)
        assert here.is_symlink()
        assert [line["ID"] for line in lines(there)] == [5, 7]
