"""Whole runs: the authors' file with fakes, and a tiny language model through transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.core.config import ModelSpec
from mmconv.core.types import Table
from mmconv.engine.run import Result
from tests.mmconv.benchmarks.botchat.samples import (
    JUDGE,
    MUTUAL,
    OTHER,
    SPEAKER,
    dialogue,
    needs_mutual,
    opponents,
    record,
    spec,
    write,
)
from tests.mmconv.report.runs import evaluate

RATINGS = pytest.importorskip("evalica", reason="the arena's ratings need it")


def scores(result: Result) -> list[dict[str, Any]]:
    lines = (result.folder / "scores.jsonl").read_bytes().splitlines()
    return sorted(map(orjson.loads, lines), key=repr)


def tables(result: Result) -> dict[str, Table]:
    return {table.name: table for table in result.tables}


@needs_mutual
async def test_the_authors_file_runs_to_its_end(tmp_path: Path) -> None:
    result = await evaluate(spec(MUTUAL), tmp_path, page=True)
    assert result.complete
    roles = result.stats.models
    # two pairs of seeds are the same in it, so some replies are had from the store
    assert roles["candidate"].ended == 547 * 14
    assert roles["judge"].ended == 547 + 444
    assert (roles["candidate"].failed, roles["judge"].failed) == (0, 0)
    found = tables(result)
    row = found["unieval"].rows["first"]
    assert [row[f"N={n}"].n for n in (4, 8, 12, 16)] == [547] * 4
    assert row["human length"].n == 222
    assert found["gteval"].rows["first"]["win+tie"].n == 444
    assert found["lengths"].rows["first"]["words"].value == 8.0
    assert found["loops"].rows["GT"]["non-loop (%)"].n == 222
    for name in ("unieval", "gteval"):
        assert any("222 of the 547" in note for note in found[name].notes)


async def test_longer_dialogues_have_no_rate_of_the_authors(tmp_path: Path) -> None:
    """Their code takes a dialogue without AI for one of 16 human utterances, however long it is."""
    data = write(tmp_path / "data.jsonl", [record(1)])
    message = "has no rate beyond"
    for utterances, beyond in ((20, True), (16, False), (8, False)):
        chosen = spec(data, utterances=utterances, protocols=["unieval"])
        table = tables(await evaluate(chosen, tmp_path / "runs"))["unieval"]
        row = table.rows["first"]
        assert row[f"N={utterances}"].n == 1
        assert (f"authors: N={utterances}" not in table.columns) is beyond
        assert row.keys() == set(table.columns)
        assert any(message in note for note in table.notes) is beyond


async def test_notes_say_the_data_and_what_is_cut_of_it(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [record(number, 2 * number) for number in (1, 2, 5)])
    whole = tables(await evaluate(spec(data), tmp_path / "whole"))
    cut = tables(await evaluate(spec(data, utterances=8), tmp_path / "cut"))
    for found in (whole, cut):
        for name in ("unieval", "gteval", "points"):
            assert any("(2 of the 3 of the data)" in note for note in found[name].notes)
    assert whole["loops"].rows["GT"]["non-loop utterances"].value == (4 + 10) / 2
    assert cut["loops"].rows["GT"]["non-loop utterances"].value == (4 + 8) / 2
    for found, length in ((whole, "of whatever length it has"), (cut, "cut after 8 utterances")):
        for name in ("loops", "lengths", "lengths_by_utterance"):
            [note] = [note for note in found[name].notes if note.startswith("GT is the human")]
            assert f"dialogue, {length}. A run takes opponents and GT only for" in note
    message = "Of human dialogues with more utterances (1 of 3), the first 8 count."
    for name in ("gteval", "points"):
        assert (message in whole[name].notes, message in cut[name].notes) == (False, True)
    [note] = [note for note in cut["unieval"].notes if note.startswith("Human length")]
    assert "the length of the human dialogue, 8 at most, for samples" in note
    assert all("at most" not in note for note in whole["unieval"].notes)


async def test_a_run_without_opponents_says_that_paireval_is_left_out(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [record(1)])
    roles = {"candidate": SPEAKER, "judge": JUDGE, "rival": OTHER}
    for chosen, expected in (
        (spec(data), True),
        (spec(data, protocols=["unieval"]), False),
        (spec(data, models=roles), False),
    ):
        found = tables(await evaluate(chosen, tmp_path / "runs"))
        left_out = any(note.startswith("PairEval is left out") for note in found["unieval"].notes)
        assert left_out is expected


async def test_a_limited_run_is_the_opponent_of_a_limited_run(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [record(number) for number in range(1, 9)])
    rival = spec(data, models={"candidate": OTHER}, generate_only=True, limit=2)
    before = await evaluate(rival, tmp_path / "runs")
    arena = spec(data, opponents=[str(before.folder)], limit=2)
    found = tables(await evaluate(arena, tmp_path / "runs"))
    assert any("(2 of the 2 of the run)" in note for note in found["points"].notes)


async def test_interrupted_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [record(number, 2 + number) for number in range(1, 9)])
    roles = {"candidate": SPEAKER, "judge": JUDGE, "rival": OTHER}
    whole = spec(data, models=roles, pair_lengths=[8, 16])
    expected = await evaluate(whole, tmp_path / "whole")
    half = await evaluate(whole.model_copy(update={"limit": 3}), tmp_path / "parts")
    assert half.stats.models["candidate"].requested == 3 * 14
    resumed = await evaluate(whole, tmp_path / "parts")
    assert scores(resumed) == scores(expected)
    assert resumed.tables == expected.tables
    assert resumed.stats.models["candidate"].requested == 5 * 14
    assert resumed.stats.models["rival"].cached == 2 * 14


async def test_a_tiny_language_model_talks_to_itself(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the extra hf")
    from tests.tiny_checkpoints import make_checkpoint

    folder = make_checkpoint("llama", tmp_path / "llama")
    candidate = ModelSpec(provider="hf", model=str(folder))
    data = write(tmp_path / "data.jsonl", [record(number, 4) for number in range(1, 6)])
    chosen = spec(data, models={"candidate": candidate, "judge": JUDGE}, utterances=6, max_tokens=6)
    result = await evaluate(chosen, tmp_path / "runs")
    roles = result.stats.models
    assert (roles["candidate"].ended, roles["judge"].ended) == (5 * 4, 5 + 10)
    assert [role.failed + role.skipped for role in roles.values()] == [0, 0]
    found = tables(result)
    assert found["unieval"].rows["llama"]["N=6"].n == 5
    assert found["lengths"].rows["llama"]["tokens"].n == 20
    assert "Dialogues have 6 utterances (paper: 16)." in found["unieval"].notes


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
async def test_a_full_context_drops_the_oldest_and_counts_them(
    tmp_path: Path, prompt_role: str
) -> None:
    forgetful = SPEAKER.model_copy(update={"model": "forgetful"})
    data = write(tmp_path / "data.jsonl", [record(1), record(2)])
    roles = {"candidate": forgetful, "judge": JUDGE}
    result = await evaluate(spec(data, models=roles, prompt_role=prompt_role), tmp_path / "runs")
    candidate = result.stats.models["candidate"]
    assert (candidate.failed, candidate.skipped) == (0, 0)
    row = tables(result)["replies"].rows["forgetful"]
    dropped = [s for s in scores(result) if s["metric"] == "dropped" and s["sample"] == "MT-1"]
    # 3 words in each of the two human utterances, 8 in each other, 60 in all
    by_number = [each["value"] for each in sorted(dropped, key=lambda each: each["turn"])]
    assert by_number == [0, 0, 0, 0, 0, 0, 0, 1, 3, 4, 5, 6, 7, 8]
    assert row["utterances dropped"].value == 2 * sum(by_number)
    assert (row["prompts that overflowed"].value, row["prompts that overflowed"].n) == (14, 28)


async def test_conditions_stand_in_rows_of_their_own(tmp_path: Path) -> None:
    rows = [record(number, 4, title="Tea", text="About tea.") for number in (1, 2)]
    result = await evaluate(spec(write(tmp_path / "data.jsonl", rows)), tmp_path / "runs")
    found = tables(result)
    assert list(found["unieval"].rows) == ["first", "first (con)"]
    assert list(found["gteval"].rows) == ["first", "first (con)"]
    assert "Where no condition is named, it is uncon." in found["unieval"].notes
    assert found["gteval"].rows["first (con)"]["win"].n == 4


async def test_an_unreadable_judge_scores_nothing(tmp_path: Path) -> None:
    unreadable = ModelSpec(provider="fake", model="unreadable")
    data = write(tmp_path / "data.jsonl", [record(1), record(2)])
    roles = {"candidate": SPEAKER, "judge": unreadable}
    result = await evaluate(spec(data, models=roles), tmp_path / "runs")
    assert result.stats.models["judge"].requested == 2 * (2 + 4)
    found = tables(result)
    cell = found["gteval"].rows["first"]["win"]
    assert (cell.value, cell.n, cell.missing) == (None, 0, {"unparsed": 4})
    theirs = found["gteval"].rows["first"]["authors: win"]
    assert (theirs.value, theirs.n) == (0.0, 4)
    assert found["judgements"].rows["GTEval: first"]["unread by the authors"].value == 4


async def test_dialogues_of_the_same_text_are_no_comparison(tmp_path: Path) -> None:
    """The candidate's own earlier dialogue as its opponent: the texts are equal at run time."""
    data = write(tmp_path / "data.jsonl", [record(1)])
    alone = await evaluate(spec(data, protocols=["gteval"]), tmp_path / "runs")
    lines = (alone.folder / "transcripts.jsonl").read_bytes().splitlines()
    calls = {call["call"]: call["text"] for call in map(orjson.loads, lines)}
    said = [*dialogue("Human 1", 2), *(calls[f"utterance_{n}"] for n in range(3, 17))]
    convs = opponents(tmp_path / "c.tsv", {"copy": [said]})
    again = spec(data, opponents=[str(convs)], protocols=["paireval"])
    result = await evaluate(again, tmp_path / "runs")
    found = tables(result)
    row = found["judgements"].rows["PairEval: first - copy, N=16"]
    assert [row[name].value for name in ("comparisons", "read", "of the same text")] == [2, 0, 2]
    assert found["paireval"].rows["first - copy, N=16"]["win"].missing == {"same text": 2}
    assert "arena" not in found


async def test_a_loop_after_the_cut_counts_in_whole_dialogues_only(tmp_path: Path) -> None:
    """The echo says the same from its third utterance on, and its human dialogue has four."""
    data = write(tmp_path / "data.jsonl", [record(1, 4)])
    echo = ModelSpec(provider="fake", model="echo")
    for scope, lost in (("compared", None), ("whole", 100.0)):
        chosen = spec(data, models={"candidate": echo, "judge": JUDGE}, dup_detect={"scope": scope})
        found = tables(await evaluate(chosen, tmp_path / "runs"))
        alone, first = (found[name].rows["echo"] for name in ("gteval", "gteval_dupdetect"))
        assert first["lose"].value == (alone["lose"].value if lost is None else lost)
        assert found["loops"].rows["echo"]["non-loop utterances"].value == 4.0
