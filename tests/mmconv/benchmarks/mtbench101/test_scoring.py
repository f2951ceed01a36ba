"""From replies to scores: both readings, reasons, the minimum and the mean."""

from __future__ import annotations

from collections.abc import Mapping

from mmconv.benchmarks.mtbench101.scoring import (
    Judged,
    authors_rating,
    score_answers,
    score_dialogue,
    turn_rating,
)
from mmconv.benchmarks.mtbench101.taxonomy import TASKS

from judges.parsers.mtbench101 import bracketed_rating
from mmconv.core.types import Call, Failure, Outcome, Reply, Score, Skipped

JUDGED = Judged(sample="5", task=TASKS["SI"], condition="golden")


def call(turn: int, retries: int = 0) -> Call:
    name = f"judge/turn_{turn}"
    fallbacks = tuple(
        Call(id=f"{name}~retry_{n + 1}", seat="judge", messages=(), parser=bracketed_rating)
        for n in range(retries)
    )
    return Call(id=name, seat="judge", messages=(), parser=bracketed_rating, fallbacks=fallbacks)


def scored(*judgements: str | Outcome, minimum: bool = True) -> list[Score]:
    """All scores of a dialogue whose turns were judged so."""
    calls, outcomes = {}, {}
    for turn, judgement in enumerate(judgements, start=1):
        calls[f"judge/turn_{turn}"] = call(turn)
        reply = Reply(text=judgement) if isinstance(judgement, str) else judgement
        outcomes[f"judge/turn_{turn}"] = reply
    turns = range(1, len(judgements) + 1)
    return list(score_dialogue(JUDGED, turns, calls, outcomes, minimum=minimum))


def values(scores: list[Score], metric: str) -> list[float | str | None]:
    return [
        score.why if score.value is None else score.value
        for score in scores
        if score.metric == metric
    ]


def test_a_dialogue_is_its_least_turn() -> None:
    scores = scored("Rating: [[9]]", "Rating: [[4]]", "Rating: [[8]]")
    assert values(scores, "rating") == [9, 4, 8]
    assert values(scores, "dialogue") == [4]
    assert values(scored("[[9]]", "[[4]]", "[[8]]", minimum=False), "dialogue") == [7]


def test_every_score_says_task_ability_and_group() -> None:
    for score in scored("Rating: [[9]]"):
        tiers = {name: score.tags[name] for name in ("task", "ability", "group")}
        assert tiers == {"task": "SI", "ability": "understanding", "group": "perceptivity"}
        assert (score.sample, score.condition) == ("5", "golden")


def test_what_is_unscored_says_why_and_leaves_the_dialogue_unscored() -> None:
    scores = scored(
        "Rating: [[9]]",
        "See [3]. Rating: [[12]]",
        "No idea.",
        Failure(kind="timeout", message="", attempts=3),
        Skipped(because="turn_5"),
    )
    reasons = ["out of range", "unparsed", "failed: timeout", "skipped: turn_5"]
    assert values(scores, "rating") == [9, *reasons]
    assert values(scores, "authors") == [9, 3, "no [n]", "failed: timeout", "skipped: turn_5"]
    assert values(scores, "dialogue") == ["out of range"]


def test_the_readings_are_compared() -> None:
    scores = scored("[[9]]", "As [1]: Rating: [[9]]", "[7]", "nothing", "Rating: [[7.5]]")
    compared = [score.tags["reading"] for score in scores if score.metric == "authors"]
    assert compared == [
        "same as ours",
        "another number",
        "read by the authors only",
        "not read",
        "not read",
    ]


def test_a_retry_counts_for_us_and_not_for_the_authors() -> None:
    asked = call(1, retries=1)
    for first, why in (
        (Reply(text="Well."), "no [n]"),
        (Failure(kind="server", message="", attempts=1), "failed: server"),
    ):
        outcomes: Mapping[str, Outcome] = {
            "judge/turn_1": first,
            "judge/turn_1~retry_1": Reply(text="Rating: [[6]]"),
        }
        assert turn_rating(JUDGED, 1, asked, outcomes).value == 6
        assert authors_rating(JUDGED, 1, asked, outcomes, ours=6).why == why


def test_answers_are_measured() -> None:
    outcomes: dict[str, Outcome] = {
        "turn_1": Reply(text="a b", finish="length", output_tokens=2),
        "turn_2": Reply(text="a"),
        "turn_3": Failure(kind="context", message="", attempts=1),
        "turn_4": Skipped(because="turn_3"),
    }
    scores = list(score_answers(JUDGED, (1, 2, 3, 4), outcomes))
    assert values(scores, "truncated") == [1, 0, "failed: context", "skipped: turn_3"]
    assert values(scores, "tokens") == [
        2,
        "not told by the server",
        "failed: context",
        "skipped: turn_3",
    ]
