"""DupDetect and its calibration; from outcomes to scores by both readings."""

from collections.abc import Mapping
from difflib import SequenceMatcher
from pathlib import Path
from random import Random
from typing import Any

import pytest

from judges.parsers.botchat import UniEvalParser, comparison
from mmconv.benchmarks.base.results import Results
from mmconv.benchmarks.botchat.dialogues import (
    Comparison,
    DupDetect,
    Line,
    Similarity,
    as_lines,
    calibrate,
    first_repeat,
    highest_similarity,
)
from mmconv.benchmarks.botchat.metrics import (
    DUP_FIRST,
    JUDGE_ALONE,
    UNIEVAL,
    score_comparison,
    score_dialogue,
    score_unieval,
)
from mmconv.core.types import Call, Failure, Outcome, Ref, Reply, Score, Skipped
from tests.mmconv.benchmarks.botchat.samples import built, dialogue, record, write

SETTINGS = DupDetect(threshold=0.9)
WORDS = tuple("abcdefghijklmnop"[place] * 10 for place in range(16))
LOOP = (*dialogue("l", 2), "the same again", "what?", "the same again")
FRESH = tuple(dialogue("f", 5))
STRANGE = tuple(dialogue("o", 5))


def repeating(*numbers: int) -> tuple[str, ...]:
    """A dialogue whose utterances of these numbers, from 1, say the same."""
    return tuple("z" * 10 if place + 1 in numbers else WORDS[place] for place in range(16))


@pytest.mark.parametrize(
    ("numbers", "repeat"),
    [
        ((), None),
        ((3, 4), 4),
        ((3, 5), 5),
        ((14, 15), 15),
        ((14, 16), 16),
        # the seed is human, and utterances further apart are not compared
        ((1, 2), None),
        ((2, 3), None),
        ((2, 4), None),
        ((3, 6), None),
        # i < MaxRound - 1: the last two are not compared with each other
        ((15, 16), None),
        ((5, 7, 8), 7),
    ],
)
def test_which_utterances_are_compared(numbers: tuple[int, ...], repeat: int | None) -> None:
    assert first_repeat(repeating(*numbers), SETTINGS) == repeat


def test_a_short_dialogue_has_nothing_to_compare() -> None:
    same = ("hello there",) * 16
    assert [first_repeat(same[:count], SETTINGS) for count in (2, 3, 4, 5)] == [None, None, None, 4]


def test_the_similarity_must_surpass_the_threshold() -> None:
    """difflib: twice the matching characters over all characters, here 2 * 9 / 20."""
    near = (*WORDS[:2], "0123456789", "012345678x", *WORDS[4:])
    assert first_repeat(near, DupDetect(threshold=0.89)) == 4
    assert first_repeat(near, DupDetect(threshold=0.9)) is None
    assert highest_similarity(near, "characters") == pytest.approx(0.9)


@pytest.mark.parametrize("similarity", ["characters", "words"])
def test_what_is_ruled_out_early_is_below_the_threshold(similarity: Similarity) -> None:
    random = Random(7)
    for _ in range(50):
        texts = [" ".join(random.choices(("ab", "ba", "abb", "c"), k=9)) for _ in range(2)]
        said = (*WORDS[:2], *texts, *WORDS[4:])
        left, right = (list(text) if similarity == "characters" else text.split() for text in texts)
        ratio = SequenceMatcher(None, left, right, autojunk=False).ratio()
        if 0 < ratio < 1:
            for threshold, repeat in ((ratio - 1e-6, 4), (ratio, None)):
                settings = DupDetect(threshold=threshold, similarity=similarity)
                assert first_repeat(said, settings) == repeat


def test_words_are_another_measure_and_long_utterances_are_compared_whole() -> None:
    """difflib's own heuristic would take all frequent characters of 200 or more for junk."""
    near = (*WORDS[:2], "how are you today my friend", "HOW are you tonight my friend", *WORDS[4:])
    assert highest_similarity(near, "words") == pytest.approx(2 * 5 / 12)
    assert highest_similarity(near, "characters") > 0.85
    long = (*WORDS[:2], "ab" * 300, "ab" * 300, *WORDS[4:])
    assert highest_similarity(long, "characters") == 1.0


@pytest.mark.parametrize(
    ("highest", "rate", "steps"),
    [
        ([place / 10 for place in range(10)], 0.9, [(0.8, 0.9), (0.7, 0.8)]),
        # ties cannot be split
        ([0.2, 0.5, 0.5, 0.5], 0.5, [(0.5, 1.0), (0.2, 0.25)]),
        ([0.2], 1.0, [(0.2, 1.0)]),
    ],
)
def test_the_threshold_gives_the_wanted_rate(
    highest: list[float], rate: float, steps: list[tuple[float, float]]
) -> None:
    assert [*calibrate(highest, rate).items()] == steps


def test_a_calibrated_threshold_leaves_what_it_says() -> None:
    dialogues = [repeating(3, 4), repeating(), (*WORDS[:4], "eeeeeeeeef", *WORDS[5:])]
    highest = [highest_similarity(each, "characters") for each in dialogues]
    threshold, *_ = rates = calibrate(highest, 2 / 3)
    settings = DupDetect(threshold=threshold)
    free = [first_repeat(each, settings) is None for each in dialogues]
    assert sum(free) / 3 == pytest.approx(rates[threshold])


def results(outcomes: Mapping[str, Outcome], *calls: Call) -> Results:
    return Results(
        sample="MT-1",
        condition="uncon",
        calls={call.id: call for call in calls},
        outcomes=outcomes,
        tags=lambda _: {},
    )


def alone(*replies: Outcome | str, human_length: int | None = None) -> dict[tuple[Any, ...], Score]:
    """The scores of a dialogue by name, turn and reading; later replies are retries."""
    said = [Reply(text=each) if isinstance(each, str) else each for each in replies]
    call = Call(id=UNIEVAL, model="judge", messages=(), parser=UniEvalParser(utterances=16))
    again = tuple(
        Call(id=f"again{n}", model="judge", messages=(), parser=call.parser)
        for n in range(1, len(said))
    )
    call = Call(id=UNIEVAL, model="judge", messages=(), parser=call.parser, fallbacks=again)
    outcomes = dict(zip((UNIEVAL, *(each.id for each in again)), said, strict=True))
    scores = score_unieval(results(outcomes, call), "m", (4, 8, 16, 20), human_length)
    return {(score.metric, score.turn, score.tags["reading"]): score for score in scores}


def test_a_dialogue_passes_at_lengths_before_the_first_machine_made_utterance() -> None:
    scores = alone("Choice: Yes\nIndex: 9\nReason: long.", human_length=9)
    assert scores["human", None, "ours"].value == 8
    for reading in ("ours", "authors"):
        assert [scores["pass", n, reading].value for n in (4, 8, 16)] == [1, 1, 0]
    assert scores["pass_at_human_length", None, "ours"].value == 0
    # the authors take a dialogue without AI for one of 16 human utterances
    assert ("pass", 20, "ours") in scores
    assert ("pass", 20, "authors") not in scores


def test_what_only_one_of_both_readings_can_read() -> None:
    scores = alone("Choice: Yes\nReason: all of it.")
    assert [scores["pass", n, "authors"].value for n in (4, 8, 16)] == [1, 1, 1]
    assert scores["pass", 16, "ours"].why == "unparsed"
    retried = alone("Choice: Yes\nIndex: many", "Choice: No\nIndex: None")
    assert retried["pass", 16, "ours"].value == 1
    assert retried["pass", 16, "authors"].why == "unknown"
    unsaid = alone(Skipped(because="utterance_7"))
    assert {score.why for score in unsaid.values()} == {"skipped: utterance_7"}


def duel(
    own: tuple[str, ...], other: tuple[str, ...], reply: Outcome | str | None, order: str = "1"
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
    outcomes: dict[str, Outcome] = {"last": Reply(text=own[-1])}
    calls = []
    if reply is not None:
        calls.append(Call(id=compared.call_id, model="judge", messages=(), parser=comparison))
        outcomes[compared.call_id] = Reply(text=reply) if isinstance(reply, str) else reply
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
    scores = duel(FRESH, STRANGE, f"Choice: {choice}\nReason: style.", order)
    assert {score.value for score in scores.values()} == {points}
    assert {score.tags["order"] for score in scores.values()} == {order}


@pytest.mark.parametrize(
    ("own", "other", "points"),
    [(LOOP, FRESH, -3), (FRESH, LOOP, 3), (LOOP, (*LOOP[:4], "The same again."), -1)],
)
def test_dupdetect_goes_first(own: tuple[str, ...], other: tuple[str, ...], points: float) -> None:
    scores = duel(own, other, "Choice: Neither")
    for reading in ("ours", "authors"):
        assert scores[reading, JUDGE_ALONE].value == 1
        assert scores[reading, DUP_FIRST].value == points


def test_readings_differ_in_what_they_cannot_read() -> None:
    scores = duel(FRESH, STRANGE, "**Choice:** Both\nReason: alike.")
    assert scores["ours", JUDGE_ALONE].value == -1
    assert scores["authors", JUDGE_ALONE].why == "unknown"
    quoted = duel(FRESH, STRANGE, "Choice: Both; Reason: unlike Conversation 1, no one.")
    assert quoted["ours", JUDGE_ALONE].value == -1
    assert quoted["authors", JUDGE_ALONE].value == -3


@pytest.mark.parametrize(
    ("own", "other", "reply", "reason"),
    [
        # a pair of the same text has no points, even if both loop
        (FRESH, FRESH, "Choice: Conversation 1", "same text"),
        (FRESH, FRESH, None, "same text"),
        (LOOP, LOOP, None, "same text"),
        (FRESH, STRANGE, Failure(kind="rate_limit", message="", attempts=8), "failed: rate_limit"),
    ],
)
def test_a_comparison_without_points_has_a_reason(
    own: tuple[str, ...], other: tuple[str, ...], reply: Outcome | str | None, reason: str
) -> None:
    assert {score.why for score in duel(own, other, reply).values()} == {reason}


@pytest.mark.parametrize(("utterances", "is_free"), [(LOOP, 0), (FRESH, 1)])
def test_loops_begin_at_the_repeating_utterance(utterances: tuple[str, ...], is_free: int) -> None:
    scores = [*score_dialogue(results({}), "m", as_lines(utterances), 5, SETTINGS)]
    values = {(score.metric, score.turn): score.value for score in scores}
    assert values["non_loop", None] == is_free
    assert values["non_loop_utterances", None] == 5
    assert values["words", 5] == len(utterances[4].split())
    assert {score.turn for score in scores} == {None, 3, 4, 5}
    missing = [*score_dialogue(results({}), "m", (), 4, SETTINGS)]
    assert {(score.value, score.why) for score in missing} == {(None, "unfinished dialogue")}
    assert len(missing) == 2 + 2 * 2


def test_an_utterance_is_measured(tmp_path: Path) -> None:
    benchmark = built(write(tmp_path / "data.jsonl", [record(1)]))
    call = Call(id="utterance_3", model="candidate", messages=())
    lines: tuple[Line, ...] = (*as_lines(FRESH[:2]), Ref(call=call.id))

    def measure(outcome: Outcome) -> dict[str, Score]:
        found = results({call.id: outcome}, call)
        scored = score_dialogue(found, "first", lines, 3, SETTINGS)
        scores = [*benchmark.endings(found), *(each for each in scored if each.turn is not None)]
        assert {(score.turn, score.tags["model"]) for score in scores} == {(3, "first")}
        return {score.metric: score for score in scores}

    scores = measure(Reply(text="Well, bye.", finish="length", dropped=2))
    expected = {"characters": 10, "words": 2, "tokens": None, "dropped": 2}
    expected |= {"truncated": 1, "filtered": 0, "empty": 0}
    assert {metric: score.value for metric, score in scores.items()} == expected
    assert scores["tokens"].why == "not reported by the server"
    lost = measure(Skipped(because="utterance_5")).values()
    assert {(score.value, score.why) for score in lost} == {(None, "skipped: utterance_5")}
