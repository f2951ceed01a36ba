"""Names of trials: none is taken for another, in runs, tables, pages and earlier dialogues."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.plans import Trial, name_trial, read_trial
from mmconv.core.types import Reply
from mmconv.engine.run import Result
from mmconv.report.notes import ALIKE
from mmconv.run_folder.saved_run import read_scores
from mmconv.stats import ScoreFrame
from model_zoo.simulated.fake import FakeBackend
from tests.mmconv.report.runs import evaluate

KEYS = st.text() | st.from_regex(r"[a#]{0,3}#\d{1,11}(#\d)?", fullmatch=True)


@pytest.mark.parametrize(
    ("key", "number", "name"),
    [
        ("14", 1, "14"),
        ("14", 2, "14#2"),
        ("issue#7", 1, "issue#7#1"),
        ("issue#7", 2, "issue#7#2"),
        ("a#b", 1, "a#b"),
        ("a#", 12, "a##12"),
        ("#3", 1, "#3#1"),
        ("C#", 1, "C#"),
    ],
)
def test_names(key: str, number: int, name: str) -> None:
    assert name_trial(key, number) == name
    assert read_trial(name) == Trial(key, number)


@given(KEYS, st.integers(1, 999_999_999))
def test_every_name_is_read_as_what_it_was_made_of(key: str, number: int) -> None:
    assert read_trial(name_trial(key, number)) == (key, number)


def spec(data: Path, keys: list[str], trials: int) -> RunSpec:
    riddles = [{"id": key, "riddle": f"What is {place}?"} for place, key in enumerate(keys)]
    data.write_bytes(b"\n".join(map(orjson.dumps, riddles)))
    judge = ModelSpec(provider="fake", model="judge")
    return RunSpec(
        benchmark="tests.example_benchmark:Riddles",
        options={"data": str(data)},
        models={"candidate": ModelSpec(provider="fake", model="echo"), "judge": judge},
        trials=trials,
    )


async def test_samples_that_are_named_like_trials_are_samples(tmp_path: Path) -> None:
    keys = [f"repo#{number}" for number in range(1, 31)]
    result = await evaluate(spec(tmp_path / "data.jsonl", keys, 1), tmp_path / "runs")
    frame = ScoreFrame(read_scores(result.folder / "scores.jsonl"))
    assert frame.clusters() == {f"{key}#1": key for key in keys}
    cell = result.tables[0].rows["fit"]["free"]
    assert cell.n == 30
    assert cell.low is not None


async def test_a_trial_is_no_sample_of_its_own_and_none_is_lost(tmp_path: Path) -> None:
    result = await evaluate(spec(tmp_path / "data.jsonl", ["a", "a#2"], 2), tmp_path / "runs")
    frame = ScoreFrame(read_scores(result.folder / "scores.jsonl"))
    assert frame.clusters() == {"a": "a", "a#2": "a", "a#2#1": "a#2", "a#2#2": "a#2"}
    lines = (result.folder / "transcripts.jsonl").read_bytes().splitlines()
    found = [orjson.loads(line) for line in lines]
    assert len(found) == len({(call["sample"], call["call"]) for call in found}) == 8


async def test_a_runs_tables_take_the_trials_of_a_sample_for_one_cluster(tmp_path: Path) -> None:
    """Of 4 clusters there is no interval, of 8 there is."""
    keys = [str(number) for number in range(8)]
    apart = await evaluate(spec(tmp_path / "data.jsonl", keys, 1), tmp_path / "runs")
    together = await evaluate(spec(tmp_path / "data.jsonl", keys[:4], 2), tmp_path / "runs")
    cells = [each.tables[0].rows["fit"]["free"] for each in (apart, together)]
    assert [cell.n for cell in cells] == [8, 8]
    assert [cell.low is None for cell in cells] == [False, True]


async def test_every_table_tells_how_many_samples_there_are(tmp_path: Path) -> None:
    several = await evaluate(spec(tmp_path / "data.jsonl", ["a", "b", "c"], 2), tmp_path / "runs")
    note = "3 samples in 2 trials each: n counts every trial."
    assert all(note in table.notes for table in several.tables)
    once = await evaluate(spec(tmp_path / "data.jsonl", ["a", "b", "c"], 1), tmp_path / "runs")
    assert not any("trials" in note for table in once.tables for note in table.notes)


async def test_trials_all_alike_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as there are answers: the echo draws nothing, whether it fails now and then or not."""
    chosen = spec(tmp_path / "data.jsonl", [*"abcdefgh"], 2)
    alike = await evaluate(chosen, tmp_path / "runs")
    assert all(ALIKE in table.notes for table in alike.tables)

    async def with_lost_calls(rate: float, runs: str) -> Result:
        options = {"rate": rate, "seed": 2}
        failing = ModelSpec(provider="fake", model="failing", attempts=1, options=options)
        roles = {**chosen.models, "candidate": failing}
        return await evaluate(chosen.model_copy(update={"models": roles}), tmp_path / runs)

    lossy = await with_lost_calls(0.3, "lossy")
    assert lossy.quality.failed
    assert all(ALIKE in table.notes for table in lossy.tables)

    really, drawn = FakeBackend.generate, iter(range(100))

    async def draw(self: FakeBackend, *given: Any, **named: Any) -> Reply:
        reply = await really(self, *given, **named)
        return replace(reply, text=f"{reply.text} {next(drawn)}")

    monkeypatch.setattr(FakeBackend, "generate", draw)
    apart = await evaluate(chosen, tmp_path / "drawn")
    assert not any(ALIKE in table.notes for table in apart.tables)


async def test_names_are_no_part_of_what_is_asked(tmp_path: Path) -> None:
    """A store of runs whose samples were named otherwise answers all the same."""
    first = await evaluate(spec(tmp_path / "old.jsonl", ["1", "2"], 3), tmp_path / "runs")
    assert sum(role.requested for role in first.stats.models.values()) == 12
    again = await evaluate(spec(tmp_path / "new.jsonl", ["a#1", "a#2"], 3), tmp_path / "runs")
    assert again.stats.replies == first.stats.replies == 12
    assert sum(role.requested for role in again.stats.models.values()) == 0
