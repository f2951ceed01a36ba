"""What the page is made of: conversations, index, texts of cells, plots."""

from __future__ import annotations

import re

import pytest

from mmconv.report.page.convbench import verdict_words
from mmconv.report.page.dialogues import Record, dialogue
from mmconv.report.page.display import grid
from mmconv.report.page.index import Index
from mmconv.report.page.losses import cost_table
from mmconv.report.page.plots import Point, Series, sideways, upright
from mmconv.run_folder.layout import SeatSummary
from mmconv.values import UNASKED, Cell, Table
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
        for turn in dialogue(calls, verdict_words)["turns"]
    ]


def test_a_model_s_own_history_is_told_once() -> None:
    calls = [
        asked("turn_1", [ONE], "first"),
        asked("turn_2", [ONE, said("assistant", "first"), TWO], "second"),
    ]
    assert shown(calls) == [
        (1, ["one?"], [("first", False)]),
        (2, ["two?"], [("second", False)]),
    ]


def test_a_reference_turn_is_marked_as_given() -> None:
    calls = [asked("turn_2", [ONE, said("assistant", "truth"), TWO], "second")]
    assert shown(calls) == [
        (1, ["one?"], [("truth", True)]),
        (2, ["two?"], [("second", False)]),
    ]


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
    assert [turn["n"] for turn in dialogue(calls, verdict_words)["turns"]] == [1, 3, 4]


def test_a_turn_asked_alone_keeps_its_number() -> None:
    assert shown([asked("turn_3", [ONE], "third")]) == [(3, ["one?"], [("third", False)])]


def test_verdicts_go_to_the_answer_that_they_judge_and_the_rest_stands_apart() -> None:
    calls = [
        asked("turn_1", [ONE], "first"),
        judged("direct/turn_1", "7", scores=[{"name": "rating", "value": 7.0}]),
        judged("pairwise_B/turn_1", "B", label="B"),
        judged("direct/overall", "8", scores=[{"name": "rating", "value": 8.0}]),
    ]
    document = dialogue(calls, verdict_words)
    [turn] = document["turns"]
    told = [(each["call"], each["said"]) for each in turn["answers"][0]["verdicts"]]
    assert told == [("direct/turn_1", "7"), ("pairwise_B/turn_1", "won (shown as B)")]
    assert [each["said"] for each in document["verdicts"]] == ["8"]


def test_a_verdict_read_by_a_rescue_counts_its_tries() -> None:
    unread = judged("direct/turn_1", "hm", parse="unparsed: no rating", rationale=None)
    again = judged("direct/turn_1~retry_1", "6", scores=[{"name": "rating", "value": 6.0}])
    [verdict] = dialogue([again, unread], verdict_words)["verdicts"]
    assert (verdict["said"], verdict["tries"]) == ("6", 2)
    [verdict] = dialogue([unread], verdict_words)["verdicts"]
    assert verdict["problem"] == "unreadable: no rating"
    assert verdict["text"] == "hm"


def test_a_failure_is_told_in_the_place_of_the_answer() -> None:
    failed = asked("turn_1", [ONE], None, state="failure", problem="timeout", finish=None)
    [turn] = dialogue([failed], verdict_words)["turns"]
    assert turn["answers"][0]["problem"] == "failed: timeout"


def test_what_was_not_asked_says_for_want_of_what() -> None:
    skipped = asked("turn_2", None, None, state="skipped", problem="turn_1", finish=None)
    [turn] = dialogue([skipped], verdict_words)["turns"]
    assert turn["answers"][0]["problem"] == "not asked, without an answer in turn 1"


def score(turn: int, value: float | None, why: str | None = None, **tags: str) -> Record:
    return {
        "condition": "free",
        "metric": "rating",
        "turn": turn,
        "value": value,
        "why": why,
        "tags": [{"name": name, "value": tag} for name, tag in tags.items()],
    }


def indexed(*samples: list[Record]) -> Record:
    index = Index(marks={"0": ("mended",)})
    for number, scores in enumerate(samples):
        index.add(str(number), [scores], {"pictures": [], "columns": []})
    return index.document()


def test_the_index_has_scores_reasons_and_marks() -> None:
    document = indexed([score(1, 4.0), score(2, None, "unparsed")], [score(1, 5.0)])
    assert document["columns"] == [[0, "free", "rating", 1, ""], [0, "free", "rating", 2, ""]]
    assert [each["s"] for each in document["samples"]] == [[4.0, "unparsed"], [5.0, None]]
    assert document["reasons"] == {"unparsed": "with an unreadable verdict"}
    assert document["marks"] == ["mended"]
    assert [each.get("m") for each in document["samples"]] == [[0], None]


def test_scores_of_one_metric_are_told_apart_by_the_tags_in_which_a_sample_s_differ() -> None:
    document = indexed(
        [
            score(1, 0.0, model="echo", task="a", cluster="x"),
            score(1, None, "unparsed", model="GT", task="a", cluster="x"),
            score(2, 7.0, task="a", side="A"),
        ],
        [score(1, 1.0, model="echo", task="b"), score(2, 8.0, task="b", side="B")],
    )
    turn_1 = [column for column in document["columns"] if column[3] == 1]
    assert turn_1 == [[0, "free", "rating", 1, "echo"], [0, "free", "rating", 1, "GT"]]
    # in no sample a score of turn 2 stands beside another
    assert [0, "free", "rating", 2, ""] in document["columns"]
    assert [each["s"] for each in document["samples"]] == [[0.0, "unparsed", 7.0], [1.0, None, 8.0]]


def test_what_runs_are_of_is_one_column_where_they_are_compared() -> None:
    index = Index(labels=("echo", "other"))
    runs = [
        [score(1, value, model=label), score(1, 1.0, model="GT")]
        for label, value in (("echo", 0.0), ("other", 0.5))
    ]
    index.add("0", runs, {"pictures": [], "columns": []})
    told = [(run, apart) for run, _, _, _, apart in index.document()["columns"]]
    assert told == [(0, "the run's own"), (0, "GT"), (1, "the run's own"), (1, "GT")]


def test_a_number_that_tells_scores_apart_has_its_tag_s_name() -> None:
    orders = [score(1, 1.0, order=order, reading="ours") for order in ("1", "2")]
    document = indexed(orders, [score(1, 0.0, order="1", reading="authors")])
    assert [column[4] for column in document["columns"]] == ["order 1", "order 2"]
    assert [each["s"] for each in document["samples"]] == [[1.0, 1.0], [0.0, None]]


def test_scores_that_nothing_tells_apart_are_numbered_and_not_averaged() -> None:
    document = indexed([score(1, 4.0), score(1, 5.0)])
    assert [column[4] for column in document["columns"]] == ["", "2"]
    assert document["samples"][0]["s"] == [4.0, 5.0]


def test_trials_are_a_facet_where_there_are_several() -> None:
    index = Index()
    for name in ("1", "1#2", "2", "2#2"):
        index.add(name, [[score(1, 1.0)]], {"pictures": [], "columns": []})
    document = index.document()
    [facet] = document["facets"]
    assert (facet["name"], facet["values"]) == ("trial", [[None, "trial 1"], [None, "trial 2"]])
    assert [each["f"] for each in document["samples"]] == [[[0]], [[1]], [[0]], [[1]]]
    assert indexed([score(1, 1.0)], [score(1, 2.0)])["facets"] == []


@pytest.mark.parametrize("names", ["abcdefghi", "aaabbbccc", "abcbcacab", "aaaaaaaaa"])
def test_a_tag_that_is_linked_to_is_a_facet_with_the_values_of_each_turn(names: str) -> None:
    index = Index(linked=frozenset({"category"}))
    for number in range(3):
        own = names[3 * number :]
        scores = [score(turn, 1.0, category=own[turn - 1]) for turn in (1, 2, 3)]
        index.add(str(number), [scores], {"pictures": [], "columns": []})
    document = index.document()
    [facet] = document["facets"]
    assert facet["turned"]
    for number, sample in enumerate(document["samples"]):
        held = [facet["values"][at] for at in sample["f"][0]]
        own = names[3 * number :]
        assert sorted(held) == [[turn, own[turn - 1]] for turn in (1, 2, 3)]


def test_tags_that_turns_share_are_one_facet_value_and_others_belong_to_their_turn() -> None:
    shared = indexed(
        [score(1, 1.0, task="a"), score(2, 1.0, task="a")],
        [score(1, 1.0, task="b"), score(2, 1.0, task="b")],
        [score(1, 1.0, task="b"), score(2, 1.0, task="b")],
    )
    assert shared["facets"] == [
        {"name": "task", "turned": False, "values": [[None, "a"], [None, "b"]]}
    ]
    own = indexed(
        [score(1, 1.0, task="a"), score(2, 1.0, task="c")],
        [score(1, 1.0, task="b"), score(2, 1.0, task="c")],
        [score(1, 1.0, task="b"), score(2, 1.0, task="d")],
        [score(1, 1.0, task="b"), score(2, 1.0, task="d")],
        [score(1, 1.0, task="b"), score(2, 1.0, task="d")],
    )
    assert own["facets"][0]["turned"]
    assert [2, "d"] in own["facets"][0]["values"]


def test_a_tag_of_several_values_is_found_by_each_of_them() -> None:
    index = Index(lists={"fault": "; "})
    for number, fault in enumerate(("a", "a; b", "b", "b")):
        index.add(str(number), [[score(2, 1.0, fault=fault)]], {"pictures": [], "columns": []})
    document = index.document()
    assert document["facets"] == [
        {"name": "fault", "turned": False, "values": [[None, "a"], [None, "b"]]}
    ]
    assert [each["f"] for each in document["samples"]] == [[[0]], [[0, 1]], [[1]], [[1]]]


def test_what_does_not_divide_the_samples_is_no_facet() -> None:
    document = indexed(
        [score(1, 1.0, task="a", cluster="x")], [score(1, 1.0, task="a", cluster="y")]
    )
    assert document["facets"] == []


def test_what_has_yet_to_be_asked_is_no_problem() -> None:
    messages = [said("user", "What is there?")]
    waiting = asked("turn_1", messages, None, state="skipped", problem=UNASKED)
    lost = asked("turn_1", messages, None, state="skipped", problem="turn_0 failed")
    for call, waits in ((waiting, True), (lost, False)):
        [turn] = dialogue([call], verdict_words)["turns"]
        assert turn["answers"][0]["problem"]
        assert turn["answers"][0].get("waits", False) == waits


def test_cells_are_rounded_as_elsewhere_and_tell_what_is_missing() -> None:
    table = Table(
        name="t",
        title="",
        columns=("a", "b"),
        rows={
            "x": {"a": Cell(value=0.125, low=-0.5, high=0.5, n=3), "b": Cell(value="word")},
            "y": {"a": Cell(value=None, n=0, missing={"unparsed": 2})},
        },
        signed=True,
    )
    made = grid(table)
    first, words = made.lines[0].cells
    assert first is not None
    assert words is not None
    assert (first.value, first.interval, first.counts) == ("+0.13", "−0.50 to +0.50", "n = 3")
    assert words.words
    missing, nothing = made.lines[1].cells
    assert missing is not None
    assert (missing.value, missing.why) == ("–", "2 with an unreadable verdict")
    assert made.notes[-1].endswith(": 2 with an unreadable verdict")
    assert nothing is None


def test_one_number_of_samples_is_said_once() -> None:
    cell = Cell(value=1.0, n=12)
    table = Table(name="t", title="", columns=("a",), rows={"x": {"a": cell}, "y": {"a": cell}})
    made = grid(table)
    assert made.notes == ("n = 12 throughout.",)
    assert {each.counts for line in made.lines for each in line.cells if each} == {""}


def test_a_long_table_says_how_much_it_leaves_out() -> None:
    rows = {str(number): {"a": Cell(value=1.0)} for number in range(30)}
    made = grid(Table(name="t", title="", columns=("a",), rows=rows), most=10)
    assert (len(made.lines), made.more) == (10, 20)


def test_plots_take_their_colours_from_the_page_and_nothing_from_elsewhere() -> None:
    series = Series(name="free", colour="series-2", points=(Point(value=2, low=1, high=3), None))
    plots = [
        upright("one", ["a", "b"], [series], (1, 10)),
        sideways("two", ["a", "b"], series, (1, 3), zero=True),
    ]
    for plot in plots:
        assert "var(--series-2)" in plot.svg
        assert not re.search(r"#[0-9a-f]{6}\b|https?:|<style|<metadata", plot.svg)
        assert "free, a: 2.00 (1.00 to 3.00)" in plot.told
    ids = [name for plot in plots for name in re.findall(r' id="([^"]+)"', plot.svg)]
    assert len(ids) == len(set(ids))


def test_numbers_of_tokens_have_separators_and_a_price_is_not_made_up() -> None:
    seat = SeatSummary.model_validate(
        dict.fromkeys(SeatSummary.model_fields, 0)
        | {"model": "m", "failures": {}, "cost_usd": None, "total_cost_usd": None}
        | {"total_input_tokens": 5723795}
    )
    [line] = grid(cost_table({"judge": seat})).lines
    assert "5,723,795" in [cell.value for cell in line.cells if cell]
    untold = seat.model_copy(update={"asked": 3, "stored": 2, "total_unmetered": 4})
    for each, told in (
        (seat, "no price given"),
        (untold, "price not known: 4 of 5 calls without tokens"),
    ):
        [line] = grid(cost_table({"judge": each})).lines
        assert told in [cell.value for cell in line.cells if cell]
