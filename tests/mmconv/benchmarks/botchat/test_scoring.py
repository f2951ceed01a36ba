"""From outcomes to scores: both readings, DupDetect, and pairs of the same text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judges.parsers.botchat import UniEvalParser, comparison
from mmconv.benchmarks.base.results import Results
from mmconv.benchmarks.botchat.dialogues import Comparison, Line, as_lines
from mmconv.benchmarks.botchat.loops import DupDetect
from mmconv.benchmarks.botchat.scoring import (
    DUP_FIRST,
    JUDGE_ALONE,
    UNIEVAL,
    score_comparison,
    score_dialogue,
    score_unieval,
)
from mmconv.core.types import Call, Failure, Outcome, Ref, Reply, Score, Skipped
from tests.mmconv.benchmarks.botchat.samples import built, dialogue, record, write

SETTINGS = DupDetect()
LOOP = (*dialogue("l", 2), "the same again", "what?", "the same again")
FRESH = tuple(dialogue("f", 5))
STRANGE = tuple(dialogue("o", 5))


def results(outcomes: Mapping[str, Outcome], *calls: Call) -> Results:
    return Results(
        sample="MT-1",
        condition="uncon",
        calls={call.id: call for call in calls},
        outcomes=outcomes,
        tags=lambda _: {},
    )


def alone(*replies: Outcome, human_length: int | None = None) -> dict[tuple[Any, ...], Score]:
    parser = UniEvalParser(utterances=16)
    ids = [UNIEVAL, *(f"again{number}" for number in range(1, len(replies)))]
    again = tuple(Call(id=each, model="judge", messages=(), parser=parser) for each in ids[1:])
    call = Call(id=UNIEVAL, model="judge", messages=(), parser=parser, fallbacks=again)
    found = results(dict(zip(ids, replies, strict=True)), call)
    scores = score_unieval(found, "m", (4, 8, 16), human_length)
    return {(score.metric, score.turn, score.tags["reading"]): score for score in scores}


def test_a_dialogue_passes_at_lengths_before_the_first_machine_made_utterance() -> None:
    scores = alone(Reply(text="Choice: Yes\nIndex: 9\nReason: long."), human_length=9)
    assert scores["human", None, "ours"].value == 8
    for reading in ("ours", "authors"):
        assert [scores["pass", n, reading].value for n in (4, 8, 16)] == [1, 1, 0]
    assert scores["pass_at_human_length", None, "ours"].value == 0


def test_no_index_passes_with_the_authors_and_is_unread_here() -> None:
    scores = alone(Reply(text="Choice: Yes\nReason: all of it."))
    assert [scores["pass", n, "authors"].value for n in (4, 8, 16)] == [1, 1, 1]
    assert scores["pass", 16, "ours"].why == "unparsed"


def test_a_rescue_is_read_here_and_not_by_the_authors() -> None:
    scores = alone(Reply(text="Choice: Yes\nIndex: many"), Reply(text="Choice: No\nIndex: None"))
    assert scores["pass", 16, "ours"].value == 1
    assert scores["pass", 16, "authors"].why == "unknown"


def test_what_was_never_said_is_not_judged() -> None:
    scores = alone(Skipped(because="utterance_7"))
    assert {score.why for score in scores.values()} == {"skipped: utterance_7"}


def duel(
    own: tuple[str, ...], other: tuple[str, ...], reply: Outcome | None, order: str = "1"
) -> dict[tuple[str, str], Score]:
    """The four scores of a comparison by reading and `dup`."""
    compared = Comparison(
        protocol="PairEval",
        model="m",
        opponent="o",
        length=len(own),
        order=order,
        own=(*as_lines(own[:-1]), Ref(call="last")),
        other=as_lines(other),
        searched=(as_lines(own), as_lines(other)),
    )
    outcomes: Mapping[str, Outcome] = {"last": Reply(text=own[-1])}
    calls = []
    if reply is not None:
        calls.append(Call(id=compared.call_id, model="judge", messages=(), parser=comparison))
        outcomes = {**outcomes, compared.call_id: reply}
    scores = score_comparison(results(outcomes, *calls), compared, SETTINGS)
    return {(score.tags["reading"], score.tags["dup"]): score for score in scores}


@pytest.mark.parametrize(
    ("choice", "order", "points"),
    [
        ("Conversation 1", "1", -3),
        ("Conversation 2", "1", 3),
        ("Conversation 1", "2", 3),
        ("Conversation 2", "2", -3),
        ("Both", "1", -1),
        ("Neither", "2", 1),
    ],
)
def test_the_one_not_taken_for_a_machine_wins(choice: str, order: str, points: float) -> None:
    scores = duel(FRESH, STRANGE, Reply(text=f"Choice: {choice}\nReason: style."), order)
    assert {score.value for score in scores.values()} == {points}
    assert {score.tags["order"] for score in scores.values()} == {order}


@pytest.mark.parametrize(
    ("own", "other", "points"),
    [(LOOP, FRESH, -3), (FRESH, LOOP, 3), (LOOP, (*LOOP[:4], "The same again."), -1)],
)
def test_dupdetect_goes_before_the_judge(
    own: tuple[str, ...], other: tuple[str, ...], points: float
) -> None:
    scores = duel(own, other, Reply(text="Choice: Neither"))
    for reading in ("ours", "authors"):
        assert scores[reading, JUDGE_ALONE].value == 1
        assert scores[reading, DUP_FIRST].value == points


def test_readings_differ_in_what_they_cannot_read() -> None:
    scores = duel(FRESH, STRANGE, Reply(text="**Choice:** Both\nReason: alike."))
    assert scores["ours", JUDGE_ALONE].value == -1
    assert scores["authors", JUDGE_ALONE].why == "unknown"
    quoted = duel(
        FRESH, STRANGE, Reply(text="Choice: Both; Reason: unlike Conversation 1, no one.")
    )
    assert quoted["ours", JUDGE_ALONE].value == -1
    assert quoted["authors", JUDGE_ALONE].value == -3


def test_a_pair_of_the_same_text_has_no_points_whatever_a_judge_says() -> None:
    for reply in (Reply(text="Choice: Conversation 1"), None):
        scores = duel(FRESH, FRESH, reply)
        assert {score.why for score in scores.values()} == {"same text"}
    # though both loop, which would be a tie of different dialogues
    assert {score.why for score in duel(LOOP, LOOP, None).values()} == {"same text"}


def test_a_comparison_that_failed_says_why() -> None:
    failed = Failure(kind="rate_limit", message="slow down", attempts=8)
    scores = duel(FRESH, STRANGE, failed)
    assert {score.why for score in scores.values()} == {"failed: rate_limit"}


@pytest.mark.parametrize(("utterances", "is_free"), [(LOOP, 0), (FRESH, 1)])
def test_the_repeating_utterance_is_the_last_that_does_not_loop(
    utterances: tuple[str, ...], is_free: int
) -> None:
    lines = as_lines(utterances)
    scores = list(score_dialogue(results({}), "m", lines, 5, SETTINGS))
    values = {(score.metric, score.turn): score.value for score in scores}
    assert values["non_loop", None] == is_free
    assert values["non_loop_utterances", None] == 5
    assert values["words", 5] == len(utterances[4].split())
    assert {score.turn for score in scores} == {None, 3, 4, 5}


def test_a_missing_dialogue_has_a_reason_for_each_score() -> None:
    scores = list(score_dialogue(results({}), "m", (), 4, SETTINGS))
    assert {(score.value, score.why) for score in scores} == {(None, "unfinished dialogue")}
    assert len(scores) == 2 + 2 * 2


def test_an_utterance_is_measured(tmp_path: Path) -> None:
    benchmark = built(write(tmp_path / "data.jsonl", [record(1)]))
    call = Call(id="utterance_3", model="candidate", messages=())
    lines: tuple[Line, ...] = (*as_lines(FRESH[:2]), Ref(call=call.id))

    def measure(outcome: Outcome) -> list[Score]:
        found = results({call.id: outcome}, call)
        scored = score_dialogue(found, "first", lines, 3, SETTINGS)
        return [*benchmark.endings(found), *(score for score in scored if score.turn is not None)]

    reply = Reply(text="Well, bye.", finish="length", dropped=2)
    scores = {score.metric: score for score in measure(reply)}
    assert {metric: score.value for metric, score in scores.items()} == {
        "characters": 10,
        "words": 2,
        "tokens": None,
        "truncated": 1,
        "filtered": 0,
        "empty": 0,
        "dropped": 2,
    }
    assert scores["tokens"].why == "not told by the server"
    assert {(score.turn, score.tags["model"]) for score in scores.values()} == {(3, "first")}
    lost = measure(Skipped(because="utterance_5"))
    assert {(score.value, score.why) for score in lost} == {(None, "skipped: utterance_5")}
