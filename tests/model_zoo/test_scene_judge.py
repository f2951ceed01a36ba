"""The judge of scenes on its own prompts: ratings, choices, ties, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from images.scenes import draw_sample
from judges.parsers import choice, rating
from judges.template import PromptSet
from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, Refused
from mmconv.core.types import Message, Sampling, Text
from model_zoo.simulated.scenes import fingerprint, open_backend
from tests.model_zoo.conftest import NoImages

PROMPTS = PromptSet("convbench_reference")
GRADING = [name for name in PROMPTS.names if "_turn_" in name or "_overall" in name]
DIRECT = [name for name in GRADING if name.startswith("direct_")]
PAIRWISE = [name for name in GRADING if name.startswith("pairwise_")]
SPEC = ModelSpec(provider="scenes", model="facts")

DIALOGUE = next(
    sample.dialogue
    for sample in (draw_sample("tests", 0, number) for number in range(100))
    if sample.dialogue.turns[0].task == "list" and sample.dialogue.turns[2].task == "caption"
)
TRUE = {str(number): turn.reference for number, turn in enumerate(DIALOGUE.turns, start=1)}
SILENT = {"1": "no", "2": "no", "3": "no"}
HALF = TRUE | {"1": TRUE["1"].partition(" and ")[0]}
SAMPLE = {
    "caption": DIALOGUE.caption,
    **{f"instruction_{n}": turn.instruction for n, turn in enumerate(DIALOGUE.turns, start=1)},
    **{f"reference_{number}": text for number, text in TRUE.items()},
    "focus_points": "\n".join(DIALOGUE.focus_points),
    "judgement_1": "(not judged)",
    "judgement_2": "Rating: 1",
    "judgement_3": "Overall, Response B is better.",
}


def answers(prefix: str, texts: Mapping[str, str]) -> dict[str, str]:
    return {f"{prefix}_{turn}": text for turn, text in texts.items()}


async def judged(name: str, values: Mapping[str, str]) -> str:
    prompt = PROMPTS[name]
    backend = await open_backend(SPEC, NoImages())
    messages = prompt.fill({slot: values[slot] for slot in prompt.slots})
    reply = await backend.generate(messages, Sampling(), affinity="x")
    await backend.aclose()
    return reply.text


async def rated(name: str, texts: Mapping[str, str]) -> float:
    return rating(await judged(name, SAMPLE | answers("answer", texts))).scores["rating"]


async def chosen(name: str, a: Mapping[str, str], b: Mapping[str, str]) -> str | None:
    return choice(await judged(name, SAMPLE | answers("a", a) | answers("b", b))).label


@pytest.mark.parametrize("name", DIRECT)
async def test_exact_answers_are_worth_ten_and_none_are_worth_one(name: str) -> None:
    assert await rated(name, TRUE) == 10
    assert await rated(name, SILENT) == 1


async def test_a_rating_falls_with_the_facts_that_are_missing_or_wrong() -> None:
    part = await rated("direct_turn_1", HALF)
    worse = await rated("direct_turn_1", HALF | {"1": f"{HALF['1']}, a pink heart and a pink ring"})
    assert 10 > part > worse > 1
    assert await rated("direct_turn_2", HALF) == 10


async def test_a_conversation_is_worth_ten_only_where_every_turn_is_exact() -> None:
    overall = await rated("direct_overall", HALF)
    turns = [await rated(f"direct_turn_{turn}", HALF) for turn in (1, 2, 3)]
    assert overall == pytest.approx(sum(turns) / 3, abs=0.7)
    assert overall <= 9


async def test_the_rationale_names_right_missing_and_wrong_facts() -> None:
    told = "A pink heart, " + TRUE["1"].partition(" and ")[2]
    text = await judged("direct_turn_1", SAMPLE | answers("answer", TRUE | {"1": told}))
    first_name = " ".join(TRUE["1"].split()[1:3]).strip(",.").casefold()
    assert "wrong: pink heart" in text
    assert f"missing: {first_name}" in text
    assert "right: " in text
    exact = await judged("direct_turn_1", SAMPLE | answers("answer", TRUE))
    assert "facts right" in exact and "wrong" not in exact


@pytest.mark.parametrize("name", PAIRWISE)
async def test_the_side_that_is_right_wins_on_either_side(name: str) -> None:
    assert await chosen(name, TRUE, SILENT) == "A"
    assert await chosen(name, SILENT, TRUE) == "B"


async def test_the_better_of_two_faulty_answers_wins() -> None:
    worse = HALF | {"1": "a pink heart"}
    assert await chosen("pairwise_turn_1", HALF, worse) == "A"
    assert await chosen("pairwise_turn_1", worse, HALF) == "B"


async def test_a_tie_is_drawn_by_the_texts_and_not_by_the_side() -> None:
    winners = set()
    for blank in range(12):
        one = {turn: text + " " * blank + "Indeed." for turn, text in TRUE.items()}
        other = {turn: text + " " * blank + "Quite so." for turn, text in TRUE.items()}
        straight = await chosen("pairwise_turn_1", one, other)
        crossed = await chosen("pairwise_turn_1", other, one)
        assert {straight, crossed} == {"A", "B"}
        winners.add(straight)
    assert winners == {"A", "B"}
    assert "drawn" in await judged(
        "pairwise_overall", SAMPLE | answers("a", TRUE) | answers("b", TRUE)
    )


async def test_what_is_no_scene_is_refused() -> None:
    filled = SAMPLE | answers("a", TRUE) | answers("b", TRUE)
    with pytest.raises(Refused, match="description"):
        await judged("pairwise_turn_1", filled | {"caption": "A cat on a mat."})
    with pytest.raises(Refused, match="instructions"):
        await judged("pairwise_turn_1", filled | {"instruction_2": "Why?"})


@pytest.mark.parametrize("system", [None, "direct turn 4", "direct extract"])
async def test_other_messages_are_refused(system: str | None) -> None:
    messages = [Message(role="user", parts=(Text(text="caption\nx"),))]
    if system:
        messages.insert(0, Message(role="system", parts=(Text(text=system),)))
    backend = await open_backend(SPEC, NoImages())
    with pytest.raises(Refused, match="no system message"):
        await backend.generate(messages, Sampling(), affinity="x")


async def test_a_missing_slot_is_refused() -> None:
    messages = [Message(role="system", parts=(Text(text="direct turn 1"),))]
    backend = await open_backend(SPEC, NoImages())
    with pytest.raises(Refused, match="reference_1"):
        await backend.generate(messages, Sampling(), affinity="x")


def test_there_is_one_model_without_options() -> None:
    assert fingerprint(SPEC) == fingerprint(SPEC.model_copy(update={"name": "other"}))
    with pytest.raises(ConfigError, match="scenes/facts"):
        fingerprint(ModelSpec(provider="scenes", model="chrf"))
    with pytest.raises(ConfigError, match="weight"):
        fingerprint(ModelSpec(provider="scenes", model="facts", options={"weight": 1}))
