"""The index of the sample browser: columns of scores, facets, marks, reasons."""

import pytest

from mmconv.report.data_quality import Record
from mmconv.report.page.samples import Index


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
    columns = [(run, apart) for run, _, _, _, apart in index.document()["columns"]]
    assert columns == [(0, "the run's own"), (0, "GT"), (1, "the run's own"), (1, "GT")]


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
