"""Earlier runs as opponents, and as what DupDetect is calibrated on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from mmconv.benchmarks.botchat.dialogues import stored_dialogues
from mmconv.cli.judging import calibrate_command as command
from mmconv.core.errors import ConfigError, DataError
from mmconv.run_folder.transcripts import CallRecord
from tests.mmconv.benchmarks.botchat.samples import (
    JUDGE,
    OTHER,
    built,
    dialogue,
    record,
    spec,
    write,
)
from tests.mmconv.report.runs import evaluate


async def test_a_run_is_the_opponent_of_another(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [record(number, 3 + number) for number in range(1, 5)])
    earlier = await evaluate(spec(data, protocols=["gteval"]), tmp_path / "runs")
    seats = {"candidate": OTHER, "judge": JUDGE}
    later = spec(data, seats=seats, opponents=str(earlier.folder), protocols="paireval")
    result = await evaluate(later, tmp_path / "runs")
    tables = {table.name: table for table in result.tables}
    assert tables["paireval"].rows["second - first, N=16"]["win"].n == 4 * 2
    assert result.stats.seats["candidate"].ended == 4 * 14


async def test_its_dialogues_are_read_whole_and_calibrate(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [record(number) for number in (1, 2)])
    chosen = spec(data, protocols=["unieval"]).model_copy(update={"trials": 2})
    result = await evaluate(chosen, tmp_path / "runs")
    found = list(stored_dialogues(result.folder))
    assert [(each.model, each.index) for each in found] == [("first", "MT-1"), ("first", "MT-2")]
    assert [len(each.utterances) for each in found] == [16, 16]
    assert list(found[1].utterances[:2]) == dialogue("Human 2", 5)[:2]
    arguments = ["botchat", "--dialogues", str(result.folder), "--non-loop-rate", "1"]
    assert "of 2 without a loop" in CliRunner().invoke(command, arguments).output


async def test_a_run_of_both_conditions_is_no_opponent(tmp_path: Path) -> None:
    rows = [record(1, title="Tea", text="About tea.")]
    result = await evaluate(spec(write(tmp_path / "data.jsonl", rows)), tmp_path / "runs")
    with pytest.raises(DataError, match="the conditions uncon and con"):
        list(stored_dialogues(result.folder))


def test_another_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run found"):
        list(stored_dialogues(tmp_path))


def change(path: Path, **fields: Any) -> None:
    """Change the first record of a file."""
    first, *others = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([orjson.dumps(orjson.loads(first) | fields), *others, b""]))


def cut(path: Path) -> None:
    data = path.read_bytes().rstrip()
    path.write_bytes(data[:-10])


SPOILT: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "transcripts cut short": ("transcripts.jsonl", cut, "line 30: cut short, or not"),
    "transcripts gone": ("transcripts.jsonl", Path.unlink, "the run is not finished"),
    "a text that is none": (
        "transcripts.jsonl",
        lambda path: change(path, text=3),
        "line 1: text: ",
    ),
    "messages that are none": (
        "transcripts.jsonl",
        lambda path: change(path, messages=[{"role": "user"}]),
        "line 1: messages.0.parts is needed and not set; another version of mmconv wrote it",
    ),
    "no object": ("transcripts.jsonl", lambda path: path.write_text("[]"), "line 1: holds a list"),
    "specification cut short": ("spec.json", cut, "spec.json: 1 problem\n  cut short, or not"),
    "specification of another kind": (
        "spec.json",
        lambda path: path.write_text("{}"),
        "spec is needed and not set",
    ),
    "a seat that is not named": (
        "transcripts.jsonl",
        lambda path: path.write_text(path.read_text().replace('"candidate"', '"nobody"')),
        "spec.json names no seat 'nobody', which speaks",
    ),
}
"""A file of a run, how it is spoilt, and what is told of it."""


@pytest.mark.parametrize(("name", "spoil", "told"), SPOILT.values(), ids=SPOILT)
async def test_a_spoilt_run_is_told(
    tmp_path: Path, name: str, spoil: Callable[[Path], object], told: str
) -> None:
    data = write(tmp_path / "data.jsonl", [record(1), record(2)])
    folder = (await evaluate(spec(data, protocols=["unieval"]), tmp_path / "runs")).folder
    spoil(folder / name)
    with pytest.raises(DataError, match=re.escape(told)) as caught:
        list(stored_dialogues(folder))
    assert folder.name in str(caught.value)
    assert "the replies are cached" in str(caught.value)


async def test_a_run_that_was_only_scored_is_read_too(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [record(1)])
    result = await evaluate(spec(data, protocols=["unieval"]), tmp_path / "runs")
    (result.folder / "summary.json").unlink()
    assert [each.model for each in stored_dialogues(result.folder)] == ["first"]


@pytest.mark.parametrize(
    ("benchmark", "told"),
    [("convbench", "this is a run of convbench"), ("own.riddles:Riddles", "holds no dialogues")],
)
def test_a_run_of_another_benchmark_is_told(tmp_path: Path, benchmark: str, told: str) -> None:
    seat = {"provider": "fake", "model": "echo"}
    run_spec = {"benchmark": benchmark, "seats": {"candidate": seat}}
    call = {"sample": "1", "condition": "free", "call": "turn_1", "seat": "candidate"}
    picture = {"role": "user", "parts": [{"image": "ab", "width": 1, "height": 1}]}
    (tmp_path / "spec.json").write_bytes(orjson.dumps({"spec": run_spec}))
    nothing = dict.fromkeys(CallRecord.model_fields)
    line = orjson.dumps(
        {
            **nothing,
            **call,
            "text": "A kite.",
            "messages": [picture],
            "stored": False,
            "state": "reply",
            "dropped": 0,
            "seen": [],
        }
    )
    hinted = line.replace(b'"free"', b'"hinted"')
    (tmp_path / "transcripts.jsonl").write_bytes(line + b"\n" + hinted)
    with pytest.raises(DataError, match=told):
        list(stored_dialogues(tmp_path))


def test_paireval_that_is_asked_for_needs_opponents(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [record(1)])
    with pytest.raises(ConfigError, match="PairEval needs opponents"):
        built(data, protocols="paireval")
    assert built(data).size == 1
