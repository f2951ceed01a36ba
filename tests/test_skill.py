"""The commands of SKILL.md, for coding agents, work as they are written there."""

import re
from pathlib import Path

import orjson

from mmconv.run_folder.transcripts import CallRecord, ScoreRecord
from tests.doc_pages import ROOT, run_example

SKILL = ROOT / "mmconv" / "SKILL.md"


def test_the_first_commands_run_and_the_files_are_as_described(tmp_path: Path) -> None:
    text = SKILL.read_text(encoding="utf-8")
    output = run_example(text, tmp_path)
    [run] = tmp_path.glob("runs/scenes-echo-*")
    for name in re.findall(r"`([\w.]+\.jsonl?)`", text):
        assert (run / name).exists() or (run / "tables" / name).exists(), name
    [exported] = tmp_path.glob("exported/echo/*_samples_mmconv_scenes_free.jsonl")
    assert exported.name in output

    table = orjson.loads((run / "tables/index.json").read_bytes())[0]
    rows = orjson.loads((run / "tables" / f"{table}.json").read_bytes())["rows"]
    cell = next(iter(rows["S1"].values()))
    assert cell.keys() >= {"value", "n", "missing", "low", "high"}


def test_it_is_short_and_names_fields_that_exist() -> None:
    text = SKILL.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 90
    assert text.startswith("---\nname: mmconv\ndescription: ")
    [scores] = re.findall(r"^\| `scores.jsonl` \| (.*) \|$", text, re.MULTILINE)
    assert {*re.findall(r"`(\w+)`", scores)} <= ScoreRecord.model_fields.keys()
    [calls] = re.findall(r"^\| `transcripts.jsonl` \| (.*) \|$", text, re.MULTILINE)
    assert {*re.findall(r"`(\w+)`", calls)} <= CallRecord.model_fields.keys()
