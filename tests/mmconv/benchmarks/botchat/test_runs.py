"""Whole runs: an arena, full contexts, loops after the cut, and what notes say of a run."""

from pathlib import Path

import orjson
import pytest

from mmconv.benchmarks.base.replay import replay
from mmconv.core.config import ModelSpec
from mmconv.core.types import Table
from mmconv.engine.run import Result
from mmconv.run_folder.saved_run import read_scores
from tests.mmconv.benchmarks.botchat.samples import (
    JUDGE,
    OTHER,
    SPEAKER,
    built,
    dialogue,
    opponents,
    record,
    spec,
    write,
)
from tests.mmconv.report.runs import evaluate

pytest.importorskip("evalica", reason="the arena's ratings need it")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "data.jsonl", [record(1, 4), record(2, 4)])


def tables(result: Result) -> dict[str, Table]:
    return {table.name: table for table in result.tables}


def test_remarks_say_what_is_not_the_papers_and_what_is_left_out(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [record(number, 2 * number) for number in (1, 2, 5)])
    assert [*built(data, protocols=["unieval"]).remarks()] == []
    [alone] = built(data).remarks()
    assert alone.startswith("PairEval is left out")
    rivals = {"candidate": SPEAKER, "judge": JUDGE, "rival": OTHER}
    cut = built(data, utterances=8, models=rivals)
    assert [*cut.remarks()] == [
        "Dialogues have 8 utterances (paper: 16).",
        "Of human dialogues with more utterances (1 of 3), the first 8 count.",
    ]
    scores = [score for each in cut.load() for score in replay(cut, each, "uncon", {})]
    lengths = [s.value for s in scores if s.metric == "non_loop_utterances" and s.value]
    assert [s.tags["model"] for s in scores if s.value and s.metric == "non_loop"] == ["GT", "GT"]
    assert lengths == [4, 8]


async def test_notes_count_the_samples_that_are_compared(data: Path, tmp_path: Path) -> None:
    rival = spec(data, models={"candidate": OTHER}, generate_only=True, limit=1)
    before = await evaluate(rival, tmp_path / "runs")
    fields = {"opponents": [str(before.folder)], "utterances": 16, "protocols": ["paireval"]}
    for limit, compared in ((1, "1 of the 1 of the run"), (None, "2 of the 2 of the data")):
        found = tables(await evaluate(spec(data, limit=limit, **fields), tmp_path / "runs"))
        assert any(f"({compared})" in note for note in found["points"].notes)
        missing = [note for note in found["points"].notes if "has no whole dialogue" in note]
        assert len(missing) == (limit is None)


async def test_an_arena_of_stored_and_speaking_models(tmp_path: Path) -> None:
    rows = [record(number, 6) for number in range(1, 5)]
    stored = {
        name: [dialogue(f"{name} {number}", 16) for number in range(1, 5)]
        for name in ("gpt", "vic")
    }
    chosen = spec(
        write(tmp_path / "data.jsonl", rows),
        models={"candidate": SPEAKER, "judge": JUDGE, "rival": OTHER},
        opponents=[str(opponents(tmp_path / "convs.tsv", stored))],
        pairs="all",
        protocols=["paireval"],
    )
    result = await evaluate(chosen, tmp_path / "runs")
    assert result.stats.models["judge"].ended == 6 * 2 * 4
    found = tables(result)
    assert set(found["arena"].rows) == {"first", "second", "gpt", "vic"}
    assert found["arena"].columns == ("Elo, N=16", "Bradley-Terry, N=16")
    assert len(found["paireval"].rows) == 6
    assert {row["win"].n for row in found["paireval"].rows.values()} == {8}
    assert "unieval" not in found
    elo = [row["Elo, N=16"].value for row in found["arena"].rows.values()]
    assert 3900 < sum(float(value or 0) for value in elo) < 4100


@pytest.mark.parametrize("prompt_role", ["system", "user"])
async def test_a_full_context_drops_old_turns(data: Path, tmp_path: Path, prompt_role: str) -> None:
    roles = {"candidate": SPEAKER.model_copy(update={"model": "forgetful"}), "judge": JUDGE}
    chosen = spec(data, models=roles, prompt_role=prompt_role, protocols=["unieval"])
    result = await evaluate(chosen, tmp_path / "runs")
    candidate = result.stats.models["candidate"]
    assert (candidate.failed, candidate.skipped) == (0, 0)
    scores = read_scores(result.folder / "scores.jsonl")
    dropped = {s.turn or 0: s.value for s in scores if s.metric == "dropped" and s.sample == "MT-1"}
    # 3 words in each of the two human utterances, 8 in each other, 60 in all
    by_number = [dropped[turn] or 0 for turn in sorted(dropped)]
    assert by_number == [0, 0, 0, 0, 0, 0, 0, 1, 3, 4, 5, 6, 7, 8]
    row = tables(result)["replies"].rows["forgetful"]
    assert row["utterances dropped"].value == 2 * sum(by_number)
    assert (row["prompts that overflowed"].value, row["prompts that overflowed"].n) == (14, 28)


async def test_dialogues_of_the_same_text_are_no_comparison(tmp_path: Path) -> None:
    """The candidate's own earlier dialogue as its opponent: the texts are equal at run time."""
    data = write(tmp_path / "data.jsonl", [record(1)])
    alone = await evaluate(spec(data, protocols=["gteval"]), tmp_path / "runs")
    lines = (alone.folder / "transcripts.jsonl").read_bytes().splitlines()
    calls = {call["call"]: call["text"] for call in map(orjson.loads, lines)}
    said = [*dialogue("Human 1", 2), *(calls[f"utterance_{n}"] for n in range(3, 17))]
    convs = opponents(tmp_path / "c.tsv", {"copy": [said]})
    again = spec(data, opponents=[str(convs)], protocols=["paireval"])
    found = tables(await evaluate(again, tmp_path / "runs"))
    row = found["judgements"].rows["PairEval: first - copy, N=16"]
    assert [row[name].value for name in ("comparisons", "read", "of the same text")] == [2, 0, 2]
    assert found["paireval"].rows["first - copy, N=16"]["win"].missing == {"same text": 2}
    assert "arena" not in found


async def test_a_loop_after_the_cut_counts_in_whole_dialogues(data: Path, tmp_path: Path) -> None:
    """The echo says the same from its third utterance on, and its human dialogue has four."""
    echo = ModelSpec(provider="fake", model="echo")
    for scope, lost in (("compared", None), ("whole", 100.0)):
        chosen = spec(data, models={"candidate": echo, "judge": JUDGE}, dup_detect={"scope": scope})
        found = tables(await evaluate(chosen, tmp_path / "runs"))
        alone, first = (found[name].rows["echo"] for name in ("gteval", "gteval_dupdetect"))
        assert first["lose"].value == (alone["lose"].value if lost is None else lost)
        assert found["loops"].rows["echo"]["non-loop utterances"].value == 4.0
