"""What is told of a run before its numbers: nothing if all is well, and shares where it is not."""

from __future__ import annotations

from typing import Any

from mmconv.core.types import SAME_TEXT, Cell, Table
from mmconv.report.data_quality import Shortfall, headline_gap, tell_notable


def call(name: str, parse: str | None = None, **fields: Any) -> dict[str, Any]:
    told = {"call": name, "condition": "free", "state": "reply", "problem": None, "parse": parse}
    ended = {"model": "candidate", "text": "Yes.", "finish": "stop", "output_tokens": 2}
    return told | ended | fields


def judged(*replies: str) -> list[dict[str, Any]]:
    """The records of one verdict: its call and the rescues that were asked."""
    names = ("direct/turn_1", "direct/turn_1~retry_1", "direct/turn_1~extract")
    tries = zip(names, replies, strict=False)
    return [call(name, parse, model="judge") for name, parse in tries]


def counted(*samples: list[dict[str, Any]]) -> Shortfall:
    shortfall = Shortfall()
    for records in samples:
        shortfall.add(records)
    return shortfall


WELL = [call("turn_1"), *judged("parsed")]


def test_nothing_is_told_of_a_run_in_which_all_went_well() -> None:
    rare = [call("turn_1", state="failure", problem="timeout")]
    same = [call("duel", state="skipped", problem=SAME_TEXT)]
    assert list(counted(*[WELL] * 60, rare, *[same] * 60).sentences()) == []
    assert list(Shortfall().sentences(least=0)) == []


def test_calls_without_a_reply_are_told_by_their_share() -> None:
    lost = [
        call("turn_1", state="failure", problem="timeout"),
        call("turn_2", state="skipped", problem="turn_1"),
        call("turn_3", state="skipped", problem="turn_2"),
    ]
    assert list(counted(WELL, WELL, lost).sentences()) == [
        "3 of 7 calls (42.9 %) have no reply: 1 failed, 2 were not asked."
    ]
    assert list(counted(*[WELL] * 500, lost).sentences(least=0)) == [
        "3 of 1,003 calls (0.3 %) have no reply: 1 failed, 2 were not asked."
    ]


def test_verdicts_are_told_that_no_reply_or_only_a_later_one_gave() -> None:
    unread = judged("unparsed: no", "unparsed: no", "unparsed: no")
    extracted = judged("unparsed: no", "unparsed: no", "parsed")
    again = judged("unparsed: no", "parsed")
    assert list(counted(WELL, WELL, WELL, unread).sentences()) == [
        "1 of 4 verdicts (25.0 %) could not be read: scores that need them are missing."
    ]
    assert list(counted(WELL, extracted).sentences()) == [
        "1 of 2 verdicts (50.0 %) were read only by the extraction prompt."
    ]
    assert list(counted(extracted, extracted, again, WELL).sentences()) == [
        "3 of 4 verdicts (75.0 %) were read only when the judge was asked again (1) or by the "
        "extraction prompt (2)."
    ]


def test_a_few_verdicts_that_only_a_later_reply_gave_are_no_news() -> None:
    again = judged("unparsed: no", "parsed")
    assert list(counted(*[WELL] * 97, *[again] * 3).sentences()) == []


def test_the_headline_s_gap_is_that_of_the_first_row() -> None:
    def table(**row: Cell) -> Table:
        rows = {"R1": row, "S1": {"direct": Cell(value=1.0, n=1, missing={"unparsed": 59})}}
        return Table(name="t", title="t", columns=("meaning", "direct", "pairwise"), rows=rows)

    meaning, whole = Cell(value="mean"), Cell(value=1.0, n=60)
    gap = Cell(value=1.0, n=22, missing={"unparsed": 30, "failed: server": 8})
    empty = Table(name="none", title="none", columns=(), rows={})
    told = ["R1, pairwise, lacks 38 of 60 scores (63.3 %)."]
    found = headline_gap([empty, table(meaning=meaning, direct=whole, pairwise=gap)])
    assert [each.sentence for each in found] == told
    assert list(headline_gap([table(meaning=meaning, direct=whole)])) == []
    assert list(headline_gap([])) == []
    larger = Cell(value=1.0, n=900, missing={"unparsed": 100})
    found = headline_gap([table(direct=larger, pairwise=gap)])
    assert [each.sentence for each in found] == told


def ended(name: str, count: int, well: int = 0, **fields: Any) -> list[list[dict[str, Any]]]:
    """Samples whose answers to a call ended in a way, and others whose answers ended well."""
    return [[call(name, **fields)]] * count + [[call(name)]] * well


def test_turns_that_were_cut_off_are_told_first_and_by_their_limit() -> None:
    cut: dict[str, Any] = {"finish": "length", "output_tokens": 64}
    records = ended("turn_3", 2, well=6, **cut) + ended("turn_2", 1, well=19, **cut)
    records += ended("turn_3", 8, condition="reasoning", **cut)
    records += [[call("direct/turn_1", "unparsed: no", model="judge")]]
    cut_off, unread = tell_notable(counted(*records), [])
    assert cut_off == (
        "More than 5 % of a turn's answers were cut off, so that scores of these turns measure "
        "the limit of 64 tokens, not the model: reasoning, turn 3 (8 of 8, 100.0 %); free, turn 3 "
        "(2 of 8, 25.0 %)."
    )
    assert unread.startswith("1 of 1 verdicts ")


def test_a_limit_that_is_not_the_same_is_not_named() -> None:
    records = ended("turn_1", 1, finish="length", output_tokens=64)
    records += ended("turn_1", 1, finish="length", output_tokens=None)
    [told] = counted(*records).endings()
    assert "measure the limit on tokens, not the model: free, turn 1 (2 of 2" in told.sentence


def test_answers_that_a_filter_held_back_or_that_are_empty_are_told() -> None:
    records = ended("turn_1", 6, well=4, finish="filter", text="I cannot")
    records += ended("turn_2", 1, well=1, text=" ")
    filtered, empty = counted(*records).endings()
    assert filtered.sentence == (
        "More than 5 % of a turn's answers were held back by a filter, so that scores of these "
        "turns are missing or measure that filter, not the model: free, turn 1 (6 of 10, 60.0 "
        "%)."
    )
    assert empty.sentence.endswith(
        "measure answers that are not there: free, turn 2 (1 of 2, 50.0 %)."
    )


def test_what_a_filter_left_nothing_of_is_counted_with_the_answers() -> None:
    nothing: dict[str, Any] = {"state": "failure", "text": None, "finish": None}
    records = ended("turn_1", 1, finish="filter")
    records += ended("turn_1", 2, well=1, problem="filter after 1 attempt: no", **nothing)
    records += ended("turn_1", 5, problem="rejected after 1 attempt: a filter", **nothing)
    [told] = counted(*records).endings()
    assert told.sentence.endswith("free, turn 1 (3 of 4, 75.0 %).")


def test_answers_that_ended_for_no_known_reason_are_told() -> None:
    [told] = counted(*ended("turn_1", 1, well=1, finish="unknown")).endings()
    assert told.sentence == (
        "More than 5 % of a turn's answers ended for no known reason; they may have been cut "
        "off: free, turn 1 (1 of 2, 50.0 %)."
    )


def test_only_the_candidate_s_answers_count_and_only_their_worst_turns_are_named() -> None:
    other = ended("turn_1", 9, finish="length", model="opponent")
    assert list(counted(*other).endings()) == []
    many = [each for turn in range(8) for each in ended(f"turn_{turn}", 1, text="")]
    [told] = counted(*many).endings()
    assert told.sentence.endswith("free, turn 5 (1 of 1, 100.0 %); and 2 more turns.")
    assert told.short == "More than 1 % of a turn's answers are empty"


def test_more_than_one_in_a_hundred_empty_answers_is_a_warning() -> None:
    assert list(counted(*ended("turn_1", 1, well=99, text="")).endings()) == []
    [notable] = counted(*ended("turn_1", 2, well=98, text="\n")).endings()
    assert notable.sentence.startswith("More than 1 % of a turn's answers are empty")
    assert notable.sentence.endswith("free, turn 1 (2 of 100, 2.0 %).")


def test_verdicts_that_were_cut_off_are_told_by_what_became_of_them() -> None:
    def cut(*replies: str) -> list[dict[str, Any]]:
        first, *others = judged(*replies)
        return [first | {"finish": "length"}, *others]

    unread = judged("unparsed: no"), cut("unparsed: cut off before its verdict")
    partial = cut("incomplete: lacks 1"), judged("incomplete: lacks 2", "incomplete: lacks 1")
    later = cut("unparsed: cut off", "parsed"), cut("unparsed: cut off", "unparsed: no", "parsed")
    assert list(counted(*unread, *partial, *later, cut("parsed")).sentences()) == [
        "2 of 7 verdicts (28.6 %) could not be read (1 of them cut off at judge_max_tokens): "
        "scores that need them are missing.",
        "2 of 7 verdicts (28.6 %) lack a turn or a criterion, or have a score off the scale (1 of "
        "them cut off at judge_max_tokens): scores that need those are missing.",
        "2 of 7 verdicts (28.6 %) were read only when the judge was asked again (1) or by the "
        "extraction prompt (1) (2 of them cut off at judge_max_tokens).",
    ]
