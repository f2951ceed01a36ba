"""Earlier runs as opponents, what may be missing in them, and which runs are compared."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from mmconv.benchmarks.botchat.commands import calibrate_command as command
from mmconv.benchmarks.botchat.dialogues import stored_dialogues
from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.types import Table
from mmconv.report.changed_inputs import describe_changes
from mmconv.report.comparison.differences import compare
from mmconv.report.page.rendering import provenance
from mmconv.run_folder.saved_run import read_finished
from mmconv.run_folder.transcripts import CallRecord
from tests.mmconv.benchmarks.botchat.samples import (
    JUDGE,
    OTHER,
    SPEAKER,
    dialogue,
    record,
    spec,
    write,
)
from tests.mmconv.report.runs import evaluate

THIRD = SPEAKER.model_copy(update={"model": "third"})
LACKING = "skipped: a whole dialogue of second"


@pytest.fixture(autouse=True)
def without_ratings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arena's ratings take long, and nothing here reads them."""
    monkeypatch.setattr("mmconv.benchmarks.botchat.tables.is_available", lambda: False)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "data.jsonl", [record(number) for number in range(1, 4)])


async def rival(data: Path, out: Path, **fields: Any) -> Path:
    """The folder of a run that is to be the opponent of others."""
    chosen = spec(data, models={"candidate": OTHER}, generate_only=True, **fields)
    return (await evaluate(chosen, out)).folder


def against(data: Path, folder: Path, **fields: Any) -> RunSpec:
    chosen: dict[str, Any] = {"protocols": ["unieval", "paireval"]} | fields
    return spec(data, opponents=[str(folder)], **chosen)


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


async def test_pairs_without_a_dialogue_are_missing_for_reasons(data: Path, tmp_path: Path) -> None:
    folder = await rival(data, tmp_path / "runs")
    # a dialogue of eleven utterances, and one that never began
    change(folder, fail("MT-1 utterance_12", "MT-3 utterance_3"))
    # every whole dialogue counts as a loop, which decides no pair that lacks one
    chosen = against(data, folder, pair_lengths=[8, 16], dup_detect={"threshold": 0.0})
    result = await evaluate(chosen, tmp_path / "runs")
    assert result.stats.models["judge"].ended == 3 + 2 * 2
    found = {table.name: table for table in result.tables}
    for length in (8, 16):
        for name in ("paireval", "paireval_dupdetect"):
            cell = found[name].rows[f"first - second, N={length}"]["win"]
            assert (cell.n, cell.missing) == (2, {LACKING: 4})
    message = "second has no whole dialogue of 2 of the 3 compared samples: its pairs of them are"
    assert any(note.startswith(message) for note in found["paireval"].notes)
    loops = found["loops"].rows["second"]["non-loop (%)"]
    assert (loops.n, loops.missing) == (1, {"unfinished dialogue": 2})
    words = found["lengths"].rows["second"]["words"]
    assert (words.n, words.missing) == (14, {"unfinished dialogue": 28})


async def test_runs_are_compared_whatever_opponents_they_had(data: Path, tmp_path: Path) -> None:
    """And the opponent may have been scored again, which writes its files again."""
    folder = await rival(data, tmp_path / "runs")
    first = (await evaluate(against(data, folder), tmp_path / "runs")).folder
    change(folder, lambda call: call.update(stored=True))
    third = {"candidate": THIRD, "judge": JUDGE}
    second = (await evaluate(against(data, folder, models=third), tmp_path / "runs")).folder
    rows = named(compare([first, second]).tables, "differences").rows
    assert rows["PairEval against second, N=16: win"]["%"].n == 3 * 2
    [hashes] = dict(provenance(read_finished(first)).lists)["Hashes: opponents"]
    assert re.fullmatch("second [0-9a-f]{64}", " ".join(hashes))
    alone = spec(data, models=third, protocols=["unieval"])
    other = (await evaluate(alone, tmp_path / "runs")).folder
    rows = named(compare([first, other]).tables, "differences").rows
    assert "UniEval, N=16" in rows
    assert not any(name.startswith("PairEval") for name in rows)


async def test_another_text_of_an_opponent_is_other_data(data: Path, tmp_path: Path) -> None:
    """Where both runs have a dialogue of a sample; a missing one does not count as another."""
    folder = await rival(data, tmp_path / "runs")
    change(folder, fail("MT-1 utterance_12"))
    runs = [(await evaluate(against(data, folder, limit=2), tmp_path / "runs")).folder]
    whole = await rival(data, tmp_path / "again")
    roles = {"candidate": THIRD, "judge": JUDGE}
    runs.append((await evaluate(against(data, whole, models=roles), tmp_path / "runs")).folder)
    for order in (1, -1):
        rows = named(compare(runs[::order]).tables, "differences").rows
        assert rows["PairEval against second, N=16: win"]["%"].n == 1 * 2

    def reword(call: dict[str, Any]) -> None:
        if call["call"] == "utterance_16":
            call["text"] = "Something else."

    change(whole, reword)
    roles["candidate"] = THIRD.model_copy(update={"name": "fourth"})
    runs.append((await evaluate(against(data, whole, models=roles), tmp_path / "runs")).folder)
    message = "the opponent second differs between first and fourth: 1 of its dialogues"
    with pytest.raises(ConfigError, match=message):
        compare([runs[0], runs[2]])
    [changed] = describe_changes(runs[1], read_finished(runs[2]).manifest)
    assert "the dialogues of second have changed since the run" in changed
    warned = compare([runs[0], runs[2]], despite=("data",)).warnings
    assert any(message in each for each in warned)
    # manifests had only the names of opponents once
    manifest = runs[0] / "manifest.json"
    document = orjson.loads(manifest.read_bytes())
    document["provenance"]["opponents"] = ["second"]
    manifest.write_bytes(orjson.dumps(document))
    compare([runs[0], runs[2]])


def named(tables: tuple[Table, ...], name: str) -> Table:
    [table] = (table for table in tables if table.name == name)
    return table


async def test_a_run_is_the_opponent_of_another(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [record(number, 3 + number) for number in range(1, 5)])
    earlier = spec(data, protocols=["gteval"]).model_copy(update={"trials": 2})
    folder = (await evaluate(earlier, tmp_path / "runs")).folder
    roles = {"candidate": OTHER, "judge": JUDGE}
    later = spec(data, models=roles, opponents=str(folder), protocols="paireval")
    result = await evaluate(later, tmp_path / "runs")
    rows = named(result.tables, "paireval").rows
    assert rows["second - first, N=16"]["win"].n == 4 * 2
    assert result.stats.models["candidate"].ended == 4 * 14
    # a dialogue is read whole, and of one trial
    found = list(stored_dialogues(folder))
    assert [(each.model, each.index) for each in found] == [
        ("first", f"MT-{n}") for n in range(1, 5)
    ]
    assert [len(each.utterances) for each in found] == [16] * 4
    assert list(found[1].utterances[:2]) == dialogue("Human 2", 5)[:2]
    arguments = ["botchat", "--dialogues", str(folder), "--non-loop-rate", "1"]
    assert "of 4 without a loop" in CliRunner().invoke(command, arguments).output
    # as is a run that was only scored
    (folder / "summary.json").unlink()
    assert list(stored_dialogues(folder)) == found


async def test_a_run_of_both_conditions_is_no_opponent(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [record(1, title="Tea", text="About tea.")])
    result = await evaluate(spec(data, protocols=["unieval"]), tmp_path / "runs")
    with pytest.raises(DataError, match="the conditions uncon and con"):
        list(stored_dialogues(result.folder))
    with pytest.raises(ConfigError, match="no run found"):
        list(stored_dialogues(tmp_path))


@pytest.mark.parametrize("benchmark", ["convbench", "own.riddles:Riddles"])
def test_a_run_of_another_benchmark_is_refused(tmp_path: Path, benchmark: str) -> None:
    role = {"provider": "fake", "model": "echo"}
    run_spec = {"benchmark": benchmark, "models": {"candidate": role}}
    call = {"sample": "1", "condition": "free", "call": "turn_1", "model": "candidate"}
    picture = {"role": "user", "parts": [{"image": "ab", "width": 1, "height": 1}]}
    (tmp_path / "spec.json").write_bytes(orjson.dumps({"spec": run_spec}))
    rest = {"stored": False, "state": "reply", "dropped": 0, "seen": [], "messages": [picture]}
    nothing = dict.fromkeys(CallRecord.model_fields)
    line = orjson.dumps({**nothing, **call, **rest, "text": "A kite."})
    hinted = line.replace(b'"free"', b'"hinted"')
    (tmp_path / "transcripts.jsonl").write_bytes(line + b"\n" + hinted)
    with pytest.raises(DataError, match="holds no dialogues"):
        list(stored_dialogues(tmp_path))
