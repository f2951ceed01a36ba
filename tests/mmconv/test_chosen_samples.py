"""A run is scored and shown by the samples that it chose, whatever its data hold today."""

import shutil
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from mmconv.core.errors import ConfigError
from tests.mmconv.riddle_desk import Desk, riddle_desk, riddles, typed


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return riddle_desk(tmp_path)


def test_no_other_sample_takes_the_place_of_one_that_is_gone(desk: Desk) -> None:
    """The store holds answers to all four riddles; a run of the first two chose 1 and 2."""
    desk.run()
    shutil.rmtree(desk.folder)
    desk.run("--limit", "2")
    before = desk.files()["scores.jsonl"]
    desk.write(*riddles()[1:])
    assert desk.refused().problems == (
        "the run had 2 samples, and there are 1 now",
        "the data no longer have 1 sample of the run: 1",
        "riddles.jsonl has changed since the run",
    )
    # a bad record is gone too, and what is wrong with it is told
    desk.write({"id": 1}, *riddles()[1:])
    _, gone, _, reason = desk.refused().problems
    assert gone.endswith("of the run: 1")
    assert reason == "riddles.jsonl line 1 (id 1) is left out now: riddle is missing"
    assert desk.listed() == ["2  free: 2 of 2 calls answered", gone]
    for sample in ("1", "3"):
        with pytest.raises(ConfigError, match=f"has no sample '{sample}'"):
            typed("show", str(desk.folder), sample)
    assert gone in typed("report", str(desk.folder))
    desk.write(*riddles())
    assert desk.score() == ""
    assert desk.files()["scores.jsonl"] == before


def test_a_sample_that_was_bad_at_the_start_stays_out_of_the_run(desk: Desk) -> None:
    desk.write({"id": 1}, *riddles()[1:])
    desk.run("--limit", "2")
    files = desk.files()
    assert desk.score() == ""
    # the tables, and what they say of left-out records, are those of the run; the report has a time
    made = [name for name in files if not name.startswith(("transcripts", "summary", "report"))]
    assert [name for name in made if desk.files()[name] != files[name]] == []
    desk.write(*riddles())
    assert desk.score() == ""
    assert desk.files()["scores.jsonl"] == files["scores.jsonl"]


ADDED = {
    (): "",
    ("--limit", "3", "--shuffle", "1"): "3 of 24 samples, drawn at random (--shuffle 1).",
    ("--sample-id", "1,4"): "2 of 24 samples, named (--sample-id).",
}


@pytest.mark.parametrize("choice", ADDED)
def test_records_that_were_added_since_are_not_scored(desk: Desk, choice: tuple[str, ...]) -> None:
    desk.run(*choice)
    before = desk.files()["scores.jsonl"]
    desk.write(*({"id": number, "riddle": "New?"} for number in range(10, 30)), *riddles())
    assert desk.score() == ""
    assert desk.files()["scores.jsonl"] == before
    assert ADDED[choice] in desk.files()["report.md"].decode()


@pytest.mark.parametrize("shard", ["1/2", "2/2"])
def test_a_shard_keeps_its_samples_where_one_is_gone(desk: Desk, shard: str) -> None:
    part = replace(desk, shard=shard)
    part.run()
    kept = {"1/2": ["3"], "2/2": ["2", "4"]}[shard]
    desk.write(*riddles()[1:])
    shown = part.listed()
    assert [line.split()[0] for line in shown if "answered" in line] == kept
    assert ("the data no longer have 1 sample of the run: 1" in shown) is (shard == "1/2")


def test_a_stopped_run_is_scored_without_what_is_gone_and_says_so(desk: Desk) -> None:
    desk.run()
    for name in ("summary.json", "transcripts.jsonl"):
        (desk.folder / name).unlink()
    desk.write(*riddles()[1:])
    desk.score()
    message = "GONE: the data no longer have 1 sample of the run: 1."
    assert message in (desk.folder / "report.md").read_text(encoding="utf-8")
    assert message in orjson.loads(desk.files()["manifest.json"])["notes"]


def test_a_run_that_goes_on_names_the_samples_that_it_no_longer_takes(desk: Desk) -> None:
    desk.run("--limit", "2")
    for name in ("manifest.json", "summary.json", "scores.jsonl", "transcripts.jsonl"):
        (desk.folder / name).unlink()
    desk.write(*riddles()[1:])
    message = f"{desk.folder}: the data no longer have 1 sample of the run: 1\n"
    assert desk.run("--limit", "2").startswith(message)
    assert "no longer" not in desk.run("--limit", "2")
    assert [line.split()[0] for line in desk.listed()] == ["2", "3"]
