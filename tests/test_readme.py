"""The README's own benchmark is a real one: its text is what is checked, typed and run here."""

from __future__ import annotations

from pathlib import Path

import orjson

from tests.readme_section import block, section, type_commands, write_example

SECTION = section("### Add a benchmark")
LINES = 40


def test_the_section_is_short() -> None:
    assert len(SECTION.splitlines()) < LINES


def test_the_example_is_the_one_that_is_checked_and_typed() -> None:
    checked = Path(__file__).with_name("readme_benchmark.py")
    assert block(SECTION, "python") == checked.read_text(encoding="utf-8")


def test_the_example_runs_as_the_readme_says(tmp_path: Path) -> None:
    """Its Python goes where the text says, and its commands are typed in a shell."""
    write_example(SECTION, tmp_path)
    told = type_commands(SECTION, tmp_path)
    [scores] = tmp_path.glob("runs/*/scores.jsonl")
    [score] = map(orjson.loads, scores.read_bytes().splitlines())
    assert (score["sample"], score["metric"], score["why"]) == ("1", "fit", None)
    assert 1 <= score["value"] <= 10
    assert f"fit  {score['value']:.2f} n=1" in told
    [transcripts] = tmp_path.glob("runs/*/transcripts.jsonl")
    calls = {
        call["call"]: call for call in map(orjson.loads, transcripts.read_bytes().splitlines())
    }
    shown, *later = calls["turn_2"]["messages"]
    assert "image" in shown["parts"][0]
    assert calls["turn_1"]["messages"] == [shown]
    assert [message["role"] for message in later] == ["assistant", "user"]
