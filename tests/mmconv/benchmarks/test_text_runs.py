"""Whole runs of the four text benchmarks: the authors' files, a tiny model, a judge of no use."""

from pathlib import Path
from typing import Any, TypeAlias

import pytest

from mmconv.benchmarks.mtbench101 import MINIMUM_TITLE
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.types import Cell
from mmconv.engine.run import Result
from mmconv.run_folder.saved_run import read_scores
from tests.mmconv.benchmarks.botchat.samples import SPEAKER
from tests.mmconv.report.runs import evaluate, write_data

BENCHMARKS = ("botchat", "cmteval", "fbbench", "mtbench101")
JUDGE = ModelSpec(provider="fake", model="judge")
ECHO = ModelSpec(provider="fake", model="echo", name="me")

SCORES = {
    "botchat": ("gteval", "me", "win+tie"),
    "cmteval": ("scores", "me, standard", "DLS"),
    "fbbench": ("scores", "me", "overall"),
    "mtbench101": ("scores", "average", MINIMUM_TITLE),
}
TOKENS = {
    "botchat": ("lengths", "me", "tokens"),
    "cmteval": ("replies", "me, hard", "tokens"),
    "fbbench": ("answers", "Error Correction", "tokens"),
    "mtbench101": ("answers", "SI", "tokens"),
}
"""Benchmark -> the table, row and column of the main score, and of the lengths of answers."""

Place: TypeAlias = tuple[str, str, str]


def spec(benchmark: str, folder: Path, candidate: ModelSpec = ECHO, **fields: Any) -> RunSpec:
    models = {"candidate": candidate, "judge": JUDGE} | fields.pop("models", {})
    options = write_data(benchmark, folder / "data") | fields.pop("options", {})
    return RunSpec(benchmark=benchmark, options=options, models=models, **fields)


def cell(result: Result, place: Place) -> Cell:
    name, row, column = place
    [table] = [table for table in result.tables if table.name == name]
    return table.rows[row][column]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> ModelSpec:
    """A checkpoint of a language model of random weights."""
    pytest.importorskip("transformers", reason="needs the extra hf")
    from tests.tiny_checkpoints import make_checkpoint

    folder = make_checkpoint("qwen2", tmp_path_factory.mktemp("tiny") / "qwen2")
    return ModelSpec(provider="hf", model=str(folder), name="me")


@pytest.mark.parametrize(
    ("benchmark", "answers", "judgements", "scored"),
    [
        ("botchat", 2 * 4, 2 * 3, 2 * 2),
        ("cmteval", 2 * 3, 2, 2),
        ("fbbench", 2, 2, 2),
        ("mtbench101", 2 + 3, 2 + 3, 2),
    ],
)
async def test_a_language_model_answers_and_is_judged(
    tmp_path: Path, tiny: ModelSpec, benchmark: str, answers: int, judgements: int, scored: int
) -> None:
    options: dict[str, Any] = {"max_tokens": 8}
    options |= {"utterances": 6} if benchmark == "botchat" else {}
    options |= {"subsets": ["hard"]} if benchmark == "cmteval" else {}
    result = await evaluate(spec(benchmark, tmp_path, tiny, options=options, limit=2), tmp_path)
    roles = result.stats.models
    assert (roles["candidate"].ended, roles["judge"].ended) == (answers, judgements)
    assert [role.failed + role.skipped for role in roles.values()] == [0, 0]
    table, row, column = SCORES[benchmark]
    assert cell(result, (table, row.replace("standard", "hard"), column)).n == scored
    tokens = cell(result, TOKENS[benchmark])
    assert tokens.n
    assert 0 < float(tokens.value or 0) <= 8


@pytest.mark.parametrize("benchmark", BENCHMARKS)
async def test_interrupted_and_resumed_equals_uninterrupted(tmp_path: Path, benchmark: str) -> None:
    is_botchat = benchmark == "botchat"
    rival, options = (
        {"rival": SPEAKER} if is_botchat else {},
        {"utterances": 5} if is_botchat else {},
    )
    whole = spec(benchmark, tmp_path, models=rival, options=options, limit=6)
    expected = await evaluate(whole, tmp_path / "whole")
    half = await evaluate(whole.model_copy(update={"limit": 3}), tmp_path / "parts")
    resumed = await evaluate(whole, tmp_path / "parts")
    assert resumed.tables == expected.tables
    scores = [[*read_scores(each.folder / "scores.jsonl")] for each in (resumed, expected)]
    assert sorted(map(repr, scores[0])) == sorted(map(repr, scores[1]))
    for role, stats in half.stats.models.items():
        assert stats.requested
        assert (
            resumed.stats.models[role].requested + stats.requested
            == expected.stats.models[role].requested
        )


@pytest.mark.parametrize(
    ("benchmark", "requests"),
    [("botchat", 2 * 3 * 2), ("cmteval", 2 * 2), ("fbbench", 2 * 3), ("mtbench101", 5 * 2)],
)
async def test_unread_judges_score_nothing(tmp_path: Path, benchmark: str, requests: int) -> None:
    unreadable = {"judge": JUDGE.model_copy(update={"model": "unreadable"})}
    result = await evaluate(spec(benchmark, tmp_path, models=unreadable, limit=2), tmp_path)
    assert result.stats.models["judge"].requested == requests
    score = cell(result, SCORES[benchmark])
    assert (score.value, score.n) == (None, 0)
    assert set(score.missing) == {"unparsed"}
