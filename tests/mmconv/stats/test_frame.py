"""The frame against plain lists."""

import math
import tracemalloc

import pytest

from mmconv.core.score_rows import ScoreRows
from mmconv.core.types import Score
from mmconv.stats import ScoreFrame, summarise


def _score(sample: str, turn: int | None, value: float | None, **tags: str) -> Score:
    why = "unparsed" if value is None else None
    return Score(
        sample=sample, condition="free", metric="win", turn=turn, tags=tags, value=value, why=why
    )


def test_a_frame_selects_by_every_field_and_tag() -> None:
    scores = [
        _score("1", 1, 1.0, cluster="img", category="ocr"),
        _score("1", 2, None, cluster="img", category="ocr"),
        _score("2", 1, 0.0, cluster="img", category="maths"),
        _score("3", None, 0.5),
    ]
    frame = ScoreFrame(scores)
    first = frame.select(metric="win", condition="free", turn=1)
    assert (first.samples, first.clusters) == (("1", "2"), ("img", "img"))
    assert first.values == [1.0, 0.0]
    ocr = frame.select(category="ocr")
    assert (ocr.values, ocr.reasons) == ([1.0, None], (None, "unparsed"))
    assert frame.select(category=("ocr", "maths", "unheard of"), turn=1).samples == ("1", "2")
    assert len(frame.select()) == len(frame) == 4
    assert len(frame.select(category="unheard of")) == len(frame.select(colour="red")) == 0
    assert frame.distinct("category") == ("ocr", "maths")
    assert frame.distinct("colour") == ()
    assert frame.turns() == (1, 2)
    assert list(frame) == list(frame) == scores
    assert [*frame][1].tags == {"cluster": "img", "category": "ocr"}
    assert ScoreFrame.of(frame) is frame
    assert len(ScoreFrame.of(scores)) == 4


def test_tags_stay_in_the_order_in_which_each_score_has_them() -> None:
    """Whichever of the scores came first."""
    names = [f"tag {number}" for number in range(12)]
    for orders in ((0, 1), (1, 0)):
        rows = ScoreRows()
        for order in orders:
            tags = dict.fromkeys(names if order else names[::-1], "x")
            rows.append(_score(str(order), 1, 1.0, **tags), order)
        assert [[*score.tags] for score in ScoreFrame(rows)] == [names[::-1], names]


def test_a_sample_is_a_cluster_where_nothing_else_is_said() -> None:
    frame = ScoreFrame(
        [_score("a#1", 1, 1.0), _score("a#1", 2, 1.0), _score("a#2", 1, 1.0, cluster="image")]
    )
    assert frame.select().clusters == ("a#1", "a#1", "image")
    assert frame.clusters() == {"a#1": "a#1", "a#2": "image"}


def test_rows_refuse_what_they_could_not_give_back() -> None:
    rows = ScoreRows()
    with pytest.raises(ValueError, match="infinite"):
        rows.append(_score("1", 1, math.inf))
    for name in ("turn", "why", "metric"):
        with pytest.raises(ValueError, match=name):
            rows.append(Score(sample="1", condition="c", metric="m", tags={name: "1"}, value=1.0))
    assert len(rows) == 0
    assert summarise(ScoreFrame(rows).select()).mean is None


def test_rows_are_read_in_their_order_whichever_they_came_in() -> None:
    given = {2: ("c", "d"), 0: ("a",), 1: ("b",), 3: ("e",)}
    rows = ScoreRows()
    for order, samples in given.items():
        for sample in samples:
            rows.append(_score(sample, order, None, **({"task": sample} if order else {})), order)
    frame = ScoreFrame(rows)
    assert frame.select().samples == ("a", "b", "c", "d", "e")
    assert [(each.sample, each.turn) for each in frame] == [
        ("a", 0),
        ("b", 1),
        ("c", 2),
        ("d", 2),
        ("e", 3),
    ]
    assert frame.distinct("task") == ("b", "c", "d", "e")
    assert [score.tags for score in frame][:2] == [{}, {"task": "b"}]
    assert len(frame.select(task=("a", "c"))) == 1
    assert list(frame.clusters()) == ["a", "b", "c", "d", "e"]
    assert [(each.sample, each.tags) for each in ScoreFrame(rows)] == [
        (each.sample, each.tags) for each in frame
    ]


def test_a_turn_may_be_any_number() -> None:
    [score] = ScoreFrame([_score("1", 2**40, 1.0)])
    assert score.turn == 2**40


def test_what_was_asked_for_before_is_the_same_column_again() -> None:
    frame = ScoreFrame([_score("1", 1, 1.0, task="x"), _score("1", 2, 0.0, task="y")])
    assert frame.select(metric="win").samples == ("1", "1")
    assert frame.select(metric="win", turn=2).values == [0.0]
    assert frame.select(metric="win", turn=0).values == []
    both = frame.select(metric="win", task=("x", "y"))
    assert frame.select(task=["x", "y"], metric="win") is both
    assert frame.select(task="x", metric="win") is not both
    assert both.per_sample("mean") is both.per_sample("mean")
    assert [both.per_sample(how).values for how in ("mean", "min", "max")] == [[0.5], [0.0], [1.0]]
    with_gap = ScoreFrame([_score("1", 1, 1.0), _score("1", 2, None)]).select()
    assert with_gap.per_sample("mean").values == [None]
    assert with_gap.per_sample("mean", partial=True).values == [1.0]


def test_columns_of_the_same_samples_share_their_names() -> None:
    frame = ScoreFrame(_score(str(sample), turn, 1.0) for sample in range(3) for turn in (1, 2))
    first, second = frame.select(turn=1), frame.select(turn=2)
    assert first.samples == ("0", "1", "2")
    assert first.samples is second.samples is first.clusters
    assert first.reasons is second.reasons
    assert first.per_sample("mean") is first


def test_many_scores_take_less_than_a_hundred_bytes_each() -> None:
    tracemalloc.start()
    try:
        frame = ScoreFrame(
            _score(
                f"sample-{row // 5}",
                row % 5,
                None if row % 97 == 0 else row % 10 / 10,
                category=f"category {row // 5 % 60}",
                cluster=f"image-{row // 5 % 1_500}",
            )
            for row in range(10_000)
        )
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(frame) == 10_000
    assert used / len(frame) < 100
