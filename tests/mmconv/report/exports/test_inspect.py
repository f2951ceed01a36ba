"""A run as a log of Inspect: written, read back by Inspect, and equal to what the run says.

Skipped where the package inspect-ai is not installed.
"""

from __future__ import annotations

import asyncio
import math
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from click.testing import CliRunner

from mmconv.cli.results import export_command as command
from mmconv.core.config import ModelSpec
from mmconv.core.errors import DataError
from mmconv.core.keys import hash_bytes
from mmconv.run_folder.saved_run import read_tables
from tests.mmconv.report.runs import ALPHA, FAILING, SIZE, make_run

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample

pytest.importorskip("inspect_ai", reason="the package inspect-ai is not installed")


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands go to the folder of the run; Inspect writes its traces into a home of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))


def export(run: Path, out: Path) -> EvalLog:
    from inspect_ai.log import read_eval_log

    result = CliRunner().invoke(command, [str(run), "--to", "inspect", "--out", str(out)])
    assert result.exit_code == 0, result.output or result.exception
    return read_eval_log(str(out), resolve_attachments=True)


def samples(log: EvalLog) -> dict[str, EvalSample]:
    return {str(sample.id): sample for sample in log.samples or []}


def texts(sample: EvalSample) -> list[tuple[str, str | None, str]]:
    return [(message.role, message.source, message.text) for message in sample.messages]


@pytest.fixture(name="log")
async def _log(tmp_path: Path) -> Any:
    run = await make_run("convbench", tmp_path, options={"order": "random"})
    return run, await _in_thread(run, tmp_path / "logs" / "run.eval")


async def _in_thread(run: Path, out: Path) -> EvalLog:
    # the command has an event loop of its own
    return await asyncio.to_thread(export, run, out)


async def test_every_sample_under_every_condition_is_there(log: Any) -> None:
    run, made = log
    assert made.status == "success"
    assert (made.eval.task, made.eval.model) == ("mmconv/convbench", "alpha")
    assert made.eval.run_id == run.name
    assert samples(made).keys() == {
        f"{number} {condition}"
        for number in range(1, SIZE + 1)
        for condition in ("free", "perception", "reasoning")
    }


async def test_given_turns_are_told_from_the_models_own(log: Any) -> None:
    _, made = log
    found = samples(made)["1 perception"]
    references = found.metadata["record"]["references"]
    assert found.target == references
    roles = [(role, source) for role, source, _ in texts(found)]
    assert roles == [
        ("user", "input"),
        ("assistant", "input"),
        ("user", "input"),
        ("assistant", "generate"),
        ("user", "input"),
        ("assistant", "generate"),
    ]
    assert texts(found)[1][2] == references[0]
    assert found.messages[1].metadata == {"turn": "reference"}
    assert len(found.input) == 3
    assert found.output.completion == texts(found)[-1][2]


async def test_the_picture_is_in_the_log_to_the_byte(log: Any) -> None:
    _, made = log
    found = samples(made)["2 free"]
    picture = found.messages[0].content[0]
    head, _, data = picture.image.partition(",")
    assert head == "data:image/png;base64"
    assert hash_bytes(b64decode(data)) == found.metadata["record"]["image"]["sha256"]


async def test_means_are_those_of_the_runs_tables(log: Any) -> None:
    run, made = log
    scores = next(table for table in read_tables(run / "tables") if table.name == "scores")
    means = {score.name: score.metrics for score in made.results.scores}
    for name, score, condition in (
        ("S1", "rating_1", "free"),
        ("S2_hat", "rating_2", "perception"),
        ("S0_tilde", "rating_overall", "reasoning"),
    ):
        value = scores.rows[name]["direct (1-10)"].value
        assert means[score][condition].value == pytest.approx(value)
    wins = scores.rows["S3"]["pairwise win rate (%)"].value
    assert 100 * means["win_3"]["free"].value == pytest.approx(wins)


async def test_a_score_is_explained_by_the_judgement_that_it_was_read_from(log: Any) -> None:
    run, made = log
    found = samples(made)["3 free"]
    lines = (run / "transcripts.jsonl").read_bytes().splitlines()
    calls = {
        call["call"]: call
        for call in map(orjson.loads, lines)
        if (call["sample"], call["condition"]) == ("3", "free")
    }
    for turn in (1, 2, 3):
        score = found.scores[f"rating_{turn}"]
        assert score.metadata["judgements"] == [f"direct/turn_{turn}"]
        assert score.explanation == calls[f"direct/turn_{turn}"]["rationale"]
    assert found.scores["rating_overall"].metadata["judgements"] == ["direct/overall"]


async def test_every_call_is_an_event_with_its_tokens(log: Any) -> None:
    run, made = log
    found = samples(made)["1 free"]
    judged = [event for event in found.events if event.role == "judge"]
    assert len(found.events) - len(judged) == 3
    assert len(judged) == 8
    spent = orjson.loads((run / "summary.json").read_bytes())["models"]
    for role in ("candidate", "judge"):
        assert made.stats.role_usage[role].output_tokens == spent[role]["total_output_tokens"]


async def test_failures_are_errors_and_what_they_leave_out_is_unscored(tmp_path: Path) -> None:
    run = await make_run("convbench", tmp_path, FAILING)
    made = await _in_thread(run, tmp_path / "failing.eval")
    failed = [sample for sample in samples(made).values() if sample.error]
    assert failed
    for sample in failed:
        assert "made to fail" in sample.error.message
        unscored = [score for score in sample.scores.values() if math.isnan(score.as_float())]
        assert unscored
        assert all(score.reason for score in unscored)
    counts = {score.name: score for score in made.results.scores}
    assert counts["rating_1"].unscored_samples + counts["rating_1"].scored_samples == SIZE


async def test_trials_are_epochs(tmp_path: Path) -> None:
    run = await make_run("fbbench", tmp_path, ALPHA, trials=2, limit=3)
    made = await _in_thread(run, tmp_path / "trials.eval")
    assert made.eval.config.epochs == 2
    assert sorted(sample.epoch for sample in made.samples) == [1, 1, 1, 2, 2, 2]
    assert len({sample.id for sample in made.samples}) == 3


@pytest.mark.parametrize("benchmark", ["botchat", "cmteval", "fbbench", "mtbench101"])
async def test_text_benchmarks_are_exported_and_read_back(benchmark: str, tmp_path: Path) -> None:
    run = await make_run(benchmark, tmp_path)
    made = await _in_thread(run, tmp_path / "text.eval")
    lines = (run / "transcripts.jsonl").read_bytes().splitlines()
    plans = {(call["sample"], call["condition"]) for call in map(orjson.loads, lines)}
    assert len(made.samples) == len(plans) > 0
    for sample in made.samples:
        assert sample.messages[-1].source == "generate"
        assert sample.scores
        # names must do as variables of the viewer's filter
        assert all(name.isidentifier() for name in sample.scores)


async def test_a_replayed_log_has_equal_scores(tmp_path: Path) -> None:
    run = await make_run("convbench", tmp_path, FAILING)
    await _in_thread(run, tmp_path / "run.eval")
    again = await make_run("convbench", tmp_path, replay(tmp_path / "run.eval"))
    assert scores(again) == scores(run)


async def test_a_log_of_another_task_is_replayed(tmp_path: Path) -> None:
    """Replies of a failed sample are kept; what it did not answer is missing."""
    from inspect_ai.log import EvalError, EvalLog, EvalSample, write_eval_log
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser

    run = await make_run("fbbench", tmp_path, limit=1)
    log = await _in_thread(run, tmp_path / "fbbench.eval")
    error = EvalError(message="timeout", traceback="", traceback_ansi="")

    def dialogue(name: int, *texts: str, failed: bool = False) -> EvalSample:
        messages: list[Any] = []
        for turn, text in enumerate(texts, 1):
            messages += [
                ChatMessageUser(content=f"Ask {turn}?"),
                ChatMessageAssistant(content=text, source="generate"),
            ]
        if failed:
            messages.append(ChatMessageUser(content=f"Ask {len(texts) + 1}?"))
        sample = EvalSample(id=name, epoch=1, input="", target="", messages=messages)
        return sample.model_copy(update={"error": error if failed else None})

    other = [dialogue(1, "one", "x" * 5_000), dialogue(2, "three", failed=True)]
    path = tmp_path / "other.eval"
    made = EvalLog(eval=log.eval, samples=other)
    await asyncio.to_thread(write_eval_log, made, str(path))
    run = await make_run("dialogue", tmp_path, replay(path), limit=2, conditions=("free",))
    lines = map(orjson.loads, (run / "transcripts.jsonl").read_bytes().splitlines())
    texts = [call["text"] for call in lines if call["model"] == "candidate"]
    assert texts == ["one", "x" * 5_000, "three", None]


def replay(path: Path) -> ModelSpec:
    return ModelSpec(provider="replay", model=str(path), name=FAILING.name)


def scores(run: Path) -> list[Any]:
    """Without the reasons of missing scores: a failed call fails differently when replayed."""
    lines = map(orjson.loads, (run / "scores.jsonl").read_bytes().splitlines())
    return [{name: value for name, value in score.items() if name != "why"} for score in lines]


async def test_a_damaged_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    path.write_bytes(b"PK not a log")
    with pytest.raises(DataError, match="not an Inspect log"):
        await make_run("dialogue", tmp_path, replay(path))
