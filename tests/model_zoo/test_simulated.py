"""The simulated candidate and judge: their rates, what their draws share, and what is expected."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean
from typing import Any

import pytest

from judges import PromptSet, parsers
from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, Refused
from mmconv.core.protocols import Backend
from mmconv.core.types import Image, Message, Sampling
from model_zoo.simulated.planted import (
    CandidateOptions,
    Errors,
    JudgeOptions,
    fingerprint,
    open_backend,
    read_answer,
    write_answer,
)
from tests.messages import message
from tests.mmconv.planted_truth import expected
from tests.model_zoo.conftest import NoImages

PROMPTS = PromptSet("convbench")
REFERENCE = "A person's answer."
RIGHT, WRONG = (write_answer(1, wrong=wrong) for wrong in (False, True))
RATES: Mapping[str, Any] = {
    "perception": 0.4,
    "reasoning": {"after_right": 0.2, "after_wrong": 0.7},
    "creation": {"after_right": 0.1, "after_wrong": 0.5},
}
SAMPLES = 1500


def spec(model: str, **options: Any) -> ModelSpec:
    return ModelSpec(provider="simulated", model=model, options=options)


def history(number: int, *answers: str, picture: int | None = None) -> list[Message]:
    """The conversation of sample `number` up to the turn after these answers."""
    parts: list[Image | str] = [f"What is shown? ({number})"]
    if picture is not None:
        sha256 = f"{picture:064x}"
        parts.insert(0, Image(sha256=sha256, media_type="image/png", width=8, height=6))
    messages = [message("user", *parts)]
    for turn, text in enumerate(answers, start=2):
        messages += [message("assistant", text), message("user", f"And at turn {turn}?")]
    return messages


async def candidate(**options: Any) -> Backend:
    return await open_backend(spec("candidate", **{**RATES, **options}), NoImages())


async def fails(backend: Backend, messages: Sequence[Message], trial: int = 0) -> bool:
    reply = await backend.generate(messages, Sampling(trial=trial), affinity="")
    state = read_answer(reply.text)
    assert state is not None
    return state


async def wrongs(
    *answers: str, options: Mapping[str, Any] | None = None, trial: int = 0
) -> list[bool]:
    """Whether each of many samples fails the turn after these answers."""
    backend = await candidate(**(options or {}))
    return [await fails(backend, history(each, *answers), trial) for each in range(SAMPLES)]


@pytest.mark.parametrize(
    ("answers", "rate"),
    [
        ((), 0.4),
        ((RIGHT,), 0.2),
        ((REFERENCE,), 0.2),
        ((WRONG,), 0.7),
        ((WRONG, RIGHT), 0.1),
        ((RIGHT, WRONG), 0.5),
        ((REFERENCE, REFERENCE), 0.1),
    ],
)
@pytest.mark.parametrize("alike", [{}, {"levels": 0.3, "conditions": 0.5}])
async def test_a_level_fails_at_its_rate(
    answers: tuple[str, ...], rate: float, alike: dict[str, float]
) -> None:
    found = fmean(await wrongs(*answers, options={"alike": alike, "seed": 4}))
    assert abs(found - rate) < 4 * sqrt(rate * (1 - rate) / SAMPLES)


@pytest.mark.parametrize("kept", [False, True])
async def test_what_was_given_and_the_trial_draw_anew_unless_draws_are_kept(kept: bool) -> None:
    even = {"after_right": 0.5, "after_wrong": 0.5}
    options = {"reasoning": even, "alike": {"conditions": float(kept)}}
    freely = await wrongs(RIGHT, options=options)
    assert (freely == await wrongs(REFERENCE, options=options)) is kept
    assert (freely == await wrongs(RIGHT, options=options, trial=1)) is kept


@pytest.mark.parametrize("tied", [False, True])
async def test_levels_may_share_their_draw(tied: bool) -> None:
    even = {"after_right": 0.5, "after_wrong": 0.5}
    options = {"perception": 0.5, "reasoning": even, "alike": {"levels": float(tied)}}
    assert (await wrongs(options=options) == await wrongs(RIGHT, options=options)) is tied


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
async def test_samples_of_a_picture_may_share_their_draws(share: float) -> None:
    backend = await candidate(alike={"image": share})
    found = [await fails(backend, history(each, picture=each // 2)) for each in range(SAMPLES)]
    equal = fmean(found[each] == found[each + 1] for each in range(0, SAMPLES, 2))
    chance = 0.4**2 + 0.6**2
    assert abs(equal - (share + (1 - share) * chance)) < 4 * 0.5 / sqrt(SAMPLES / 2)


async def test_an_answer_says_what_it_is_and_what_was_seen() -> None:
    backend = await candidate(reasoning={"after_right": 1, "after_wrong": 1})
    reply = await backend.generate(history(1, RIGHT, picture=7), Sampling(), affinity="")
    assert reply.text == "This answer is wrong. (simulated reasoning: wrong)"
    assert [(image.width, image.height) for image in reply.seen] == [(8, 6)]
    assert reply.output_tokens == 7


async def test_a_fourth_turn_is_refused() -> None:
    with pytest.raises(Refused, match="knows three turns, not 4"):
        await fails(await candidate(), history(1, RIGHT, RIGHT, RIGHT))


def filled(name: str, slots: Mapping[str, str]) -> tuple[Message, ...]:
    prompt = PROMPTS[name]
    return prompt.fill({slot: slots.get(slot, f"(the {slot})") for slot in prompt.slots})


async def judge(messages: Sequence[Message], trial: int = 0, **options: Any) -> str:
    backend = await open_backend(spec("judge", **options), NoImages())
    return (await backend.generate(messages, Sampling(trial=trial), affinity="")).text


ASKED = ["turn_1", "turn_2", "turn_3", "turn_3_without_focus_points"]
SURE: dict[str, Any] = {
    "rating": {"right": 9, "wrong": 2, "spread": 0},
    "win": {"right": 1.0, "wrong": 0.0},
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("failed", [1, 2, 3])
async def test_a_turn_is_judged_by_its_own_answer(name: str, failed: int) -> None:
    """Through the shipped prompts, on either side; the other turns do not count."""
    answers = {turn: write_answer(turn, wrong=turn == failed) for turn in (1, 2, 3)}
    bad = int(name[5]) == failed
    slots = {f"answer_{turn}": text for turn, text in answers.items()}
    rated = parsers.rating(await judge(filled(f"direct_{name}", slots), **SURE))
    assert rated.scores == {"rating": 2.0 if bad else 9.0}
    for side, other in ("ab", "ba"):
        slots = {f"{side}_{turn}": text for turn, text in answers.items()}
        text = await judge(filled(f"pairwise_{name}", slots), **SURE)
        assert parsers.choice(text).label == (other if bad else side).upper()


@pytest.mark.parametrize("name", ["overall", "overall_without_judgements"])
async def test_a_conversation_is_judged_by_one_of_its_turns(name: str) -> None:
    """The first answer is given, and right; the second is wrong."""
    answers = {1: REFERENCE, 2: write_answer(2, wrong=True), 3: write_answer(3, wrong=False)}
    for way, prefix in (("direct", "answer"), ("pairwise", "b")):
        slots = {f"{prefix}_{turn}": text for turn, text in answers.items()}
        prompt = filled(f"{way}_{name}", slots)
        texts = [await judge(prompt, trial, **SURE) for trial in range(300)]
        said = Counter(text.partition("\n")[0] for text in texts)
        assert len(said) == 3
        assert min(said.values()) > 60
        lost = [parsers.rating(text).scores["rating"] == 2 for text in texts if way == "direct"]
        lost += [parsers.choice(text).label == "A" for text in texts if way == "pairwise"]
        assert sum(lost) == said["The answer to instruction 2 is wrong."]


async def test_ratings_and_wins_are_drawn_as_told() -> None:
    options: dict[str, Any] = {
        "rating": {"right": 8, "wrong": 3, "spread": 2},
        "win": {"right": 0.7, "wrong": 0},
    }
    slots = {f"{side}_{turn}": RIGHT for side in ("answer", "a") for turn in (1, 2, 3)}
    rated = [
        parsers.rating(await judge(filled("direct_turn_1", slots), trial, **options)).scores
        for trial in range(1000)
    ]
    counts = Counter(scores["rating"] for scores in rated)
    assert sorted(counts) == [6, 7, 8, 9, 10]
    assert min(counts.values()) > 150
    won = [
        parsers.choice(await judge(filled("pairwise_turn_1", slots), trial, **options)).label == "A"
        for trial in range(1000)
    ]
    assert abs(fmean(won) - 0.7) < 4 * sqrt(0.21 / 1000)


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([message("user", "Which is better?")], "does not end with a request"),
        (filled("direct_turn_1", {}), "does not hold one simulated conversation"),
        (
            filled("pairwise_turn_1", {"a_1": RIGHT, "b_1": RIGHT}),
            "does not hold one simulated conversation",
        ),
        (filled("direct_extract", {}), "does not end with a request"),
    ],
)
async def test_what_is_not_for_it_is_refused(messages: Sequence[Message], problem: str) -> None:
    with pytest.raises(Refused, match=problem):
        await judge(messages)


@pytest.mark.parametrize(
    ("model", "options", "output"),
    [
        ("oracle", {}, "choose candidate or judge"),
        ("candidate", {"perception": 1.2}, "perception"),
        ("candidate", {"reasoning": 0.2}, "reasoning"),
        ("candidate", {"alike": {"image": -1}}, "alike.image"),
        ("judge", {"rating": {"right": 9, "spread": 2}}, "9 with a spread of 2 leaves the scale"),
        ("judge", {"perception": 0.5}, "perception is not a field here"),
    ],
)
async def test_wrong_options_are_told(model: str, options: dict[str, Any], output: str) -> None:
    for refused in (fingerprint, None):
        with pytest.raises(ConfigError, match=re.escape(output)):
            if refused:
                refused(spec(model, **options))
            else:
                await open_backend(spec(model, **options), NoImages())


PERFECT_JUDGE = JudgeOptions.model_validate(
    {"rating": {"right": 10, "wrong": 1, "spread": 0}, "win": {"right": 1, "wrong": 0}}
)


def test_means_without_anything_alike_follow_the_chain() -> None:
    known = expected(CandidateOptions.model_validate(RATES), PERFECT_JUDGE)
    reasoning = 0.4 * 0.7 + 0.6 * 0.2
    creation = reasoning * 0.5 + (1 - reasoning) * 0.1
    given = 0.2 * 0.5 + 0.8 * 0.1
    failing = {
        ("free", 1): 0.4,
        ("free", 2): reasoning,
        ("free", 3): creation,
        ("free", 0): (0.4 + reasoning + creation) / 3,
        ("perception", 2): 0.2,
        ("perception", 3): given,
        ("perception", 0): (0.2 + given) / 3,
        ("reasoning", 3): 0.1,
        ("reasoning", 0): 0.1 / 3,
    }
    for (condition, turn), rate in failing.items():
        assert known.means["win", condition, turn] == pytest.approx(1 - rate)
        assert known.means["rating", condition, turn] == pytest.approx(10 - 9 * rate)
    net = (creation - given) / creation
    assert known.net["win", "creation", "perception"] == pytest.approx(net)
    assert known.net["rating", "creation", "creation"] == pytest.approx(0.1 / creation)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("wrong", [False, True])
async def test_a_judge_errs_as_often_as_it_should(given: bool, wrong: bool) -> None:
    errors = {"fails_right": 0.3, "passes_wrong": 0.2, "halo": 0.1, "side": 0.2}
    own = write_answer(2, wrong=wrong)
    answers = {1: REFERENCE if given else RIGHT, 2: own, 3: RIGHT}
    rate = 0.8 if wrong else 0.3
    rate -= 0.1 * given
    for way, prefix, expected_rate in (
        ("direct", "answer", rate),
        ("pairwise", "b", 0.8 * rate + 0.2),  # what is shown second loses if the side decides
    ):
        slots = {f"{prefix}_{turn}": text for turn, text in answers.items()}
        prompt = filled(f"{way}_turn_2", slots)
        texts = [await judge(prompt, trial, **SURE, errors=errors) for trial in range(800)]
        lost = [parsers.rating(text).scores["rating"] == 2 for text in texts if way == "direct"]
        lost += [parsers.choice(text).label == "A" for text in texts if way == "pairwise"]
        assert abs(fmean(lost) - expected_rate) < 4 * sqrt(0.25 / 800)


def test_a_harsh_judge_hides_what_is_due_to_perception_but_not_the_split() -> None:
    candidate = CandidateOptions.model_validate(RATES)
    harsh = PERFECT_JUDGE.model_copy(update={"errors": Errors(fails_right=0.3)})
    planted, judged = expected(candidate, PERFECT_JUDGE), expected(candidate, harsh)
    place = "rating", "creation", "perception"
    assert judged.net[place] < 0.7 * planted.net[place]
    assert judged.split[place] == pytest.approx(planted.split[place])
    kind = PERFECT_JUDGE.model_copy(update={"errors": Errors(fails_right=0.3, halo=0.1)})
    assert expected(candidate, kind).split[place] > planted.split[place] + 0.05
