"""The file of drafts: which lines are refused, its lock, its order."""

import json
from pathlib import Path
from typing import Any

import pytest

from mmconv.benchmarks.base.review import held
from mmconv.benchmarks.convbench.data import CAPTION, REFERENCES, Row
from mmconv.benchmarks.convbench.drafts import Drafts
from mmconv.core.errors import ConfigError, DataError
from tests.mmconv.benchmarks.convbench.data_files import write_lines
from tests.mmconv.benchmarks.convbench.rows import ROW

VERIFIED = {"ID": 3, CAPTION: "A kite.", REFERENCES[0]: "one", "status": "verified"}
BAD: list[dict[str, Any]] = [VERIFIED, VERIFIED, {CAPTION: "Whose?"}, {"ID": 4, "status": "done"}]


def rows(*ids: int) -> list[Row]:
    """Rows that lack nothing."""
    whole = {"categories": ("OCR", "Age Reasoning", "Navigation")}
    return [ROW.model_copy(update={"id": str(row_id), **whole}) for row_id in ids]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_bad_lines_are_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "drafts.jsonl", BAD)
    with path.open("a", encoding="utf-8") as file:
        file.write("{'ID': 5}\n")
    with pytest.raises(DataError) as caught:
        Drafts(path, None, [])
    *problems, not_json = caught.value.problems
    assert problems == [
        "drafts.jsonl line 2 (ID 3): drafts.jsonl line 1 annotates this ID already",
        "drafts.jsonl line 3: no ID",
        "drafts.jsonl line 4 (ID 4): status is 'done'; write draft or verified",
    ]
    assert not_json.startswith("drafts.jsonl line 5: not JSON")


def test_of_the_earlier_file_good_lines_are_taken_over(tmp_path: Path) -> None:
    earlier = write_lines(tmp_path / "earlier.jsonl", BAD)
    drafts = Drafts(tmp_path / "drafts.jsonl", earlier, rows(3, 4))
    drafts.copy_whole()
    assert lines(drafts.path) == [VERIFIED]


def test_a_second_holder_is_refused_until_the_first_has_let_go(tmp_path: Path) -> None:
    path = tmp_path / "new" / "drafts.jsonl"
    with held(path):
        refused = pytest.raises(ConfigError, match=r"drafts\.jsonl: another `mmconv annotate`")
        with refused, held(path):
            pass
    assert not path.exists()  # it is not left empty
    write_lines(path, [{"ID": 7}, {"ID": 5}])
    with held(path):
        Drafts(path, None, rows(5, 7)).sort()
    with held(path):
        assert [line["ID"] for line in lines(path)] == [5, 7]


def test_lines_are_moved_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "drafts.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"ID": "07"}\n\n{"ID":99}\n{ "ID": 3 }\n{"ID": 5.0}')
    drafts = Drafts(path, None, rows(5, 3, 7))
    with path.open("ab") as file:  # spoilt meanwhile
        file.write(b"\n{")
    drafts.sort()
    assert path.read_bytes() == b'{"ID": 5.0}\n{ "ID": 3 }\n{"ID": "07"}\n{"ID":99}\n{\n'
