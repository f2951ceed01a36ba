"""The README's model of one's own is a real one: its text is what is run here."""

from __future__ import annotations

from pathlib import Path

import orjson

from tests.readme_section import section, type_commands, write_example

SECTION = section("### Add a model")
LINES = 30


def test_the_section_is_short() -> None:
    assert len(SECTION.splitlines()) <= LINES


def test_the_example_runs_where_the_benchmark_example_ran_before(tmp_path: Path) -> None:
    for each in (section("### Add a benchmark"), SECTION):
        write_example(each, tmp_path)
        type_commands(each, tmp_path)
    assert {path.name.split("-")[0] for path in tmp_path.glob("runs/*-*")} >= {"convbench"}


def test_the_example_runs_as_the_readme_says(tmp_path: Path) -> None:
    """Its Python goes where the text says, and its command is typed in a shell, twice."""
    write_example(SECTION, tmp_path)
    type_commands(SECTION, tmp_path)
    type_commands(SECTION, tmp_path, again=True)
    [folder] = tmp_path.glob("runs/convbench-*")
    [asked] = [
        call
        for call in map(orjson.loads, (folder / "transcripts.jsonl").read_bytes().splitlines())
        if call["condition"] == "free" and call["call"] == "turn_1"
    ]
    shown = "".join(part.get("text", "") for part in asked["messages"][-1]["parts"])
    assert asked["text"] == shown.upper() != ""
    seats = orjson.loads((folder / "summary.json").read_bytes())["seats"]
    assert (seats["candidate"]["asked"], seats["candidate"]["failed"]) == (0, 0)
    assert seats["candidate"]["stored"]
