"""The offline judge on its own prompts: ratings, choices, ties, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from judges.judging import Judge
from judges.parsers import choice, rating
from judges.template import PromptSet
from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, Refused
from mmconv.core.types import Image, Message, Sampling, Text
from model_zoo.simulated.reference import fingerprint, open_backend
from tests.model_zoo.conftest import NoImages

SAMPLING = Sampling()
PROMPTS = PromptSet("convbench_reference")

CAPTION = "Three red kites and one blue kite fly over a beach. A sign reads NO DOGS."
REFERENCES = {
    "reference_1": "Four kites, three red and one blue. The sign says NO DOGS.",
    "reference_2": "Wind off the sea meets nothing on the beach that slows it down.",
    "reference_3": "Four kites, one wind, no leash:\ncome and hold on to the sky.",
}
SAMPLE = {
    "caption": CAPTION,
    "instruction_1": "How many kites are there, and what does the sign say?",
    "instruction_2": "Why might the beach be a good place for kites?",
    "instruction_3": "Write a slogan for a kite festival.",
    "focus_points": "1. Does the slogan name kites?\n2. Does it name the beach?",
    "judgement_1": "(not judged)",
    "judgement_2": "Rating: 1",
    "judgement_3": "Overall, Response B is better.",
} | REFERENCES
SILENT = {"1": "no", "2": "no", "3": "no"}
PERFECT = {name[-1]: text for name, text in REFERENCES.items()}


def answers(prefix: str, texts: Mapping[str, str]) -> dict[str, str]:
    return {f"{prefix}_{turn}": text for turn, text in texts.items()}


async def judged(name: str, values: Mapping[str, str], spec: ModelSpec | None = None) -> str:
    """The judge's reply to a shipped prompt, filled with what it needs of the values."""
    spec = spec or ModelSpec(provider="reference", model="chrf")
    prompt = PROMPTS[name]
    backend = await open_backend(spec, NoImages())
    messages = prompt.fill({slot: values[slot] for slot in prompt.slots})
    reply = await backend.generate(messages, SAMPLING, affinity="x")
    await backend.aclose()
    assert "not comparable with the judgements of language models" in reply.text
    return reply.text


async def rated(name: str, texts: Mapping[str, str], spec: ModelSpec | None = None) -> float:
    reply = await judged(name, SAMPLE | answers("answer", texts), spec)
    return rating(reply).scores["rating"]


async def chosen(name: str, a: Mapping[str, str], b: Mapping[str, str]) -> str | None:
    return choice(await judged(name, SAMPLE | answers("a", a) | answers("b", b))).label


GRADING = [name for name in PROMPTS.names if "_turn_" in name or "_overall" in name]
DIRECT = [name for name in GRADING if name.startswith("direct_")]
PAIRWISE = [name for name in GRADING if name.startswith("pairwise_")]


@pytest.mark.parametrize("name", [name for name in DIRECT if name != "direct_turn_3"])
@pytest.mark.parametrize("model", ["chrf", "bleu"])
async def test_the_reference_itself_is_worth_ten_and_nothing_is_worth_one(
    name: str, model: str
) -> None:
    spec = ModelSpec(provider="reference", model=model)
    assert await rated(name, PERFECT, spec) == 10
    assert await rated(name, {"1": "", "2": "", "3": ""}, spec) == 1


async def test_only_the_judged_turn_counts() -> None:
    for turn in "123":
        answer = SILENT | {turn: PERFECT[turn]}
        name = f"direct_turn_{turn}" + ("_without_focus_points" if turn == "3" else "")
        assert await rated(name, answer) == 10
    assert await rated("direct_overall", SILENT | {"1": PERFECT["1"]}) == 4


async def test_a_nearer_answer_is_rated_higher() -> None:
    near = SILENT | {"1": "There are four kites, three of them red. The sign says NO DOGS."}
    far = SILENT | {"1": "A sunny day with people who swim."}
    assert await rated("direct_turn_1", near) > await rated("direct_turn_1", far)


@pytest.mark.parametrize(
    ("weight", "answer", "value"),
    [
        (0.0, PERFECT["3"], 10),
        (1.0, PERFECT["3"], 3),  # one of the words slogan, name, kites, beach: 1 + 9 / 4
        (0.5, PERFECT["3"], 7),
        (1.0, "a slogan to name beach and KITES", 10),
        (0.0, "", 1),
    ],
)
async def test_focus_points_are_blended_into_the_creation_turn(
    weight: float, answer: str, value: float
) -> None:
    spec = ModelSpec(provider="reference", model="chrf", options={"focus_weight": weight})
    assert await rated("direct_turn_3", SILENT | {"3": answer}, spec) == value


async def test_focus_points_without_content_words_do_not_count() -> None:
    values = SAMPLE | answers("answer", PERFECT) | {"focus_points": "Is it?"}
    assert rating(await judged("direct_turn_3", values)).scores["rating"] == 10


@pytest.mark.parametrize("name", PAIRWISE)
async def test_the_side_nearer_to_what_was_asked_wins_wherever_it_stands(name: str) -> None:
    assert await chosen(name, PERFECT, SILENT) == "A"
    assert await chosen(name, SILENT, PERFECT) == "B"


@pytest.mark.parametrize("texts", [("", ""), ("xyz", "qqq"), ("same", "same")])
async def test_a_tie_is_drawn_by_the_texts_and_not_by_the_side(texts: tuple[str, str]) -> None:
    a, b = (SILENT | {"1": text} for text in texts)
    first = await chosen("pairwise_turn_1", a, b)
    second = await chosen("pairwise_turn_1", b, a)
    assert (first == second) == (a == b)


async def test_ties_do_not_always_go_to_one_side() -> None:
    sides = [
        await chosen("pairwise_turn_1", SILENT | {"1": text}, SILENT | {"1": text})
        for text in "abcdefghijklmnop"
    ]
    assert set(sides) == {"A", "B"}


async def test_a_text_that_looks_like_a_slot_stays_a_text() -> None:
    answer = SILENT | {"1": "reference_1\n" + PERFECT["1"]}
    assert await rated("direct_turn_1", answer) > 5


async def test_a_picture_is_not_looked_at() -> None:
    picture = Image(sha256="00" * 32, media_type="image/png", width=1, height=1)
    prompt = PROMPTS["direct_turn_1"]
    values = SAMPLE | answers("answer", PERFECT)
    judge = Judge(parser=rating, sampling=SAMPLING, image=True)
    call = judge.call("j", prompt, {slot: values[slot] for slot in prompt.slots}, picture)
    backend = await open_backend(ModelSpec(provider="reference", model="chrf"), NoImages())
    reply = await backend.generate(call.messages, SAMPLING, affinity="x")
    assert rating(reply.text).scores["rating"] == 10


def user(text: str) -> Message:
    return Message(role="user", parts=(Text(text=text),))


def system(text: str) -> Message:
    return Message(role="system", parts=(Text(text=text),))


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ((user("Which is better?"),), "no system message names a task"),
        ((system("You are a judge."), user("x")), "no system message names a task"),
        ((system("direct extract"), user("judgement\nx")), "no system message names a task"),
        ((system("direct turn 4"),), "no system message names a task"),
        ((system("direct turn 1"), system("direct turn 1")), "no system message names a task"),
        ((system("direct turn 1"), user("answer_1\nx")), "slot 'reference_1' is missing"),
    ],
)
async def test_other_messages_are_refused(messages: tuple[Message, ...], problem: str) -> None:
    backend = await open_backend(ModelSpec(provider="reference", model="chrf"), NoImages())
    with pytest.raises(Refused, match=rf"{problem}.*without --prompts") as caught:
        await backend.generate(messages, SAMPLING, affinity="x")
    assert caught.value.kind == "rejected"


async def test_a_wrong_model_or_option_is_named() -> None:
    with pytest.raises(ConfigError, match="no model reference/ter; there are reference/chrf, "):
        await open_backend(ModelSpec(provider="reference", model="ter"), NoImages())
    wrong = ModelSpec(provider="reference", model="chrf", options={"focus": 1})
    with pytest.raises(ConfigError, match="focus is not a field here; there are: focus_weight"):
        fingerprint(wrong)


def test_the_fingerprint_tells_judges_apart() -> None:
    specs = [
        ModelSpec(provider="reference", model="chrf"),
        ModelSpec(provider="reference", model="bleu"),
        ModelSpec(provider="reference", model="chrf", options={"focus_weight": 0.5}),
    ]
    assert len({fingerprint(spec) for spec in specs}) == len(specs)
    renamed = ModelSpec(provider="reference", model="chrf", name="overlap")
    assert fingerprint(renamed) == fingerprint(specs[0])
