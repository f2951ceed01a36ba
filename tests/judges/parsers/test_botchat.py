"""BotChat's two judgements, read strictly and as the authors read them."""

import pytest

from judges.parsers.botchat import UniEvalParser, authors_comparison, authors_human, comparison
from mmconv.core.errors import Unparsed

UNIEVAL = UniEvalParser(utterances=16)

HUMAN = [
    ("Choice: No\nIndex: None\nReason: natural.", 16, 16),
    ("Choice: Yes\nIndex: 11\nReason: odd.", 10, 10),
    ("Choice: Yes\nIndex: 1\nReason: odd.", 0, 0),
    ("Choice: Yes Index: 3 Reason: odd.", 2, 16),
    ("**Choice:** Yes\n**Index:** 5\n**Reason:** odd.", 4, 16),
    ("I think so.\n\nChoice：Yes\nIndex：7", 6, 16),
    ("- choice: yes\n- index: 16", 15, 16),
    ("Choice: Yes\nIndex: 3\nReason: chat 3.\n\nChoice: Yes\nIndex: 3", 2, 2),
    ("Choice: No\nReason: nothing points to an AI.", 16, 16),
]


@pytest.mark.parametrize(("text", "ours", "theirs"), HUMAN)
def test_human_utterances(text: str, ours: int, theirs: int) -> None:
    assert UNIEVAL(text).scores == {"human": ours}
    assert authors_human(text).scores == {"human": theirs}


@pytest.mark.parametrize(
    "index", ["[5]", "5, since\n7 follows", "5.", "(5)", "5th", "chat 5", "５", "5; Reason: 3 odd"]
)
def test_what_stands_around_an_index_is_not_of_it(index: str) -> None:
    assert UNIEVAL(f"Choice: Yes\nIndex: {index}").scores == {"human": 4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Choice: Yes\nReason: all of it.", "with no different"),
        ("Choice: Yes\nIndex: None", "with no different"),
        ("Choice: Yes\nIndex: 3\nor rather\nIndex: 5", "with 2 different"),
        ("Choice: Yes\nIndex: 0", "out of range 1-16"),
        ("Choice: Yes\nIndex: 3.5", "'Index: 3.5' is not a single utterance"),
        ("Choice: Yes\nIndex: 12-14", "'Index: 12-14' is not a single utterance"),
        ("Choice: Yes\nIndex: 7, 3", "'Index: 7, 3' is not a single utterance"),
        ("Choice: Yes\nIndex: 5 to 7", "'Index: 5 to 7' is not a single utterance"),
        ("Choice: Yes\nIndex: 5 or 6", "'Index: 5 or 6' is not a single utterance"),
        ("Choice: Yes\nIndex: 5/6", "'Index: 5/6' is not a single utterance"),
        ("Choice: Yes\nIndex: 5th and 7th", "'Index: 5th and 7' is not a single utterance"),
        ("Choice: Yes\nIndex: 5 & 6", "'Index: 5 & 6' is not a single utterance"),
        ("Choice: (Yes or No)", "found neither"),
        ("Choice: No\nIndex: 3-5", "'Choice: No', but 'Index: 3-5'"),
        ("Choice: Yes\nIndex: 17", "out of range 1-16"),
        ("Choice: No\nIndex: 4", "'Choice: No', but 'Index: 4'"),
        ("Choice: Yes\nIndex: 2\nChoice: No", "found both"),
        ("Choice: Yes or No\nIndex: 2", "found neither"),
        ("Choice: Yes/No", "found neither"),
        ("It is hard to say.", "found neither"),
        ("", "found neither"),
    ],
)
def test_what_is_no_judgement_of_a_dialogue(text: str, message: str) -> None:
    with pytest.raises(Unparsed, match=message):
        UNIEVAL(text)


def test_the_range_is_that_of_the_dialogue() -> None:
    assert UniEvalParser(utterances=8)("Choice: Yes\nIndex: 8").scores == {"human": 7}
    with pytest.raises(Unparsed, match="1-8"):
        UniEvalParser(utterances=8)("Choice: Yes\nIndex: 9")


def test_where_the_authors_code_stops() -> None:
    for index in ("3 and 5", "None.", "11th", ""):
        with pytest.raises(Unparsed, match="the authors' code stops"):
            authors_human(f"Choice: Yes\nIndex: {index}")


COMPARISONS = [
    ("Choice: Conversation 1; Reason: long.", "first", "first"),
    ("Choice: Conversation 2\nReason: long.", "second", "second"),
    ("Choice: Both; Reason: alike.", "both", "both"),
    ("Choice: Neither\nReason: alike.", "neither", "neither"),
    ('"Choice: Neither; Reason: alike."', "neither", None),
    ("**Choice: Both**", "both", None),
    ("Reason: it is stiff.\n> choice: conversation #2", "second", None),
    # on the authors' line a name in the reason counts, too
    ("Choice: Both; Reason: unlike Conversation 2, this is human.", "both", "second"),
    # and a line without a name is passed over
    ("Choice: hard to say\nChoice: Both", "both", "both"),
    ("Choice: Conversation 1 and Conversation 2", None, "first"),
    ("Choice: Conversation 1 or 2", None, "first"),
    ("Choice: Both\nChoice: Neither", None, "both"),
    ("Choice: (Conversation 1)", "first", "first"),
    ("Choice: [Neither]", "neither", "neither"),
    ("Choice: Conversation １", "first", None),
    ("Final Choice: Both", "both", None),
    ("Choice: Conversation 1, which is stiff. Conversation 2 is not.", "first", "first"),
    ("Choice: Neither Conversation 1 nor Conversation 2", "neither", "first"),
    ("Choice: (Conversation 1, Conversation 2, Both or Neither)", None, "first"),
    ("Choice: Conversation 1, 2", None, "first"),
    ("Choice: Conversation 1+Conversation 2", None, "first"),
    ("Choice: Conversation 1; Conversation 2", None, "first"),
    ("Choice: Conversation 1 (and Conversation 2)", None, "first"),
    ("Choice: Conversation 1、Conversation 2", None, "first"),
    ("Choice: Conversation 1 vs. Conversation 2: Conversation 2", None, "first"),
    ("Choice: the first one", None, None),
    ("My choice is Both.", None, None),
]


@pytest.mark.parametrize(("text", "ours", "theirs"), COMPARISONS)
def test_comparisons(text: str, ours: str | None, theirs: str | None) -> None:
    for parser, label in ((comparison, ours), (authors_comparison, theirs)):
        if label is None:
            with pytest.raises(Unparsed):
                parser(text)
        else:
            assert parser(text).label == label


def test_the_reason_is_kept() -> None:
    assert comparison("Choice: Both; Reason: too stiff.").rationale == "too stiff."
    assert UNIEVAL("Choice: No\nIndex: None\nReason: smooth\nand short.").rationale == (
        "smooth\nand short."
    )
    assert comparison("They are alike.\nChoice: Both").rationale == "They are alike.\nChoice: Both"
