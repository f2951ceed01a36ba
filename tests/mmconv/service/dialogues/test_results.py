"""What comes back: texts, verdicts with their reasons, deltas, and nothing made up for failures."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mmconv.api import DialogueResult
from mmconv.core.types import Failure, Outcome, Reply
from mmconv.service.dialogue_run import DialogueRun
from tests.mmconv.service.dialogues.samples import dialogue, finish

RATED = {"free": (4, 5, 6, 5), "perception": (None, 7, 6, 6), "reasoning": (None, None, 9, 8)}


def rated(ratings: tuple[int | None, ...]) -> dict[str, Outcome]:
    names = ("turn_1", "turn_2", "turn_3", "overall")
    return {
        f"direct/{name}": Reply(text=f"It is so.\nRating: {rating}", output_tokens=3)
        for name, rating in zip(names, ratings, strict=True)
    }


def read(run: DialogueRun, replies: Mapping[str, Mapping[str, Outcome]]) -> DialogueResult:
    """The result, its plans ended in reverse."""
    ended = [finish(plan, replies.get(plan.condition, {})) for plan in run.plans()]
    return run.result(reversed(ended))


@pytest.fixture
def whole() -> DialogueResult:
    return read(dialogue(), {name: rated(ratings) for name, ratings in RATED.items()})


def test_texts_and_verdicts(whole: DialogueResult) -> None:
    assert [each.condition for each in whole.conditions] == ["free", "perception", "reasoning"]
    perception = whole.conditions[1]
    given, own = perception.turns[:2]
    assert (given.given, given.text, given.judgements) == (True, "A kite.", ())
    assert (own.given, own.text) == (False, "turn_2 says so.")
    [judged] = own.judgements
    assert (judged.state, judged.score, judged.rationale) == ("parsed", 7, "It is so.")
    assert judged.prompt.startswith("direct_turn@")
    [overall] = perception.overall
    assert overall.score == 6


def test_deltas_are_those_of_turns_that_both_conditions_leave_to_the_model(
    whole: DialogueResult,
) -> None:
    found = {(each.start, each.goal, each.turn): each.value for each in whole.deltas}
    assert found == {
        ("free", "perception", 2): 2,
        ("free", "perception", 3): 0,
        ("free", "perception", 0): 1,
        ("perception", "reasoning", 3): 3,
        ("perception", "reasoning", 0): 2,
    }


def test_usage_counts_what_was_asked(whole: DialogueResult) -> None:
    assert (whole.usage.requested, whole.usage.cached) == (15, 0)
    assert whole.usage.output_tokens == 3 * 9


def test_a_failure_is_told_and_what_needs_it_is_skipped() -> None:
    failure = Failure(kind="timeout", message="at /secret/path", attempts=2)
    result = read(dialogue(), {"free": {**rated(RATED["free"]), "turn_2": failure}})
    first, second, third = result.conditions[0].turns
    assert first.text is not None
    assert (second.text, second.failed) == (None, "timeout")
    assert (third.text, third.skipped) == (None, "turn_2")
    [judged] = third.judgements
    assert (judged.state, judged.score, judged.why) == ("skipped", None, "skipped: turn_2")
    deltas = [each for each in result.deltas if each.start == "free"]
    assert all(each.value is None and each.why is not None for each in deltas)
    assert second.problem == "the model did not answer in time"


def test_an_unreadable_verdict_is_no_score() -> None:
    result = read(dialogue(), {})
    [judged] = result.conditions[0].turns[0].judgements
    assert (judged.state, judged.score, judged.why) == ("unparsed", None, "unparsed")
    assert judged.reply == "direct/turn_1 says so."
    assert {each.why for each in result.deltas} == {"free: unparsed", "perception: unparsed"}


def test_both_sides_count_in_a_comparison() -> None:
    asked = dialogue(gradings=["pairwise"], conditions=["free", "perception"])
    wins = Reply(text="Overall, Response A is better.")
    free: dict[str, Outcome] = {"pairwise_A/turn_2": wins, "pairwise_B/turn_2": wins}
    goal: dict[str, Outcome] = {
        "pairwise_A/turn_2": wins,
        "pairwise_B/turn_2": Reply(text="Overall, Response B is better."),
    }
    result = read(asked, {"free": free, "perception": goal})
    scores = [(each.side, each.score) for each in result.conditions[0].turns[1].judgements]
    assert scores == [("A", 1.0), ("B", 0.0)]
    [delta] = [each for each in result.deltas if each.turn == 2]
    assert delta.value == 0.5
