"""Earlier runs as opponents: what they may lack, and which runs against them are compared."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.types import Table
from mmconv.report.changed_inputs import tell_changed
from mmconv.report.comparison.differences import compare
from mmconv.report.page.provenance import provenance
from mmconv.run_folder.saved_run import read_finished
from tests.mmconv.benchmarks.botchat.samples import (
    JUDGE,
    OTHER,
    SPEAKER,
    built,
    record,
    spec,
    write,
)
from tests.mmconv.report.runs import evaluate

THIRD = SPEAKER.model_copy(update={"model": "third"})
LACKING = "skipped: a whole dialogue of second"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "data.jsonl", [record(number) for number in range(1, 4)])


async def rival(data: Path, out: Path, **fields: Any) -> Path:
    """The folder of a run that is to be the opponent of others."""
    chosen = spec(data, seats={"candidate": OTHER}, generate_only=True, **fields)
    return (await evaluate(chosen, out)).folder


def against(data: Path, folder: Path, **fields: Any) -> RunSpec:
    chosen: dict[str, Any] = {"protocols": ["unieval", "paireval"]} | fields
    return shipped(spec(data, opponents=[str(folder)], **chosen))


def shipped(chosen: RunSpec) -> RunSpec:
    """By the name under which runs are compared quantity by quantity."""
    return chosen.model_copy(update={"benchmark": "botchat"})


def change(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change the records of a run's calls."""
    path = folder / "transcripts.jsonl"
    calls = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    for call in calls:
        edit(call)
    path.write_bytes(b"".join(orjson.dumps(call) + b"\n" for call in calls))


def fail(*names: str) -> Callable[[dict[str, Any]], object]:
    """Take the texts of these calls, each named by its sample and its utterance."""

    def edit(call: dict[str, Any]) -> None:
        if f"{call['sample']} {call['call']}" in names:
            call["text"] = None

    return edit


async def test_pairs_that_lack_a_dialogue_are_missing_with_a_reason(
    data: Path, tmp_path: Path
) -> None:
    folder = await rival(data, tmp_path / "runs")
    # a dialogue of eleven utterances, and one that never began
    change(folder, fail("MT-1 utterance_12", "MT-3 utterance_3"))
    # every whole dialogue counts as a loop, which decides no pair that lacks one
    chosen = against(data, folder, pair_lengths=[8, 16], dup_detect={"threshold": 0.0})
    result = await evaluate(chosen, tmp_path / "runs")
    assert result.stats.seats["judge"].ended == 3 + 2 * 2
    found = {table.name: table for table in result.tables}
    for length in (8, 16):
        for name in ("paireval", "paireval_dupdetect"):
            cell = found[name].rows[f"first - second, N={length}"]["win"]
            assert (cell.n, cell.missing) == (2, {LACKING: 4})
    told = "second lacks a whole dialogue of 2 of the 3 compared samples: its pairs of them are"
    assert any(note.startswith(told) for note in found["paireval"].notes)
    loops = found["loops"].rows["second"]["non-loop (%)"]
    assert (loops.n, loops.missing) == (1, {"unfinished dialogue": 2})
    words = found["lengths"].rows["second"]["words"]
    assert (words.n, words.missing) == (14, {"unfinished dialogue": 28})


async def test_a_model_without_any_whole_dialogue_is_refused(data: Path, tmp_path: Path) -> None:
    folder = await rival(data, tmp_path / "runs", utterances=8)
    with pytest.raises(DataError) as refused:
        built(data, opponents=[str(folder)], protocols="paireval")
    assert refused.value.problems == ("second: none of 3 dialogues has 16 utterances",)


async def test_runs_are_compared_whoever_else_their_opponents_are(
    data: Path, tmp_path: Path
) -> None:
    """And the opponent may have been scored again, which writes its files anew."""
    folder = await rival(data, tmp_path / "runs")
    first = (await evaluate(against(data, folder), tmp_path / "runs")).folder
    change(folder, lambda call: call.update(stored=True))
    third = {"candidate": THIRD, "judge": JUDGE}
    second = (await evaluate(against(data, folder, seats=third), tmp_path / "runs")).folder
    rows = named(compare([first, second]).tables, "differences").rows
    assert rows["PairEval against second, N=16: win"]["%"].n == 3 * 2
    [told] = dict(provenance(read_finished(first)).lists)["Hashes: opponents"]
    assert re.fullmatch("second [0-9a-f]{64}", " ".join(told))
    alone = spec(data, seats=third, protocols=["unieval"])
    other = (await evaluate(shipped(alone), tmp_path / "runs")).folder
    rows = named(compare([first, other]).tables, "differences").rows
    assert "UniEval, N=16" in rows
    assert not any(name.startswith("PairEval") for name in rows)


async def test_another_text_of_an_opponent_is_other_data(data: Path, tmp_path: Path) -> None:
    """Where both runs have a dialogue of a sample; one that is lacking is no other one."""
    folder = await rival(data, tmp_path / "runs")
    change(folder, fail("MT-1 utterance_12"))
    runs = [(await evaluate(against(data, folder, limit=2), tmp_path / "runs")).folder]
    whole = await rival(data, tmp_path / "again")
    seats = {"candidate": THIRD, "judge": JUDGE}
    runs.append((await evaluate(against(data, whole, seats=seats), tmp_path / "runs")).folder)
    for order in (1, -1):
        rows = named(compare(runs[::order]).tables, "differences").rows
        assert rows["PairEval against second, N=16: win"]["%"].n == 1 * 2

    def reword(call: dict[str, Any]) -> None:
        if call["call"] == "utterance_16":
            call["text"] = "Something else."

    change(whole, reword)
    seats["candidate"] = THIRD.model_copy(update={"name": "fourth"})
    runs.append((await evaluate(against(data, whole, seats=seats), tmp_path / "runs")).folder)
    told = "the opponent second differs: 1 of its dialogues are others in first than in fourth"
    with pytest.raises(ConfigError, match=told):
        compare([runs[0], runs[2]])
    [changed] = tell_changed(runs[1], read_finished(runs[2]).manifest)
    assert "the dialogues of second are not those that the run was made against" in changed
    warned = compare([runs[0], runs[2]], despite=("data",)).warnings
    assert any(told in each for each in warned)
    # manifests had only the names of opponents once
    manifest = runs[0] / "manifest.json"
    document = orjson.loads(manifest.read_bytes())
    document["facts"]["opponents"] = ["second"]
    manifest.write_bytes(orjson.dumps(document))
    compare([runs[0], runs[2]])


def named(tables: tuple[Table, ...], name: str) -> Table:
    [table] = (table for table in tables if table.name == name)
    return table
