"""Data quality: the status of verdicts, what counts, and which warnings come before the numbers."""

from typing import Any

import pytest

from mmconv.core.types import SAME_TEXT, Cell, Table
from mmconv.report.data_quality import (
    STATUSES,
    DataQuality,
    Record,
    deciding_attempt,
    find_notable,
    group_attempts,
    headline_gap,
    quality_tables,
    summarise_quality,
    verdict_status,
)
from tests.mmconv.report.call_records import asked, judged

NAME = "direct/turn_1"


def answer(call: str = "turn_1", text: str | None = "Yes.", **fields: Any) -> Record:
    return asked(call, None, text, **fields)


def verdict(*parses: str) -> list[Record]:
    """The records of one verdict: its call and its fallbacks."""
    names = (NAME, f"{NAME}~retry_1", f"{NAME}~extract")
    return [judged(name, parse, parse=parse) for name, parse in zip(names, parses, strict=False)]


def attempts(**parses: str) -> list[Record]:
    """A first reply that cannot be read, and fallbacks by their kinds."""
    fallbacks = [judged(f"{NAME}~{kind}", kind, parse=parse) for kind, parse in parses.items()]
    return [judged(NAME, "?", parse="unparsed: no"), *fallbacks]


def lost(state: str, problem: str) -> list[Record]:
    return [judged(NAME, "", state=state, problem=problem, parse=None, finish=None)]


def counted(*samples: list[Record]) -> DataQuality:
    quality = DataQuality()
    for number, calls in enumerate(samples):
        quality.add([call | {"sample": str(number)} for call in calls])
    return quality


def sentences(quality: DataQuality, least: float = 0.01) -> list[str]:
    return [*quality.losses(least)]


EXAMPLES: dict[str, list[Record]] = {
    "read": [judged(NAME, "6")],
    "read after a retry": attempts(retry_1="unparsed: no", retry_2="parsed"),
    "read by the extraction prompt": attempts(retry_1="unparsed: no", extract="parsed"),
    "incomplete": attempts(retry_1="incomplete: lacks 2", retry_2="incomplete: lacks 12"),
    "unreadable": [*attempts(), judged(f"{NAME}~retry_1", "", state="failure", parse=None)],
    "failed": lost("failure", "timeout"),
    "not requested": lost("skipped", "turn_1"),
    "same text": lost("skipped", SAME_TEXT),
}
"""A status and the calls of a verdict that has it."""


def test_every_status_has_an_example() -> None:
    assert [*EXAMPLES] == [*STATUSES]


@pytest.mark.parametrize("status", EXAMPLES)
def test_a_verdict_has_one_status_in_all_counts(status: str) -> None:
    [(turn, calls)] = group_attempts(EXAMPLES[status]).items()
    assert turn == ("free", NAME)
    assert verdict_status(calls) == status
    quality = counted(EXAMPLES[status])
    [table] = [t for t in quality_tables({"": quality}) if t.name == "verdicts_by_call"]
    assert table.columns == (status,)
    has_reply = status not in ("failed", "not requested", "same text")
    assert +quality.judged() == ({status: 1} if has_reply else {})


def test_attempts_are_ordered_and_the_first_that_was_read_decides() -> None:
    kinds = [f"retry_{number}" for number in range(1, 12)]
    calls = attempts(**dict.fromkeys([*kinds, "extract"], "parsed"))
    [(_, ordered)] = group_attempts(calls[::-1]).items()
    names = [NAME, *(f"{NAME}~{kind}" for kind in [*kinds, "extract"])]
    assert [call["call"] for call in ordered] == names
    assert (deciding_attempt(ordered) or {})["text"] == "retry_1"
    assert deciding_attempt(attempts()) is None
    other = judged(NAME, "7", condition="perception")
    assert [*group_attempts([judged(NAME, "6"), other])] == [("free", NAME), ("perception", NAME)]


def test_the_first_verdict_that_misses_least_decides() -> None:
    parses = {"retry_1": "incomplete: lacks 12", "retry_2": "incomplete: lacks 2"}
    decisive = deciding_attempt(attempts(**parses, retry_3="incomplete: lacks 2"))
    assert (decisive or {})["text"] == "retry_2"
    assert verdict_status(attempts(**parses, retry_3="parsed")) == "read after a retry"


WELL = [answer(), *verdict("parsed")]


def test_a_good_run_has_no_warning() -> None:
    rare = [answer(state="failure", problem="timeout")]
    same = [answer("duel", state="skipped", problem=SAME_TEXT)]
    retried = verdict("unparsed: no", "parsed")
    assert sentences(counted(*[WELL] * 60, rare, *[same] * 60)) == []
    assert sentences(counted(*[WELL] * 97, *[retried] * 3)) == []
    assert sentences(DataQuality(), least=0) == []


def test_calls_without_a_reply_have_a_share() -> None:
    calls = [
        answer(state="failure", problem="timeout"),
        answer("turn_2", state="skipped", problem="turn_1"),
        answer("turn_3", state="skipped", problem="turn_2"),
    ]
    parts = "have no reply: 1 failed, 2 were not requested."
    assert sentences(counted(WELL, WELL, calls)) == [f"3 of 7 calls (42.9 %) {parts}"]
    rare = counted(*[WELL] * 500, calls)
    assert sentences(rare, least=0) == [f"3 of 1,003 calls (0.3 %) {parts}"]


def test_verdicts_that_were_not_read_at_once_have_a_share() -> None:
    unread = verdict("unparsed: no", "unparsed: no", "unparsed: no")
    extracted = verdict("unparsed: no", "unparsed: no", "parsed")
    retried = verdict("unparsed: no", "parsed")
    assert sentences(counted(WELL, WELL, WELL, unread)) == [
        "1 of 4 verdicts (25.0 %) could not be read: scores that need them are missing."
    ]
    assert sentences(counted(WELL, extracted)) == [
        "1 of 2 verdicts (50.0 %) were only read by the extraction prompt."
    ]
    assert sentences(counted(extracted, extracted, retried, WELL)) == [
        "3 of 4 verdicts (75.0 %) were only read after a retry (1) or by the extraction prompt (2)."
    ]


def test_verdicts_that_were_cut_off_are_counted_by_status() -> None:
    def cut(*parses: str) -> list[Record]:
        first, *others = verdict(*parses)
        return [first | {"finish": "length"}, *others]

    unread = verdict("unparsed: no"), cut("unparsed: cut off before its verdict")
    partial = cut("incomplete: lacks 1"), verdict("incomplete: lacks 2", "incomplete: lacks 1")
    later = cut("unparsed: cut off", "parsed"), cut("unparsed: cut off", "unparsed: no", "parsed")
    assert sentences(counted(*unread, *partial, *later, cut("parsed"))) == [
        "2 of 7 verdicts (28.6 %) could not be read (1 of them cut off at judge_max_tokens): "
        "scores that need them are missing.",
        "2 of 7 verdicts (28.6 %) are incomplete (1 of them cut off at judge_max_tokens): a turn "
        "or criterion is missing, or a score is off the scale; scores that need it are missing.",
        "2 of 7 verdicts (28.6 %) were only read after a retry (1) or by the extraction "
        "prompt (1) (2 of them cut off at judge_max_tokens).",
    ]


def test_the_headline_s_gap_is_that_of_the_first_row() -> None:
    def gaps(*tables: Table) -> list[str]:
        return [*headline_gap(tables)]

    def table(**row: Cell) -> Table:
        rows = {"R1": row, "S1": {"direct": Cell(value=1.0, n=1, missing={"unparsed": 59})}}
        return Table(name="t", title="t", columns=("meaning", "direct", "pairwise"), rows=rows)

    meaning, whole = Cell(value="mean"), Cell(value=1.0, n=60)
    gap = Cell(value=1.0, n=22, missing={"unparsed": 30, "failed: server": 8})
    larger = Cell(value=1.0, n=900, missing={"unparsed": 100})
    empty = Table(name="none", title="none", columns=(), rows={})
    expected = ["R1, pairwise: 38 of 60 scores (63.3 %) are missing."]
    assert gaps(empty, table(meaning=meaning, direct=whole, pairwise=gap)) == expected
    assert gaps(table(direct=larger, pairwise=gap)) == expected
    assert gaps(table(meaning=meaning, direct=whole)) == gaps() == []


def ended(name: str, count: int, well: int = 0, **fields: Any) -> list[list[Record]]:
    """Samples whose answers to a call ended in a way, and others whose answers ended well."""
    return [[answer(name, **fields)]] * count + [[answer(name)]] * well


def test_turns_that_were_cut_off_come_first_with_their_limit() -> None:
    cut: dict[str, Any] = {"finish": "length", "output_tokens": 64}
    samples = ended("turn_3", 2, well=6, **cut) + ended("turn_2", 1, well=19, **cut)
    samples += ended("turn_3", 8, condition="reasoning", **cut)
    samples += [verdict("unparsed: no")]
    cut_off, unread = find_notable(counted(*samples), [])
    assert cut_off == (
        "More than 5 % of a turn's answers were cut off; their scores measure the limit of 64 "
        "tokens, not the model: reasoning, turn 3 (8 of 8, 100.0 %); free, turn 3 (2 of 8, 25.0 "
        "%)."
    )
    assert unread.startswith("1 of 1 verdicts (100.0 %) could not be read: ")
    samples += ended("turn_1", 1, finish="length", output_tokens=None)
    [first, *_] = counted(*samples).endings()
    assert "their scores measure the token limit, not the model: " in first


def test_filtered_empty_and_unknown_endings_are_warnings() -> None:
    samples = ended("turn_1", 6, well=4, finish="filter", text="I cannot")
    samples += ended("turn_2", 1, well=1, text=" ") + ended("turn_3", 1, well=1, finish="unknown")
    filtered, empty, unknown = counted(*samples).endings()
    assert filtered == (
        "More than 5 % of a turn's answers were held back by a content filter; their scores are "
        "missing or measure the filter, not the model: free, turn 1 (6 of 10, 60.0 %)."
    )
    assert empty.endswith("they were judged like any other answer: free, turn 2 (1 of 2, 50.0 %).")
    assert unknown == (
        "More than 5 % of a turn's answers ended for an unknown reason; they may have been cut "
        "off: free, turn 3 (1 of 2, 50.0 %)."
    )


def test_an_answer_that_a_filter_withheld_counts_as_filtered() -> None:
    nothing: dict[str, Any] = {"state": "failure", "text": None, "finish": None}
    samples = ended("turn_1", 1, finish="filter")
    samples += ended("turn_1", 2, well=1, problem="filter after 1 attempt: no", **nothing)
    samples += ended("turn_1", 5, problem="rejected after 1 attempt: a filter", **nothing)
    [notable] = counted(*samples).endings()
    assert notable.endswith("free, turn 1 (3 of 4, 75.0 %).")


def test_only_the_candidate_s_worst_turns_are_named() -> None:
    assert list(counted(*ended("turn_1", 9, finish="length", model="opponent")).endings()) == []
    many = [sample for turn in range(8) for sample in ended(f"turn_{turn}", 1, text="")]
    [notable] = counted(*many).endings()
    assert notable.endswith("free, turn 5 (1 of 1, 100.0 %); and 2 more turns.")
    assert notable.startswith("More than 1 % of a turn's answers are empty; ")
    assert list(counted(*ended("turn_1", 1, well=99, text="")).endings()) == []
    assert list(counted(*ended("turn_1", 2, well=98, text="\n")).endings())


def test_losses_are_counted_by_call() -> None:
    runs = {
        "": counted(
            [
                answer("turn_1", finish="length"),
                answer("turn_2", None, state="failure", problem="timeout", finish=None),
                *attempts(retry_1="parsed"),
                judged("direct/turn_2", "?", state="skipped", parse=None, problem="turn_2"),
            ]
        )
    }
    answers, verdicts, problems = quality_tables(runs)
    assert answers.rows["free, turn_1"]["cut off"].value == 1
    assert answers.rows["free, turn_2"]["failed"].value == 1
    assert verdicts.rows["free, direct/turn_1"]["read after a retry"].value == 1
    assert verdicts.rows["free, direct/turn_2"]["not requested"].value == 1
    assert problems.rows["candidate: timeout"]["sample"].value == "0"
    sentence = "Of 2 answers, 1 cut off, 1 failed; of 2 verdicts, 1 not requested."
    assert summarise_quality(runs) == (sentence, True)
    assert not summarise_quality({"": counted(EXAMPLES["same text"])})[1]


def test_rows_are_in_the_order_of_conditions_and_turns() -> None:
    first = ("pairwise_B/turn_1", "direct/turn_1", "direct/overall", "direct/turn_2")
    later = ("direct/overall", "pairwise_A/turn_1", "direct/turn_10")
    quality = counted(
        [judged(call, "?") for call in first],
        [judged(call, "?", condition="perception") for call in later],
    )
    [verdicts] = quality_tables({"": quality})
    assert list(verdicts.rows) == [
        "free, direct/turn_1",
        "free, direct/turn_2",
        "free, direct/overall",
        "free, pairwise_B/turn_1",
        "perception, direct/turn_10",
        "perception, direct/overall",
        "perception, pairwise_A/turn_1",
    ]
