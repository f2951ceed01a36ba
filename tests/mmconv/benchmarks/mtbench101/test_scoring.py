"""From replies to scores: both readings, reasons, the minimum and the mean."""

from pathlib import Path

from mmconv.benchmarks.mtbench101 import Dialogue, MTBench101
from mmconv.core.types import Failure, Outcome, Reply, Score, Skipped
from tests.mmconv.benchmarks.mtbench101.dialogues import spec


def scored(*judgements: str | Outcome, retry: str = "", minimum: bool = True) -> list[Score]:
    """All scores of a dialogue whose turns were judged so; `retry` answers the first one's."""
    benchmark = MTBench101(spec(Path("unread.jsonl"), minimum=minimum, judge_retries=bool(retry)))
    turn = {"user": "u", "bot": "b"}
    history = [turn] * len(judgements)
    sample = Dialogue.model_validate({"id": "5", "task": "SI", "history": history})
    calls = {call.id: call for call in benchmark.plan(sample, "golden")}
    outcomes: dict[str, Outcome] = {"judge/turn_1~retry_1": Reply(text=retry)}
    for number, judgement in enumerate(judgements, start=1):
        outcomes[f"turn_{number}"] = Reply(text="a")
        reply = Reply(text=judgement) if isinstance(judgement, str) else judgement
        outcomes[f"judge/turn_{number}"] = reply
    return benchmark.scores(sample, "golden", calls, outcomes)


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


def test_every_score_has_task_ability_and_group() -> None:
    for score in scored("Rating: [[9]]"):
        tiers = {name: score.tags[name] for name in ("task", "ability", "group")}
        assert tiers == {"task": "SI", "ability": "understanding", "group": "perceptivity"}
        assert (score.sample, score.condition) == ("5", "golden")


def test_unscored_turns_have_a_reason_and_leave_the_dialogue_unscored() -> None:
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
    down = Failure(kind="server", message="", attempts=1)
    for first, reason in (("Well.", "no [n]"), (down, "failed: server")):
        scores = scored(first, retry="Rating: [[6]]")
        assert (values(scores, "rating"), values(scores, "authors")) == ([6], [reason])
