"""What became of answers and verdicts, counted call by call."""

from __future__ import annotations

from mmconv.core.types import SAME_TEXT
from mmconv.report.page.losses import Losses
from tests.mmconv.report.call_records import asked, judged, said


def test_losses_are_counted_where_they_happened() -> None:
    losses = Losses()
    losses.add(
        "1",
        [
            asked("turn_1", [said("user", "one?")], "first", finish="length"),
            asked("turn_2", None, None, state="failure", problem="timeout", finish=None),
            judged("direct/turn_1", "?", parse="unparsed: no", condition="free"),
            judged("direct/turn_1~retry_1", "6"),
            judged("direct/turn_2", "?", state="skipped", parse=None, problem="turn_2"),
        ],
    )
    answers, verdicts, problems = losses.tables()
    assert answers.rows["free, turn_1"]["cut off"].value == 1
    assert answers.rows["free, turn_2"]["failed"].value == 1
    assert verdicts.rows["free, direct/turn_1"]["read when asked again"].value == 1
    assert verdicts.rows["free, direct/turn_2"]["not asked"].value == 1
    assert problems.rows["candidate: timeout"]["for instance sample"].value == "1"
    assert losses.any
    assert losses.sentence() == ("Of 2 answers, 1 cut off, 1 failed; of 2 verdicts, 1 not asked.")


def test_rows_of_losses_stand_in_the_order_of_turns_however_calls_ended() -> None:
    losses = Losses()
    ended = ("pairwise_B/turn_1", "direct/turn_1", "direct/overall", "direct/turn_2")
    losses.add("1", [judged(call, "?") for call in ended])
    later = ("direct/overall", "pairwise_A/turn_1", "direct/turn_10")
    losses.add("2", [judged(call, "?", condition="perception") for call in later])
    [verdicts] = losses.tables()
    assert list(verdicts.rows) == [
        "free, direct/turn_1",
        "free, direct/turn_2",
        "free, direct/overall",
        "free, pairwise_B/turn_1",
        "perception, direct/turn_10",
        "perception, direct/overall",
        "perception, pairwise_A/turn_1",
    ]


def test_a_comparison_of_equal_texts_is_no_loss() -> None:
    losses = Losses()
    losses.add("1", [judged("duel", "", state="skipped", parse=None, problem=SAME_TEXT)])
    [verdicts] = losses.tables()
    assert verdicts.rows["free, duel"]["of the same text"].value == 1
    assert not losses.any
