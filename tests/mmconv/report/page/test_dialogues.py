"""A sample's calls as conversations: turns, what was given, verdicts, what is lacking."""

from mmconv.benchmarks.convbench.options import word_side
from mmconv.core.types import UNASKED
from mmconv.report.data_quality import Record
from mmconv.report.page.dialogues import dialogue
from tests.mmconv.report.call_records import asked, judged, said

ONE, TWO = said("user", "one?"), said("user", "two?")


def shown(calls: list[Record]) -> list[tuple[int, list[str], list[tuple[str, bool]]]]:
    """Turn number, questions, and answers with whether they were given."""
    return [
        (
            turn["n"],
            [message["text"] for message in turn["asked"]],
            [(answer["text"], answer.get("given", False)) for answer in turn["answers"]],
        )
        for turn in dialogue(calls, word_side)["turns"]
    ]


def test_a_model_s_own_history_is_told_once() -> None:
    calls = [
        asked("turn_1", [ONE], "first"),
        asked("turn_2", [ONE, said("assistant", "first"), TWO], "second"),
    ]
    assert shown(calls) == [(1, ["one?"], [("first", False)]), (2, ["two?"], [("second", False)])]


def test_a_reference_turn_is_marked_as_given() -> None:
    calls = [asked("turn_2", [ONE, said("assistant", "truth"), TWO], "second")]
    assert shown(calls) == [(1, ["one?"], [("truth", True)]), (2, ["two?"], [("second", False)])]


def test_a_golden_history_stands_beside_the_model_s_answer_in_whatever_order_calls_ended() -> None:
    calls = [
        asked("turn_2", [ONE, said("assistant", "golden"), TWO], "second"),
        asked("turn_1", [ONE], "first"),
    ]
    assert shown(calls) == [
        (1, ["one?"], [("first", False), ("golden", True)]),
        (2, ["two?"], [("second", False)]),
    ]


def test_a_talk_of_a_model_with_itself_is_one_thread_though_roles_change() -> None:
    seed = [said("system", "be human"), said("assistant", "hello"), said("user", "hi")]
    turned = [said("system", "be human"), said("user", "hello"), said("assistant", "hi")]
    calls = [
        asked("utterance_3", seed, "how are you?"),
        asked("utterance_4", [*turned, said("user", "how are you?")], "fine"),
    ]
    texts = [answers for _, _, answers in shown(calls)]
    assert texts == [[("hello", True)], [("how are you?", False)], [("fine", False)]]
    assert [turn["n"] for turn in dialogue(calls, word_side)["turns"]] == [1, 3, 4]


def test_a_turn_asked_alone_keeps_its_number() -> None:
    assert shown([asked("turn_3", [ONE], "third")]) == [(3, ["one?"], [("third", False)])]


def test_verdicts_go_to_the_answer_that_they_judge_and_the_rest_stands_apart() -> None:
    calls = [
        asked("turn_1", [ONE], "first"),
        judged("direct/turn_1", "7", scores=[{"name": "rating", "value": 7.0}]),
        judged("pairwise_B/turn_1", "B", label="B"),
        judged("direct/overall", "8", scores=[{"name": "rating", "value": 8.0}]),
    ]
    document = dialogue(calls, word_side)
    [turn] = document["turns"]
    verdicts = [(each["call"], each["said"]) for each in turn["answers"][0]["verdicts"]]
    assert verdicts == [("direct/turn_1", "7"), ("pairwise_B/turn_1", "won (shown as B)")]
    assert [each["said"] for each in document["verdicts"]] == ["8"]


def test_a_verdict_read_by_a_rescue_counts_its_tries() -> None:
    unread = judged("direct/turn_1", "hm", parse="unparsed: no rating", rationale=None)
    again = judged("direct/turn_1~retry_1", "6", scores=[{"name": "rating", "value": 6.0}])
    [verdict] = dialogue([again, unread], word_side)["verdicts"]
    assert (verdict["said"], verdict["tries"]) == ("6", 2)
    [verdict] = dialogue([unread], word_side)["verdicts"]
    assert verdict["problem"] == "unreadable: no rating"
    assert verdict["text"] == "hm"


def test_a_failure_is_told_in_the_place_of_the_answer() -> None:
    failed = asked("turn_1", [ONE], None, state="failure", problem="timeout", finish=None)
    [turn] = dialogue([failed], word_side)["turns"]
    assert turn["answers"][0]["problem"] == "failed: timeout"


def test_what_has_yet_to_be_asked_is_no_problem() -> None:
    messages = [said("user", "What is there?")]
    waiting = asked("turn_1", messages, None, state="skipped", problem=UNASKED)
    lost = asked("turn_1", messages, None, state="skipped", problem="turn_0 failed")
    for call, waits in ((waiting, True), (lost, False)):
        [turn] = dialogue([call], word_side)["turns"]
        assert turn["answers"][0]["problem"]
        assert turn["answers"][0].get("waits", False) == waits
