"""Ratings in double brackets, read strictly and as the authors read them."""

import pytest

from judges.parsers.mtbench101 import bracketed_rating, first_bracketed_integer, is_out_of_range
from mmconv.core.errors import Unparsed
from mmconv.core.types import Parser


def read(parser: Parser, text: str) -> float | None:
    try:
        return parser(text).scores["rating"]
    except Unparsed:
        return None


@pytest.mark.parametrize(
    ("text", "ours", "authors"),
    [
        ("It recalls the cats.\n\nRating: [[7]]", 7, 7),
        ("Rating: [[10]]", 10, 10),
        ("**Rating: [[8]]**", 8, 8),
        ("**Rating:** [[8]]", 8, 8),
        ("Rating: **[[8]]**", 8, 8),
        ("Rating: [[ 8 ]]", 8, None),
        ("rating：[[8]]", 8, 8),
        (r"Rating: \[\[8\]\]", 8, None),
        ("Rating: [[8/10]]", 8, None),
        ("Rating: [[7.5]]", None, None),
        ("Rating: [[7.0]]", None, None),
        ("Not [[8]]. Rating: [[7.5]]", None, 8),
        ("Not [[7.5]]. Rating: [[8]]", 8, 8),
        ("[[7]]", 7, 7),
        ("[[7]] means good. So: [[7]]", 7, 7),
        ("I first thought Rating: [[4]]. After all:\nRating: [[6]]", 6, 4),
        ("As [1] says, it is wrong.\nRating: [[2]]", 2, 1),
        ("In [2024] it was. Rating: [[9]]", 9, 2024),
        ("The answer says [[3]] of it. Rating: [[5]]", 5, 3),
        ("Rating: [[7]], and not [[3]] as before.", 7, 7),
        ("[[3]] or [[5]]", None, 3),
        ("Rating: [[7]] or [[8]]", None, 7),
        ("Rating: [[7]]-[[8]]", None, 7),
        ("Rating: [[7]] / **[[8]]**", None, 7),
        ("Rating: [[7]] and [[7]]", 7, 7),
        ("Rating: [[0]]", None, 0),
        ("Rating: [[11]]", None, 11),
        ("Rating: [[-3]]", None, None),
        ("Rating: [7]", None, 7),
        ("Rating: [[7", None, None),
        ("Rating: [[2]", None, 2),
        ("Rating: 7", None, None),
        ("Rating: [[n]]", None, None),
        ("Rating: [[score]]", None, None),
        ("Rating: [[7, 8]]", None, None),
        ("", None, None),
        (f"[{'9' * 16}]", None, None),
    ],
)
def test_both_readings(text: str, ours: float | None, authors: float | None) -> None:
    assert read(bracketed_rating, text) == ours
    assert read(first_bracketed_integer, text) == authors


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Rating: [[0]]", True),
        ("[[11]]", True),
        ("Rating: [[10]]", False),
        ("[11]", False),
        ("Rating: [[7.5]]", False),
        ("Rating: [[10.5]]", False),
    ],
)
def test_out_of_range_is_told_from_unreadable(text: str, expected: bool) -> None:
    assert is_out_of_range(text) == expected


def test_a_fraction_is_refused_with_its_reason() -> None:
    with pytest.raises(Unparsed, match=r"rating 7\.5 is not a whole number"):
        bracketed_rating("Rating: [[7.5]]")


def test_the_explanation_is_kept() -> None:
    assert bracketed_rating("It forgets the cats.\n\nRating: [[3]]").rationale == (
        "It forgets the cats."
    )
