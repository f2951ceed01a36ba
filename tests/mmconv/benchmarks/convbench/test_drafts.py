import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from mmconv.benchmarks.convbench.data import CAPTION, REFERENCES
from mmconv.benchmarks.convbench.drafts import DraftFile, held
from mmconv.core.errors import ConfigError, DataError
from tests.mmconv.benchmarks.convbench.data_files import write_lines

VERIFIED = {"ID": 3, CAPTION: "A kite.", REFERENCES[0]: "one", "status": "verified"}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


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
        "drafts.jsonl line 2 (ID 3): drafts.jsonl line 1 annotates this ID already",
        "drafts.jsonl line 3: no ID",
        "drafts.jsonl line 4: status is 'done'; write draft or verified",
    )


def test_a_bad_line_of_the_earlier_file_is_not_taken_over(tmp_path: Path) -> None:
    bad = [VERIFIED, {"ID": 4, CAPTION: "A cat.", "status": "done"}]
    file = DraftFile(tmp_path / "drafts.jsonl", write_lines(tmp_path / "earlier.jsonl", bad))
    assert not file.copy("4")


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
