"""A ConvBench with bad records, as a user meets it on the command line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from images import ImageStore
from mmconv.benchmarks.convbench.metrics import OFFICIAL, PAIRWISE
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import DataError
from mmconv.engine.setup import build_benchmark
from tests.drawn_data import write_scenes
from tests.mmconv.processes import typed


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Four drawn rows, of which the second lost its image, and an annotation of no row."""

    data: Path
    images: Path
    notes: Path
    out: Path

    def run(self, *more: str) -> str:
        """What `mmconv run` prints; raises what stops it."""
        files = ["--data", str(self.data), "--images", str(self.images)]
        roles = ["--candidate", "fake/echo", "--judge", "fake/judge"]
        notes = ["--annotations", str(self.notes), "--out", str(self.out), "--no-page"]
        result = typed("run", "convbench", *files, *roles, *notes, *more)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    def written(self, name: str) -> dict[str, Any]:
        """A JSON file of the run's folder."""
        [path] = self.out.glob(f"convbench-*/{name}")
        found: dict[str, Any] = orjson.loads(path.read_bytes())
        return found


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    data, images = write_scenes(tmp_path / "scenes", 4)
    second = orjson.loads(data.read_bytes().splitlines()[1])
    (images / second["image_id"]).unlink()
    notes = tmp_path / "notes.jsonl"
    notes.write_text('{"ID": 99, "third_turn_demands": "1. Whose?"}\n')
    return Desk(data=data, images=images, notes=notes, out=tmp_path / "runs")


IMAGE = "data.jsonl line 2 (ID 2)"
NOTE = "notes.jsonl line 1 (ID 99)"
WRONG = {NOTE: "no row has this ID", IMAGE: "image scene_00002.png is not in images"}


def test_bad_records_stop_a_run_before_anything_is_asked(desk: Desk) -> None:
    with pytest.raises(DataError) as caught:
        desk.run()
    assert caught.value.problems == tuple(map(": ".join, WRONG.items()))
    assert "--skip-bad-records continues with the 3 good records." in str(caught.value)
    assert not list(desk.out.glob("convbench-*"))


def test_a_run_goes_on_without_them_and_lists_them(desk: Desk) -> None:
    output = " ".join(desk.run("--skip-bad-records").split())
    assert (
        "1 of 4 records is left out as bad (--skip-bad-records): see the table left_out." in output
    )
    assert f"Unused annotations and columns: 1, e.g. {NOTE}: {WRONG[NOTE]}." in output
    assert "see the table left_out" in output
    assert desk.written("manifest.json")["provenance"]["left_out"] == [
        {"where": where, "reasons": [fault]} for where, fault in WRONG.items()
    ]
    rows = desk.written("tables/left_out.json")["rows"]
    assert {where: row["what is wrong"]["value"] for where, row in rows.items()} == WRONG


def test_unused_files_and_columns_are_named(desk: Desk, tmp_path: Path) -> None:
    desk.notes.write_text('{"ID": 1, "third turn demands": "1. Is it short?"}\n')
    np.save(tmp_path / "pairwise.npy", np.zeros(4))
    positions = ["--set", f"options.positions={tmp_path / 'pairwise.npy'}"]
    output = " ".join(desk.run("--skip-bad-records", *positions).split())
    renamed = "nothing reads the column 'third turn demands'; rename it to 'third_turn_demands'"
    assert f"notes.jsonl: {renamed}" in output
    assert "The file of sides (positions) was not used: only order: authors reads it" in output


def test_a_limited_run_is_a_part_of_the_data(desk: Desk) -> None:
    """The authors' constant counts all rows, those that are not looked at included."""
    desk.notes.write_text('{"ID": 2, "third_turn_demands": "1. Is it short?"}\n')
    output = " ".join(desk.run("--limit", "1").split())
    assert "its constant, 4, counts all rows, of which this run has 1" in output
    assert "left out as bad" not in output
    assert desk.written("manifest.json")["provenance"]["rows"] == 1
    output = " ".join(desk.run("--sample-id", "3").split())
    assert "its constant, 4, counts all rows, of which this run has 1" in output


def test_the_authors_count_rows_that_were_left_out_as_lost(desk: Desk) -> None:
    desk.run("--skip-bad-records", "--grading", "pairwise")
    table = desk.written("tables/scores.json")
    assert any("wins over 4; " in note and "1 left out as bad" in note for note in table["notes"])
    rates = [
        [table["rows"][name][column]["value"] for column in (PAIRWISE.group.title, OFFICIAL)]
        for name in ("S1", "S2", "S3", "S0")
    ]
    assert any(ours for ours, _ in rates)
    assert all(theirs == pytest.approx(ours * 3 / 4) for ours, theirs in rates)


def test_creation_turns_that_are_judged_without_focus_points_are_counted(desk: Desk) -> None:
    lines = [orjson.loads(line) for line in desk.data.read_bytes().splitlines()]
    (desk.images / lines[1]["image_id"]).write_bytes(
        (desk.images / lines[0]["image_id"]).read_bytes()
    )
    answers = {
        name: value for name, value in lines[3].items() if name in ("ID", "third_turn_answer")
    }
    desk.notes.write_bytes(orjson.dumps(answers))
    for line in lines[:2]:
        line["third_turn_demands"] = ""
    desk.data.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    missing = "2 of 4 rows without focus points: their creation turns are judged without them."
    assert missing in " ".join(desk.run().split())
    for unasked in (("--no-judge",), ("--set", "options.focus_points=false")):
        assert "focus points" not in desk.run(*unasked)


@pytest.mark.parametrize(("drafts", "words"), [(1, "is a draft"), (2, "are drafts")])
def test_drafts_that_are_allowed_are_counted(tmp_path: Path, drafts: int, words: str) -> None:
    data, images = write_scenes(tmp_path, 3)
    rows = [orjson.loads(line) for line in data.read_bytes().splitlines()]
    rows = [row | {"status": "draft"} for row in rows[:drafts]] + rows[drafts:]
    data.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    spec = RunSpec(
        benchmark="convbench",
        options={"data": str(data), "images": str(images), "allow_drafts": True},
        models={role: ModelSpec(provider="fake", model="echo") for role in ("candidate", "judge")},
    )
    notes = build_benchmark(spec, ImageStore()).notes
    assert f"{drafts} of 3 rows {words} that no person has verified." in notes
