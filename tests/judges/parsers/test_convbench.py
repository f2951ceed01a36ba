"""The parsers on replies as judges write them, tidy and ugly."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.parsers import choice, extracted_choice, extracted_rating, rating
from mmconv.core.errors import Unparsed
from mmconv.core.types import Parser

RATINGS = [
    ("Rating: 7", 7),
    ("Good.\n\nRating: 10", 10),
    ("Rating:7", 7),
    ("Rating:{5}", 5),
    ('Rating: "7"', 7),
    ("Rating: “7”", 7),
    ("Rating: 7.", 7),
    ("Rating: 7.5", 7.5),
    ("Rating: 7.0/10", 7),
    ("**Rating:** 7", 7),
    ("**Rating**: 7", 7),
    ("**Rating: 7**", 7),
    ("__Rating:__ __7__", 7),
    ("### Rating: **8**/10", 8),
    ("> Rating: `8`", 8),
    ("Rating: 7/10", 7),
    ("Rating: 10/10", 10),
    ("Rating: 1/10", 1),
    ("Rating: 7 / 10.", 7),
    ("Rating: 7 out of 10", 7),
    ("Rating: 7 out of 10 (7/10)", 7),
    ("Rating: 7 of 10", 7),
    ("Rating: 8 on a scale of 1 to 10", 8),
    ("Rating: [[7]]", 7),
    ("Rating：7", 7),
    ("Rating：７", 7),
    ("RATING: 7", 7),
    ("final rating: 4", 4),
    ("Rating (1-10): 6", 6),
    ("Rating for the third turn: 6", 6),
    ("Overall Rating: 6 ⭐", 6),
    ("Rating: $\\boxed{9}$", 9),
    ('{"rating": 8}', 8),
    ("Rating:\n\n7", 7),
    ("**Rating:**\n**7/10**\n", 7),
    ("The wording is fine, deserving a high rating.  Rating: 9", 9),
    ("Considering the rating scale, I settle on this. Rating: 9", 9),
    ("Turn 1 - Rating: 9\nTurn 2 - Rating: 8\nTurn 3 - Rating: 4\n\nRating: 6", 6),
    ("1. **Accuracy**: 9/10\n2. **Detail**: 5/10\n\n**Rating: 7**\n\nI hope this helps!", 7),
    ("Rating: 8\n\nThe 2 missing sizes cost it 2 points.", 8),
    ("The reference's rating: 10.\nThe assistant's rating: 3", 3),
    ("Rating: 3\nConfidence in this rating: 90%", 3),
    ("Rating: 4\n\nRating of the style: 4", 4),
    ("Rating: 7\r\n", 7),
    ("Rating: 9 for its 3D drawing", 9),
    ("Rating: 8分", 8),
]


@pytest.mark.parametrize(("text", "value"), RATINGS)
def test_rating(text: str, value: float) -> None:
    assert rating(text).scores == {"rating": value}
    assert rating(text).label is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "I can't judge this.",
        "I would give it a 7.",
        "7",
        "7/10",
        "Rating: X",
        "Rating: n",
        "Rating: N/A",
        "Rating: {rating}",
        "Rating: seven",
        "Rating:",
        "Rating: between 7 and 8",
        "Rating: 7 or 8",
        "Rating: 7-8",
        "Rating: 7–8",
        "Rating: 7, 8, 6",
        "Rating: 7,5",
        "Rating: 7/100",
        "Rating: 8/100",
        "Rating: 8 out of 10.5",
        "Rating: 8.5points",
        "Rating: 8.5x",
        "Rating: 7.5th",
        "Rating: 4/5",
        "Rating: 5/5",
        "Rating: 3 / 3 criteria are met",
        "Rating: 9 out of 9",
        "Rating: 1-10",
        "Rating: 1-10 with 3 flaws",
        "Rating: 1O",
        "Rating: 7 (the reference being 10)",
        "Rating: 7\nRating: N/A",
        "Rating: 4\n\nRating of the reference: 10",
        "Rating: 4 (the reference's rating: 10)",
        "Rating: 3\nConfidence in this rating: 9",
        "My rating: 7 stars; rating scale: 10",
        "Rating: 5 in the first turn.\nOverall rating for the conversation: 7",
        "Ratings: 7",
        "Operating: 7",
        "Generating 7: done",
        "Rating - accuracy\n7",
        "The text breaks off here. Rating: \n\nAccuracy: 8",
    ],
)
def test_no_rating(text: str) -> None:
    with pytest.raises(Unparsed):
        rating(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("Rating: 0", "0"), ("Rating: 11", "11"), ("Rating: -3", "-3"), ("Rating: 85%", "85")],
)
def test_a_rating_out_of_range_says_so(text: str, value: str) -> None:
    with pytest.raises(Unparsed, match=f"rating {value} is out of range 1-10"):
        rating(text)


def test_the_reason_names_what_was_found() -> None:
    with pytest.raises(Unparsed, match="more than one number after the colon: '7 or 8'"):
        rating("Rating: 7 or 8")
    with pytest.raises(Unparsed, match="looked for 'Rating: n', found 'N/A'"):
        rating("Rating: N/A")


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Overall, Response A is better.", "A"),
        ("Overall, Response B is better.", "B"),
        ("overall, response b is better", "B"),
        ("Overall, **Response A** is better.", "A"),
        ("Overall, Response **B** is **better**.", "B"),
        ("**Overall, Response A is better.", "A"),
        ("Overall, *Response  A*\nis better.", "A"),
        ("Overall, “Response B” is better.", "B"),
        ("Overall, Response [B] is better.", "B"),
        ("Overall, Response {A} is better.", "A"),
        ("Overall, [Response A] is better", "A"),
        ("Overall, `Response A` is better.", "A"),
        ("OVERALL, RESPONSE A IS BETTER!", "A"),
        ("Overall, Response\u00a0A is better.", "A"),
        ("In detail, Response B is better. So, overall, Response B is better.", "B"),
        ("Response A is better than Response B.", "A"),
        ("Response B is fluent, response A is longer.\nOverall, Response B is better.", "B"),
    ],
)
def test_choice(text: str, label: str) -> None:
    assert choice(text).label == label
    assert choice(text).scores == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Both are equally good.",
        "Overall, Response X is better.",
        "Overall, Response A or B is better.",
        "Overall, Assistant A is better.",
        "Overall, A is better.",
        "Overall, Response C is better.",
        "Response A is clearly better.",
        "In detail Response A is better; overall, Response B is better.",
        "In detail **Response A** is better; overall, Response B is better.",
        "I decide whether Response A is better or Response B is better.",
    ],
)
def test_no_choice(text: str) -> None:
    with pytest.raises(Unparsed, match=r"found (both|neither)"):
        choice(text)


@settings(deadline=None)
@given(st.text(alphabet="response abiter\n*", max_size=60))
def test_choice_finds_what_the_authors_find(text: str) -> None:
    lower = text.lower()
    found = {side for side in "ab" if f"response {side} is better" in lower}
    if len(found) == 1:
        side = found.pop().upper()
        try:
            assert choice(text).label == side
        except Unparsed as error:
            assert "both" in str(error)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Final Answer: Response A", "A"),
        ("Final Answer: Response B.", "B"),
        ("**Final Answer: Response B**", "B"),
        ("The text prefers B.\nFinal Answer: Response B", "B"),
    ],
)
def test_extracted_choice(text: str, label: str) -> None:
    assert extracted_choice(text).label == label


@pytest.mark.parametrize(
    "text",
    [
        "Final Answer: none",
        "Final Answer: Unknown",
        "final answer: response a",
        "Response A",
        "Final Answer: Response A\nFinal Answer: Response B",
    ],
)
def test_no_extracted_choice(text: str) -> None:
    with pytest.raises(Unparsed):
        extracted_choice(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Final Answer: 8", 8),
        ("Final Rating: 4", 4),
        ("**Final Answer:** 8/10", 8),
        ("final answer: 10.", 10),
        ("Accuracy 3.\nFinal Answer: 6", 6),
    ],
)
def test_extracted_rating(text: str, value: float) -> None:
    assert extracted_rating(text).scores == {"rating": value}


@pytest.mark.parametrize("text", ["Final Answer: none", "8", "Rating: 8", "Final Answer: 12"])
def test_no_extracted_rating(text: str) -> None:
    with pytest.raises(Unparsed):
        extracted_rating(text)


@pytest.mark.parametrize(
    ("parser", "text", "rationale"),
    [
        (rating, "  It is right.\nIt is short.\n\n**Rating: 7**\n", "It is right.\nIt is short."),
        (rating, "Right throughout. Rating: 7", "Right throughout."),
        (rating, "Rating: 9\nTurn 2 is weak.\nOverall Rating: 7", "Rating: 9\nTurn 2 is weak."),
        (rating, "Rating: 7\n\nIt is right.", ""),
        (choice, "A is right.\n\nOverall, Response A is better.", "A is right."),
        (choice, "A is right. Therefore, **Overall, Response A is better.", "A is right."),
        (extracted_choice, "Final Answer: Response A", ""),
        (extracted_rating, "It says 8.\nFinal Answer: 8", "It says 8."),
    ],
)
def test_the_rationale_is_before_the_verdict(parser: Parser, text: str, rationale: str) -> None:
    assert parser(text).rationale == rationale


@pytest.mark.parametrize("parser", [rating, choice, extracted_rating, extracted_choice])
@settings(deadline=None)
@given(text=st.text())
def test_any_text_is_read_or_refused(parser: Parser, text: str) -> None:
    try:
        verdict = parser(text)
    except Unparsed:
        return
    assert verdict.label in {"A", "B"} or 1 <= verdict.scores["rating"] <= 10


@pytest.mark.parametrize(
    ("parser", "verdict"),
    [
        (rating, "Rating: 7"),
        (choice, "Response A is better"),
        (extracted_rating, "Final Answer: 7"),
        (extracted_choice, "Final Answer: Response A"),
    ],
)
@pytest.mark.parametrize(
    "piece", ["rating ", "response a ", "Final Answer ", "** ", "1 to ", "a. "]
)
def test_long_lines_are_read_in_linear_time(parser: Parser, verdict: str, piece: str) -> None:
    text = piece * (100_000 // len(piece)) + verdict
    start = time.process_time()
    assert parser(text).label == ("A" if "Response" in verdict else None)
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "text",
    [
        "Final Answer: Response A or Response B",
        "Final Answer: Response A or B",
        "Final Answer: Response B/A",
        "Final Answer: Response A, Response B",
    ],
)
def test_an_extraction_that_names_both_sides_is_none(text: str) -> None:
    with pytest.raises(Unparsed, match="both sides in one line"):
        extracted_choice(text)


@pytest.mark.parametrize(
    "text",
    ["Final Answer: Response B. A clear case.", "Final Answer: Response B\nResponse A lost."],
)
def test_what_follows_an_extraction_is_no_second_choice(text: str) -> None:
    assert extracted_choice(text).label == "B"
