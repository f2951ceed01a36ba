"""The judges of overlap on their own prompts: ratings, choices, ties, and what they refuse."""

from collections.abc import Mapping

import pytest

from judges.parsers import choice, rating
from judges.template import PromptSet
from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, Refused
from mmconv.core.types import Message, Sampling
from model_zoo.providers import provider_of
from model_zoo.simulated.reference import Task, draw_side, read_task
from tests.messages import message
from tests.model_zoo.conftest import NoImages

PROMPTS = PromptSet("convbench_reference")
GRADING = [name for name in PROMPTS.names if "_turn_" in name or "_overall" in name]
DIRECT = [name for name in GRADING if name.startswith("direct_")]
PAIRWISE = [name for name in GRADING if name.startswith("pairwise_")]
CHRF = ModelSpec(provider="reference", model="chrf")
BLEU = ModelSpec(provider="reference", model="bleu")

KITES = {
    "caption": "Three red kites and one blue kite fly over a beach. A sign reads NO DOGS.",
    "instruction_1": "How many kites are there, and what does the sign say?",
    "instruction_2": "Why might the beach be a good place for kites?",
    "instruction_3": "Write a slogan for a kite festival.",
    "reference_1": "Four kites, three red and one blue. The sign says NO DOGS.",
    "reference_2": "Wind off the sea meets nothing on the beach that slows it down.",
    "reference_3": "Four kites, one wind, no leash:\ncome and hold on to the sky.",
    "focus_points": "1. Does the slogan name kites?\n2. Does it name the beach?",
}
JUDGED = {
    "judgement_1": "(not judged)",
    "judgement_2": "Rating: 1",
    "judgement_3": "Overall, Response B is better.",
}
Answers = Mapping[str, str]
SILENT: Answers = {"1": "no", "2": "no", "3": "no"}
TRUE = {turn: KITES[f"reference_{turn}"] for turn in "123"}


def answers(prefix: str, texts: Answers) -> dict[str, str]:
    return {f"{prefix}_{turn}": text for turn, text in texts.items()}


async def judged(spec: ModelSpec, name: str, values: Mapping[str, str]) -> str:
    """The judge's reply to a shipped prompt, filled with what it needs of the values."""
    prompt = PROMPTS[name]
    filled = prompt.fill({slot: {**values, **JUDGED}[slot] for slot in prompt.slots})
    return await reply_to(spec, filled)


async def reply_to(spec: ModelSpec, messages: tuple[Message, ...]) -> str:
    backend = await provider_of(spec).open_backend(spec, NoImages())
    text = (await backend.generate(messages, Sampling(), affinity="x")).text
    await backend.aclose()
    assert "not comparable with the judgements of language models" in text
    return text


async def rated(spec: ModelSpec, name: str, texts: Answers) -> float:
    reply = await judged(spec, name, KITES | answers("answer", texts))
    return rating(reply).scores["rating"]


async def chosen(name: str, a: Answers, b: Answers) -> str | None:
    values = KITES | answers("a", a) | answers("b", b)
    return choice(await judged(CHRF, name, values)).label


@pytest.mark.parametrize("name", GRADING)
def test_a_filled_prompt_is_read_back(name: str) -> None:
    prompt = PROMPTS[name]
    values = {slot: f"first line of {slot}\nsecond line" for slot in prompt.slots}
    if "skipped" in name:
        return
    task = read_task(prompt.fill(values))
    assert (task.texts, task.grading) == (values, name.partition("_")[0])
    number = next((letter for letter in name if letter.isdecimal()), None)
    assert task.turns == ((int(number),) if number else (1, 2, 3))


@pytest.mark.parametrize("name", [name for name in DIRECT if name != "direct_turn_3"])
@pytest.mark.parametrize("spec", [CHRF, BLEU], ids=["chrf", "bleu"])
async def test_the_reference_is_worth_ten_and_nothing_one(spec: ModelSpec, name: str) -> None:
    assert await rated(spec, name, TRUE) == 10
    assert await rated(spec, name, dict.fromkeys("123", "")) == 1


@pytest.mark.parametrize("name", PAIRWISE)
async def test_the_better_side_wins_on_either_side(name: str) -> None:
    assert await chosen(name, TRUE, SILENT) == "A"
    assert await chosen(name, SILENT, TRUE) == "B"


@pytest.mark.parametrize(
    ("weight", "answer", "value"),
    [
        (0.0, TRUE["3"], 10),
        (1.0, TRUE["3"], 3),  # one of the words slogan, name, kites, beach: 1 + 9 / 4
        (0.5, TRUE["3"], 7),
        (1.0, "a slogan to name beach and KITES", 10),
        (0.0, "", 1),
    ],
)
async def test_focus_points_weigh_in_creation(weight: float, answer: str, value: float) -> None:
    spec = CHRF.model_copy(update={"options": {"focus_weight": weight}})
    assert await rated(spec, "direct_turn_3", {**SILENT, "3": answer}) == value


def drawn(a: str, b: str) -> str:
    return draw_side(Task(grading="pairwise", turns=(1,), texts={"a_1": a, "b_1": b}))


async def test_a_tie_is_drawn_by_the_texts_and_not_by_the_side() -> None:
    for number in range(20):
        assert {drawn(f"{number}", "x"), drawn("x", f"{number}")} == {"A", "B"}
    assert 70 <= [drawn(f"{number}", f"{number}") for number in range(200)].count("A") <= 130
    one, other = ({**SILENT, "1": text} for text in ("xyz", "qqq"))
    sides = [await chosen("pairwise_turn_1", *both) for both in ((one, other), (other, one))]
    assert {*sides} == {"A", "B"}
    both_same = KITES | answers("a", TRUE) | answers("b", TRUE)
    assert "drawn" in await judged(CHRF, "pairwise_overall", both_same)


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ((message("user", "Which is better?"),), "no system message names a task"),
        (
            (message("system", "You are a judge."), message("user", "x")),
            "no system message names a task",
        ),
        (
            (message("system", "direct turn 1"), message("system", "direct turn 1")),
            "no system message",
        ),
        (
            (message("system", "direct turn 1"), message("user", "answer_1\nx")),
            "slot 'reference_1' is mis",
        ),
    ],
)
async def test_other_messages_are_refused(messages: tuple[Message, ...], problem: str) -> None:
    with pytest.raises(Refused, match=rf"{problem}.* prompts shipped for it") as caught:
        await reply_to(CHRF, messages)
    assert caught.value.kind == "rejected"


@pytest.mark.parametrize(
    ("provider", "model", "options", "problem"),
    [
        ("reference", "ter", {}, "no model reference/ter; there are reference/chrf, "),
        ("reference", "chrf", {"focus": 1}, "focus is not a field here; there are: focus_weight"),
    ],
)
async def test_a_wrong_model_or_option_is_named(
    provider: str, model: str, options: dict[str, int], problem: str
) -> None:
    spec = ModelSpec(provider=provider, model=model, options=options)
    with pytest.raises(ConfigError, match=problem):
        provider_of(spec).fingerprint(spec)
    with pytest.raises(ConfigError, match=problem):
        await provider_of(spec).open_backend(spec, NoImages())
