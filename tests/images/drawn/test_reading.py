"""Replies written by hand are read as their authors meant them."""

import pytest

from images.drawn import FAMILIES
from images.drawn.checks import avoids, gives, json_object, ordered, sentences, states
from images.drawn.reading import check_facts
from images.drawn.truth import Name, Number
from images.drawn.words import Text
from tests.images.drawn.replies import CHART, CHART_OTHERS, replies

JAN, FEB, MAY = CHART


@pytest.mark.parametrize("family", list(FAMILIES))
def test_replies_of_models_are_read_as_they_are_meant(family: str) -> None:
    meant = list(replies(family))
    assert len(meant) >= 40
    assert {each.outcome for each in meant} == {"right", "wrong", "unread"}
    assert sum(any(sign > "\u4e00" for sign in each.text) for each in meant) >= 10
    differing = [each for each in meant if each.read != each.outcome]
    assert len(differing) <= 0.01 * len(meant), differing


def test_replies_that_the_checker_was_not_made_for_are_read_too() -> None:
    meant = list(replies())
    differing = [each for each in meant if each.read != each.outcome]
    assert len(meant) >= 60
    assert len(differing) <= 0.02 * len(meant), differing


def test_invented_subjects_lower_the_share_of_right_facts() -> None:
    reading = check_facts("Jan: 34\nFeb: 13\nMay: 58\nJun: 2", CHART, CHART_OTHERS)
    assert (reading.missed, reading.share) == (("Feb", "Jun"), 0.5)


@pytest.mark.parametrize(
    ("count", "reply"),
    [
        (2, "We had 34 visitors in Jan. The gap is 46!"),
        (2, "Here is the note:\n\nWe had 3.5 visitors. Call me at 5 p.m. tomorrow"),
        (1, "# Note\nThe gap is 46."),
        (2, "1月有34人。差值是46。"),
        (3, "好的，留言如下：\n1月有34人。差值是46！请保存。"),
    ],
)
def test_sentences_are_counted(count: int, reply: str) -> None:
    assert sentences(count).holds(reply)
    assert not sentences(count + 1).holds(reply)


@pytest.mark.parametrize(
    ("reply", "holds"),
    [
        ("In Jan we had 34 visitors, but only 12 came in Feb.", True),
        ("The gap of 46 comes from Jan (34) and Feb (12).", True),
        ('```json\n{"Jan": 34, "Feb": "12", "answer": 46}\n```', True),
        ("1月有34位访客，2月只有12位。", True),
        ("In Jan we had 12 visitors, but 34 came in Feb.", False),
        ("Jan had 34 visitors.", False),
        ("Jan had 34 visitors, Feb 12. In Jan there were 30.", False),
        ("In Jan there were 30. Jan had 34 visitors, Feb 12.", False),
        ("1月有12位访客，2月有34位。", False),
    ],
)
def test_stated_facts_are_found_in_prose(reply: str, holds: bool) -> None:
    assert states((JAN, FEB)).holds(reply) is holds


@pytest.mark.parametrize(
    ("reply", "given"),
    [
        ("The gap is 46. In Jan there were 34 visitors, in Feb 12.", True),
        ("The gap of 46 comes from May (58) and Feb (12).", True),
        ("The answer to the second question is 46. Jan had 34.", True),
        ('{"answer": 46, "Jan": 34}', True),
        ("Jan had 34. The answer is 1, 2, 3, 46.", False),
        ("Jan had 46. My conclusion is 34.", False),
        ('{"Jan": 46, "answer": "34"}', False),
    ],
)
def test_what_a_note_calls_its_answer_counts(reply: str, given: bool) -> None:
    assert gives(Number(46)).holds(reply) is given


@pytest.mark.parametrize(
    ("reply", "given"),
    [
        ("Most came in May. Jan had 34 visitors and May had 58.", True),
        ("Jan had 34 visitors and May had 58, so May leads.", True),
        ("Jan had 34 visitors and May had 58. So it is Jan.", False),
        ('{"May": 58, "answer": "Jan"}', False),
    ],
)
def test_a_name_among_the_facts_is_not_the_answer(reply: str, given: bool) -> None:
    assert gives(Name(MAY.subject, (JAN.subject, MAY.subject)), CHART).holds(reply) is given


def test_other_rules() -> None:
    assert gives(Number(46)).holds("The gap is 46.")
    assert not gives(Number(46)).holds("The gap is 460.")
    assert not avoids(Text("image", "图片")).holds("The Image is clear.")
    assert avoids(Text("image", "图片")).holds("Imagery is fine.")
    order = ordered((MAY.subject, JAN.subject))
    assert order.holds("May had 58, Jan 34, and May again 58.")
    assert not order.holds("Jan had 34, May 58.")
    assert json_object(("Jan", "answer")).holds('{"answer": 46, "Jan": 34}')
    assert not json_object(("Jan", "answer")).holds('{"answer": 46}')


@pytest.mark.parametrize("loop", ["-", "\n", "[", "1 + ", "Jan 34, ", "12 or ", "| "])
def test_a_reply_that_repeats_itself_is_read_at_once(loop: str) -> None:
    """Models loop until their longest reply; a pattern that backtracks would never end."""
    assert check_facts(loop * 500, CHART, CHART_OTHERS).outcome != "right"
