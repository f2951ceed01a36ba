"""Earlier runs as opponents, and as what DupDetect is calibrated on."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mmconv.benchmarks.botchat.recorded import stored_dialogues
from mmconv.cli.calibrate import command
from mmconv.config import RunSpec
from mmconv.errors import ConfigError, DataError
from mmconv.evaluation import Place, Result, open_evaluation
from tests.mmconv.benchmarks.botchat.samples import (
    JUDGE,
    OTHER,
    built,
    dialogue,
    record,
    spec,
    write,
)


async def run(chosen: RunSpec, out: Path) -> Result:
    async with open_evaluation(chosen, Place(out=out)) as evaluation:
        return await evaluation.run(evaluation.runner())


async def test_a_run_is_the_opponent_of_another(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [record(number, 3 + number) for number in range(1, 5)])
    earlier = await run(spec(data, protocols=["gteval"]), tmp_path / "runs")
    seats = {"candidate": OTHER, "judge": JUDGE}
    later = spec(data, seats=seats, opponents=str(earlier.folder), protocols="paireval")
    result = await run(later, tmp_path / "runs")
    tables = {table.name: table for table in result.tables}
    assert tables["paireval"].rows["second - first, N=16"]["win"].n == 4 * 2
    assert result.tally.seats["candidate"].ended == 4 * 14


async def test_its_dialogues_are_read_whole_and_calibrate(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [record(number) for number in (1, 2)])
    chosen = spec(data, protocols=["unieval"]).model_copy(update={"trials": 2})
    result = await run(chosen, tmp_path / "runs")
    found = list(stored_dialogues(result.folder))
    assert [(each.model, each.index) for each in found] == [("first", "MT-1"), ("first", "MT-2")]
    assert [len(each.utterances) for each in found] == [16, 16]
    assert list(found[1].utterances[:2]) == dialogue("Human 2", 5)[:2]
    arguments = ["botchat", "--dialogues", str(result.folder), "--non-loop-rate", "1"]
    assert "of 2 without a loop" in CliRunner().invoke(command, arguments).output


async def test_a_run_of_both_conditions_is_no_opponent(tmp_path: Path) -> None:
    rows = [record(1, title="Tea", text="About tea.")]
    result = await run(spec(write(tmp_path / "data.jsonl", rows)), tmp_path / "runs")
    with pytest.raises(DataError, match="the conditions uncon and con"):
        list(stored_dialogues(result.folder))


def test_another_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder of a run"):
        list(stored_dialogues(tmp_path))


def test_paireval_that_is_asked_for_needs_opponents(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [record(1)])
    with pytest.raises(ConfigError, match="PairEval needs opponents"):
        built(data, protocols="paireval")
    assert built(data).size == 1
