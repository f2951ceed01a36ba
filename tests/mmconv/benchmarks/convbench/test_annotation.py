from collections.abc import Mapping
from typing import Any

import pytest

from judges import PromptSet
from mmconv.benchmarks.convbench.annotation import (
    ROLE,
    Annotator,
    Draft,
    gaps,
    read_categories,
    read_draft,
)
from mmconv.benchmarks.convbench.data import (
    CAPTION,
    CATEGORIES,
    FOCUS_POINTS,
    LISTS,
    REFERENCES,
    Row,
)
from mmconv.core.errors import Unparsed
from mmconv.core.graph import check, resolve
from mmconv.core.types import Failure, Image, Message, Outcome, Reply, Sampling, Text

PICTURE = Image(sha256="ab" * 32, media_type="image/png", width=10, height=10)
SAMPLING = Sampling(max_tokens=77)
CHOICE = "First: OCR\nSecond: Age Reasoning\nThird: Navigation"
ANNOTATOR = Annotator(prompts=PromptSet("convbench"), sampling=SAMPLING)

BARE = Row(id="7", image=PICTURE, instructions=("What is it?", "Why?", "Write a poem."))


def replace(row: Row, **fields: Any) -> Row:
    return row.model_copy(update=fields)


FULL = replace(
    BARE,
    caption="A given caption.",
    references=("given one", "given two", "given three"),
    focus_points="1. Does it rhyme?",
    categories=("OCR", "Age Reasoning", "Poem Writing"),
)


def needs(row: Row) -> dict[str, set[str]]:
    return {call.id: set(call.needs) for call in check(tuple(ANNOTATOR.calls(row)))}


def replies(row: Row, **texts: str) -> dict[str, Outcome]:
    """Every call answered with its own name in brackets, or with what is given."""
    named = {call.id: f"[{call.id}]" for call in ANNOTATOR.calls(row)}
    if "categories" in named:
        named["categories"] = CHOICE
    return {name: Reply(text=text) for name, text in {**named, **texts}.items()}


def sent(row: Row, call_id: str) -> list[tuple[str, str]]:
    """Role and text of each message as it would be sent."""
    [call] = [call for call in ANNOTATOR.calls(row) if call.id == call_id]
    known = {name: each for name, each in replies(row).items() if isinstance(each, Reply)}
    return [(message.role, _text(message)) for message in resolve(call.messages, known)]


def _text(message: Message) -> str:
    return "".join(
        part.text if isinstance(part, Text) else "<picture>"
        for part in message.parts
        if isinstance(part, Text | Image)
    )


def draft(row: Row, outcomes: Mapping[str, Outcome]) -> Draft:
    return read_draft(row, ANNOTATOR.calls(row), outcomes)


class TestCalls:
    def test_a_bare_row_takes_every_stage(self) -> None:
        assert needs(BARE) == {
            "describe": set(),
            "caption": {"describe"},
            "turn_1": {"caption"},
            "turn_2": {"caption", "turn_1"},
            "turn_3": {"caption", "turn_1", "turn_2"},
            "focus_points": {"caption", "turn_3"},
            "categories": set(),
        }

    @pytest.mark.parametrize(
        ("row", "expected"),
        [
            (replace(FULL, caption=None), {"describe": set(), "caption": {"describe"}}),
            (replace(FULL, references=("one", None, "three")), {"turn_2": set()}),
            (
                replace(FULL, references=(None, "two", None)),
                {"turn_1": set(), "turn_3": {"turn_1"}},
            ),
            (replace(FULL, focus_points=None), {"focus_points": set()}),
            (replace(FULL, categories=("OCR", None, "Navigation")), {"categories": set()}),
            (
                replace(FULL, references=("one", "two", None), focus_points=None),
                {"turn_3": set(), "focus_points": {"turn_3"}},
            ),
        ],
    )
    def test_only_what_is_missing_is_asked(self, row: Row, expected: dict[str, set[str]]) -> None:
        assert needs(row) == expected

    def test_all_are_asked_of_the_annotator_with_the_prompt_told(self) -> None:
        for call in ANNOTATOR.calls(BARE):
            assert (call.model, call.sampling) == (ROLE, SAMPLING)
            assert call.prompt is not None
            assert call.prompt.startswith("annotate_")

    def test_the_caption_is_polished_from_the_description_for_the_instructions(self) -> None:
        [(role, text)] = sent(BARE, "caption")
        assert role == "user"
        assert text.startswith("<picture>")
        for expected in ("[describe]", *BARE.instructions):
            assert expected in text

    def test_the_answers_are_one_conversation_over_caption_and_image(self) -> None:
        (role, opening), *turns = sent(BARE, "turn_3")
        assert role == "user"
        assert opening.startswith("<picture>")
        assert "[caption]" in opening
        assert opening.endswith("\n\nWhat is it?")
        assert turns == [
            ("assistant", "[turn_1]"),
            ("user", "Why?"),
            ("assistant", "[turn_2]"),
            ("user", "Write a poem."),
        ]

    def test_focus_points_read_the_third_answer(self) -> None:
        assert "[turn_3]" in sent(BARE, "focus_points")[-1][1]
        assert "given three" in sent(replace(FULL, focus_points=None), "focus_points")[-1][1]

    def test_the_categories_are_offered_and_asked_again_once(self) -> None:
        [call] = ANNOTATOR.calls(replace(FULL, categories=(None, None, None)))
        text = _text(call.messages[-1])
        for names in LISTS.values():
            assert "\n".join(names) in text
        assert [(each.id, each.sampling.trial) for each in call.fallbacks] == [
            ("categories~retry_1", 1)
        ]


class TestDraft:
    def test_a_bare_row_gets_all_columns(self) -> None:
        found = draft(BARE, replies(BARE, caption="\n A kite. \n", turn_2=" 1.\n 2. "))
        assert found == Draft(
            texts={
                CAPTION: "A kite.",
                REFERENCES[0]: "[turn_1]",
                REFERENCES[1]: "1.\n 2.",
                REFERENCES[2]: "[turn_3]",
                FOCUS_POINTS: "[focus_points]",
                CATEGORIES[0]: "OCR",
                CATEGORIES[1]: "Age Reasoning",
                CATEGORIES[2]: "Navigation",
            }
        )
        assert set(found.texts) == set(gaps(BARE))

    def test_given_categories_stand(self) -> None:
        row = replace(FULL, categories=("Human Description", None, None))
        assert draft(row, replies(row)).texts == {
            CATEGORIES[1]: "Age Reasoning",
            CATEGORIES[2]: "Navigation",
        }

    def test_the_second_reply_about_categories_counts_if_the_first_is_unreadable(self) -> None:
        row = replace(FULL, categories=(None, None, None))
        outcomes = replies(row, categories="I cannot say.")
        outcomes["categories~retry_1"] = Reply(text=CHOICE)
        assert draft(row, outcomes).texts[CATEGORIES[0]] == "OCR"

    def test_a_failed_retry_is_a_fault(self) -> None:
        outcomes = replies(BARE, categories="No idea.")
        outcomes["categories~retry_1"] = Failure(kind="timeout", message="late", attempts=8)
        found = draft(BARE, outcomes)
        assert found.faults == ("categories~retry_1: timeout after 8 attempts: late",)
        assert found.unreadable == ()

    @pytest.mark.parametrize(
        ("reply", "fault"),
        [
            (Reply(text=" \n"), "turn_1: an empty reply"),
            (Reply(text="A long", finish="length"), "turn_1: cut off, raise --max-tokens"),
            (Reply(text="A", finish="filter"), "turn_1: stopped by the provider's content filter"),
        ],
    )
    def test_a_reply_that_is_no_answer_is_a_fault(self, reply: Reply, fault: str) -> None:
        assert draft(BARE, {**replies(BARE), "turn_1": reply}).faults == (fault,)

    def test_a_reply_from_a_server_that_does_not_say_how_it_ended_is_taken(self) -> None:
        outcomes = {**replies(BARE), "turn_1": Reply(text="A", finish="unknown")}
        assert draft(BARE, outcomes).faults == ()


class TestCategories:
    @pytest.mark.parametrize(
        "reply",
        [
            "First: OCR Math\nSecond: Math Reasoning\nThird: Rubik's Cube Solution",
            "FIRST: ocr math\nSECOND:   math  reasoning\nTHIRD: rubik’s cube solution.",
            "Here you are:\n\n- **First:** OCR Math\n- **Second:** Math Reasoning\n"
            "- **Third:** Rubik's Cube Solution\n",
            '1. First: "OCR Math"\n2. Second: “Math Reasoning”\n3. Third: *Rubik\'s Cube Solution*',
            "Third: Rubik's Cube Solution\r\nFirst：OCR Math\r\nSecond: `Math Reasoning`\r\n",
            "First: OCR Math\nFirst: **OCR Math**\nSecond: Math Reasoning\n"
            "Third: Rubik's Cube Solution",
        ],
    )
    def test_names_are_read_as_the_list_spells_them(self, reply: str) -> None:
        label = read_categories(reply).label
        assert label is not None
        assert label.splitlines() == ["OCR Math", "Math Reasoning", "Rubik's Cube Solution"]

    @pytest.mark.parametrize(
        "reply",
        [
            "",
            "First: OCR\nSecond: Math Reasoning",
            "First: OCR\nSecond: Math Reasoning\nThird: Cooking",
            "First: Math Reasoning\nSecond: OCR\nThird: Navigation",
            "First: OCR\nFirst: OCR Math\nSecond: Math Reasoning\nThird: Navigation",
            "First: OCR or OCR Math\nSecond: Math Reasoning\nThird: Navigation",
            "First: \nSecond: Math Reasoning\nThird: Navigation",
            "OCR\nMath Reasoning\nNavigation",
        ],
    )
    def test_anything_else_is_unparsed(self, reply: str) -> None:
        with pytest.raises(Unparsed):
            read_categories(reply)

    @pytest.mark.parametrize("turn", LISTS)
    def test_every_name_of_the_lists_can_be_chosen(self, turn: int) -> None:
        chosen = {each: names[0] for each, names in LISTS.items()}
        for name in LISTS[turn]:
            chosen[turn] = name
            reply = "First: {}\nSecond: {}\nThird: {}".format(*map(str.upper, chosen.values()))
            assert read_categories(reply).label == "\n".join(chosen.values())
