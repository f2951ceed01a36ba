"""The frame against plain lists."""

from __future__ import annotations

import math
import tracemalloc

import pytest

from mmconv.stats import ScoreFrame, summarise
from mmconv.values import Score


def _score(sample: str, turn: int | None, value: float | None, **tags: str) -> Score:
    why = "unparsed" if value is None else None
    return Score(
        sample=sample, condition="free", metric="win", turn=turn, tags=tags, value=value, why=why
    )


def test_a_frame_selects_by_every_field_and_tag() -> None:
    frame = ScoreFrame(
        [
            _score("1", 1, 1.0, cluster="img", category="ocr"),
            _score("1", 2, None, cluster="img", category="ocr"),
            _score("2", 1, 0.0, cluster="img", category="maths"),
        ]
    )
    frame.append(_score("3", None, 0.5))
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


def test_a_sample_is_a_cluster_where_nothing_else_is_said() -> None:
    frame = ScoreFrame(
        [_score("a#1", 1, 1.0), _score("a#1", 2, 1.0), _score("a#2", 1, 1.0, cluster="image")]
    )
    assert frame.select().clusters == ("a#1", "a#1", "image")
    assert frame.clusters() == {"a#1": "a#1", "a#2": "image"}


def test_a_frame_refuses_what_it_could_not_give_back() -> None:
    frame = ScoreFrame()
    with pytest.raises(ValueError, match="infinite"):
        frame.append(_score("1", 1, math.inf))
    with pytest.raises(ValueError, match="turn"):
        frame.append(Score(sample="1", condition="c", metric="m", tags={"turn": "1"}, value=1.0))
    assert len(frame) == 0
    assert summarise(frame.select()).mean is None


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
