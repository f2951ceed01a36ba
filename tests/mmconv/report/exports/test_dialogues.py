"""Dialogues in the files of other tools hold what the run's own files say, failures included."""

import ast
import asyncio
import csv
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from openpyxl import load_workbook

from mmconv.cli.results import export_command
from mmconv.core.config import ModelSpec
from mmconv.core.types import Score
from mmconv.report.exports.names import score_names
from mmconv.run_folder.saved_run import read_tables
from tests.mmconv.report.runs import ALPHA, FAILING, SIZE, make_run


async def export(run: Path, tool: str) -> Path:
    """The folder that the command wrote."""
    out = run.parent.parent / tool
    arguments = [str(run), "--to", tool, "--out", str(out)]
    result = await asyncio.to_thread(CliRunner().invoke, export_command, arguments)
    assert result.exit_code == 0, result.output or result.exception
    return out


def lines(path: Path) -> list[Any]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def calls(run: Path, condition: str) -> dict[tuple[str, str], Any]:
    """The candidate's calls."""
    return {
        (call["sample"], call["call"]): call
        for call in lines(run / "transcripts.jsonl")
        if (call["model"], call["condition"]) == ("candidate", condition)
    }


def sheet(path: Path) -> list[dict[str, Any]]:
    columns, *rows = load_workbook(path).worksheets[0].iter_rows(values_only=True)
    return [dict(zip(map(str, columns), row, strict=True)) for row in rows]


async def test_lmms_eval_gets_a_file_for_each_condition(tmp_path: Path) -> None:
    run = await make_run("convbench", tmp_path)
    written = sorted((await export(run, "lmms-eval")).rglob("*.jsonl"))
    assert [path.name.partition("_samples_")[2] for path in written] == [
        f"mmconv_convbench_{condition}.jsonl" for condition in ("free", "perception", "reasoning")
    ]
    for path, condition, turns in zip(
        written, ("free", "perception", "reasoning"), ((1, 2, 3), (2, 3), (3,)), strict=True
    ):
        of_run, samples = calls(run, condition), lines(path)
        assert [sample["doc_id"] for sample in samples] == [*range(SIZE)]
        for sample in samples:
            key = sample["mmconv"]["sample"]
            texts = [of_run[key, f"turn_{turn}"]["text"] for turn in turns]
            assert sample["filtered_resps"] == (texts if len(texts) > 1 else texts[0])
    means = next(table for table in read_tables(run / "tables") if table.name == "scores")
    mean = fmean(sample["rating_2"] for sample in lines(written[0]))
    assert mean == pytest.approx(means.rows["S2"]["direct (1-10)"].value)


async def test_failed_calls_and_missing_scores_are_marked(tmp_path: Path) -> None:
    run = await make_run("convbench", tmp_path, FAILING, conditions=("free",))
    failed = {name: call for name, call in calls(run, "free").items() if call["text"] is None}
    assert failed

    [path] = (await export(run, "lmms-eval")).rglob("*.jsonl")
    for sample in lines(path):
        for call, text in zip(sample["mmconv"]["calls"], sample["filtered_resps"], strict=True):
            name = sample["mmconv"]["sample"], call["call"]
            assert (text is None) == (name in failed)
            assert call.get("problem") == (failed[name]["problem"] if name in failed else None)
            if name in failed:
                assert sample[f"rating_{call['call'][-1]}"] is None

    [book] = (await export(run, "vlmevalkit")).rglob("*.xlsx")
    predictions = {row["index"]: ast.literal_eval(row["prediction"]) for row in sheet(book)}
    marked = {
        (index, f"turn_{turn}")
        for index, texts in predictions.items()
        for turn, text in enumerate(texts, 1)
        if text.startswith("Failed to obtain answer via API.")
    }
    assert marked == failed.keys()

    [answers] = (await export(run, "mt-bench") / "model_answer").glob("*.jsonl")
    turns = [text for line in lines(answers) for text in line["choices"][0]["turns"]]
    assert sum(text.startswith("$ERROR$") for text in turns) == len(failed)


async def test_a_text_that_no_cell_of_a_spreadsheet_holds_goes_into_a_tsv(tmp_path: Path) -> None:
    long = ModelSpec(
        provider="fake", model="scripted", options={"script": {"(?s).*": "=long\t\n" * 6_000}}
    )
    run = await make_run("dialogue", tmp_path, long, limit=2)
    [path] = (await export(run, "vlmevalkit")).iterdir()
    assert path.suffix == ".tsv"
    csv.field_size_limit(10**6)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    of_run = calls(run, "free")
    assert [ast.literal_eval(row["prediction"]) for row in rows] == [
        [of_run[row["index"], f"turn_{turn}"]["text"] for turn in (1, 2)] for row in rows
    ]
    assert ast.literal_eval(rows[0]["question"]) == ["Ask 1?", "Ask 2?"]


async def test_fastchat_finds_the_means_of_the_run(tmp_path: Path) -> None:
    run = await make_run("convbench", tmp_path)
    out = await export(run, "mt-bench")
    table = next(table for table in read_tables(run / "tables") if table.name == "scores")
    judgements = lines(out / "model_judgment" / "arbiter_direct_single.jsonl")
    for row, model, turn in (("S1", "alpha-free", 1), ("S3_hat", "alpha-perception", 3)):
        mean = fmean(
            line["score"]
            for line in judgements
            if (line["model"], line["turn"]) == (model, turn) and line["score"] != -1
        )
        assert mean == pytest.approx(table.rows[row]["direct (1-10)"].value)
    questions = lines(out / "question.jsonl")
    assert [question["question_id"] for question in questions] == [*range(1, SIZE + 1)]
    assert {len(question["turns"]) for question in questions} == {3}
    labels = {
        line["label"]
        for path in out.glob("model_judgment/*pairwise*")
        for line in lines(path)
        if line["score"] == -1
    }
    assert labels >= {"A", "B"}


async def test_trials_are_choices(tmp_path: Path) -> None:
    run = await make_run("fbbench", tmp_path, ALPHA, trials=2, limit=3)
    for path in (await export(run, "mt-bench") / "model_answer").glob("*.jsonl"):
        for line in lines(path):
            assert [choice["index"] for choice in line["choices"]] == [0, 1]


def test_scores_whose_names_would_be_equal_are_numbered() -> None:
    given: list[tuple[str, int | None, dict[str, str]]] = [
        ("fit", None, {"model": "qwen2.5-7b"}),
        ("fit", None, {"model": "qwen2-5-7b"}),
        ("length", 1, {}),
        ("length_1", None, {}),
        ("length_1_2", None, {}),
    ]
    scores = [
        Score(sample="1", condition="free", metric=metric, turn=turn, tags=tags, value=1.0)
        for metric, turn, tags in given
    ]
    assert score_names(scores) == [
        *("fit_qwen2_5_7b", "fit_qwen2_5_7b_2"),
        *("length_1", "length_1_2", "length_1_2_2"),
    ]
