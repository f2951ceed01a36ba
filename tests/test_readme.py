"""README's benchmark and model work: their text is what is checked, typed and run here."""

from pathlib import Path

import orjson
import pytest

from tests.doc_pages import README, blocks, run_example, section, write_example

BENCHMARK = section("## Add a benchmark")
MODEL = section("## Add a model")


def test_it_is_short() -> None:
    assert README.stat().st_size <= 10_000


@pytest.mark.parametrize(("text", "most"), [(BENCHMARK, 39), (MODEL, 45)])
def test_a_section_with_code_is_short(text: str, most: int) -> None:
    assert len(text.splitlines()) <= most


def test_the_benchmark_is_the_one_that_is_checked_and_typed() -> None:
    checked = Path(__file__).with_name("readme_benchmark.py")
    assert blocks(BENCHMARK, "python") == [checked.read_text(encoding="utf-8")]


def test_the_benchmark_runs(tmp_path: Path) -> None:
    write_example(BENCHMARK, tmp_path)
    output = run_example(BENCHMARK, tmp_path)
    [scores] = tmp_path.glob("runs/*/scores.jsonl")
    written = map(orjson.loads, scores.read_bytes().splitlines())
    [score] = [score for score in written if score["metric"] == "fit"]
    assert (score["sample"], score["why"]) == ("1", None)
    assert 1 <= score["value"] <= 10
    assert f"fit  {score['value']:.2f} n=1" in output
    [transcripts] = tmp_path.glob("runs/*/transcripts.jsonl")
    calls = {
        call["call"]: call for call in map(orjson.loads, transcripts.read_bytes().splitlines())
    }
    shown, *later = calls["turn_2"]["messages"]
    assert "image" in shown["parts"][0]
    assert calls["turn_1"]["messages"] == [shown]
    assert [message["role"] for message in later] == ["assistant", "user"]


def test_the_model_runs_in_the_folder_of_the_benchmark(tmp_path: Path) -> None:
    for example in (BENCHMARK, MODEL):
        write_example(example, tmp_path)
        run_example(example, tmp_path)
    assert {path.name.split("-")[0] for path in tmp_path.glob("runs/*-*")} >= {"convbench"}


def test_the_model_answers_and_a_second_run_reads_the_cache(tmp_path: Path) -> None:
    write_example(MODEL, tmp_path)
    run_example(MODEL, tmp_path)
    run_example(MODEL, tmp_path, again=True)
    [folder] = tmp_path.glob("runs/convbench-*")
    [call] = [
        call
        for call in map(orjson.loads, (folder / "transcripts.jsonl").read_bytes().splitlines())
        if call["condition"] == "free" and call["call"] == "turn_1"
    ]
    shown = "".join(part.get("text", "") for part in call["messages"][-1]["parts"])
    assert call["text"] == shown.upper() != ""
    roles = orjson.loads((folder / "summary.json").read_bytes())["models"]
    assert (roles["candidate"]["requested"], roles["candidate"]["failed"]) == (0, 0)
    assert roles["candidate"]["cached"]
