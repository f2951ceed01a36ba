"""Replies that exist already: of a run, exported and read again, and of other tools."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from openpyxl import Workbook

from mmconv.cli.results import export_command
from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, DataError
from model_zoo import replay_formats
from tests.mmconv.report.runs import ALPHA, FAILING, make_run

FREE: dict[str, Any] = {"conditions": ("free",)}


async def replayed(path: Path, folder: Path, benchmark: str = "dialogue", **fields: Any) -> Path:
    """The run in which these files are the candidate."""
    model = ModelSpec(provider="replay", model=str(path), name="alpha")
    return await make_run(benchmark, folder, model, **fields)


def scores(run: Path) -> list[Any]:
    """All scores without the reasons of missing ones: a failed call fails differently here."""
    read = map(orjson.loads, (run / "scores.jsonl").read_bytes().splitlines())
    return [{name: value for name, value in score.items() if name != "why"} for score in read]


def texts(run: Path) -> dict[tuple[str, str], str | None]:
    """The candidate's texts by sample and call."""
    read = map(orjson.loads, (run / "transcripts.jsonl").read_bytes().splitlines())
    return {
        (call["sample"], call["call"]): call["text"]
        for call in read
        if call["model"] == "candidate"
    }


def write_lines(path: Path, *records: Any) -> Path:
    path.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return path


def write_book(path: Path, *rows: tuple[Any, ...]) -> Path:
    book = Workbook()
    for row in rows:
        book.worksheets[0].append(row)
    book.save(path)
    return path


@pytest.mark.parametrize(
    ("tool", "benchmark", "candidate", "trials"),
    [
        ("lmms-eval", "convbench", FAILING, 1),
        ("lmms-eval", "fbbench", ALPHA, 2),
        ("vlmevalkit", "convbench", FAILING, 1),
        ("vlmevalkit", "botchat", ALPHA, 1),
    ],
)
async def test_an_exported_run_has_equal_scores_when_it_is_replayed(
    tool: str, benchmark: str, candidate: ModelSpec, trials: int, tmp_path: Path
) -> None:
    run = await make_run(benchmark, tmp_path, candidate, trials=trials)
    arguments = [str(run), "--to", tool, "--out", str(tmp_path / "out")]
    result = await asyncio.to_thread(CliRunner().invoke, export_command, arguments)
    assert result.exit_code == 0, result.exception
    folders = {path.parent for path in (tmp_path / "out").rglob("*.*") if path.is_file()}
    again = await replayed(folders.pop(), tmp_path, benchmark, trials=trials)
    assert not folders
    assert again.name != run.name
    assert scores(again) == scores(run)


async def test_a_run_is_replayed_from_its_folder(tmp_path: Path) -> None:
    run = await make_run("convbench", tmp_path)
    assert scores(await replayed(run, tmp_path, "convbench")) == scores(run)


async def test_samples_of_lmms_eval_are_matched_by_id_and_question(tmp_path: Path) -> None:
    lines = [
        {"doc_id": 0, "id": "1", "filtered_resps": ["one", "two"], "input": "Look.\nAsk 1?"},
        {"doc_id": 2, "filtered_resps": ["three", None], "input": "Ask 1?", "accuracy": 1.0},
    ]
    run = await replayed(write_lines(tmp_path / "a.jsonl", *lines), tmp_path, limit=3, **FREE)
    assert texts(run) == {
        ("1", "turn_1"): "one",
        ("1", "turn_2"): "two",
        ("2", "turn_1"): "three",
        ("2", "turn_2"): None,
        ("3", "turn_1"): None,
        ("3", "turn_2"): None,
    }


async def test_predictions_of_vlmevalkit_are_matched_by_index(tmp_path: Path) -> None:
    book = write_book(
        tmp_path / "model_dataset.xlsx",
        ("index", "question", "prediction"),
        (1, "['<ImageHere>Ask 1?', 'Ask 2?']", "['a \"b\"', 'Failed to obtain answer via API.x']"),
        (2.0, "['Ask 1?', 'Ask 2?']", '["it\'s", "=c\\n"]'),
    )
    assert texts(await replayed(book, tmp_path, limit=2, **FREE)) == {
        ("1", "turn_1"): 'a "b"',
        ("1", "turn_2"): None,
        ("2", "turn_1"): "it's",
        ("2", "turn_2"): "=c\n",
    }


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            {"doc_id": 1, "filtered_resps": ["a", "b"], "input": "What?"},
            "the question 'What?' is not that of turn_1 of sample 1: 'Ask 1?'",
        ),
        (
            {"doc_id": 1, "filtered_resps": "a"},
            "1 replies, but sample 1 has 2 calls under the condition free: turn_1, turn_2",
        ),
        ({"doc_id": 1, "filtered_resps": [["a"]]}, "filtered_resps must be a text or a list"),
        ({"filtered_resps": "a"}, "must have doc_id"),
        ({"filtered_resps": "a", "mmconv": {"sample": 1}}, "mmconv must have sample, condition"),
        ({"sample": 1}, "must have sample, call and text"),
    ],
)
async def test_a_wrong_line_is_named(line: Any, problem: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", line)
    with pytest.raises(DataError) as caught:
        await replayed(path, tmp_path, **FREE)
    assert caught.value.where == "a.jsonl line 1"
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ((1, "['Ask 1?', 'Ask 2?']", "['a', 'b"), "1 replies, but sample 1 has 2 calls"),
        ((1, "['Ask 1?', 'Ask 2?']", "['a', b]"), "prediction is not a list of texts"),
        ((1, "['Ask 2?', 'Ask 1?']", "['a', 'b']"), "the question 'Ask 2?' is not that of"),
        ((None, "", "['a']"), "index is missing"),
    ],
)
async def test_a_wrong_row_is_named(row: tuple[Any, ...], problem: str, tmp_path: Path) -> None:
    book = write_book(tmp_path / "a.xlsx", ("index", "question", "prediction"), row)
    with pytest.raises(DataError) as caught:
        await replayed(book, tmp_path, **FREE)
    assert caught.value.where == "a.xlsx row 2"
    assert problem in str(caught.value)


async def test_a_damaged_spreadsheet_is_refused(tmp_path: Path) -> None:
    book = tmp_path / "a.xlsx"
    book.write_bytes(b"<html>")
    with pytest.raises(DataError, match="not a spreadsheet"):
        await replayed(book, tmp_path, **FREE)


async def test_a_sample_that_two_files_have_is_refused(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        write_lines(files / name, {"doc_id": 1, "filtered_resps": ["a", "b"]})
    with pytest.raises(DataError, match=r"sample 1 is also in a.jsonl line 1"):
        await replayed(files, tmp_path, **FREE)


async def test_a_folder_without_replies_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a file of replies; name a file"):
        await replayed(tmp_path, tmp_path / "work")


async def test_inspect_logs_need_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_formats, "find_spec", lambda _: None)
    (tmp_path / "a.eval").touch()
    with pytest.raises(ConfigError, match="pip install inspect-ai"):
        await replayed(tmp_path / "a.eval", tmp_path)
