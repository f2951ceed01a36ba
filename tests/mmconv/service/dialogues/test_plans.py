"""What a dialogue asks: turns under every condition, and judges that read what they should."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from mmconv.benchmarks.convbench.benchmark import ConvBench
from mmconv.benchmarks.convbench.data import Row
from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.graph import check, dependencies, resolve
from mmconv.core.keys import content_key
from mmconv.core.types import Call, Image, Reply, Text
from mmconv.service.dialogue_run import DialogueRun
from tests.mmconv.service.dialogues.samples import PICTURE, TURNS, dialogue

REPLIES = {
    **{f"turn_{number}": Reply(text=f"own {number}") for number in range(1, 5)},
    **{
        f"{grading}/turn_{number}": Reply(text=f"{grading} of {number}")
        for grading in ("direct", "pairwise_A", "pairwise_B")
        for number in (1, 2, 3)
    },
}


def calls(run: DialogueRun) -> dict[str, dict[str, Call]]:
    return {plan.condition: {call.id: call for call in plan.calls} for plan in run.plans()}


def prompt(call: Call) -> str:
    """The last message, resolved, pictures left out."""
    parts = resolve(call.messages, REPLIES)[-1].parts
    return "".join(part.text for part in parts if isinstance(part, Text))


def key(call: Call) -> str:
    return content_key("", resolve(call.messages, REPLIES), call.sampling)


def test_each_condition_leaves_the_model_its_own_turns() -> None:
    own = {
        condition: [name for name in found if name.startswith("turn")]
        for condition, found in calls(dialogue()).items()
    }
    assert own == {
        "free": ["turn_1", "turn_2", "turn_3"],
        "perception": ["turn_2", "turn_3"],
        "reasoning": ["turn_3"],
    }


def test_given_turns_stand_as_text_and_others_as_what_was_said() -> None:
    found = calls(dialogue())
    assert dependencies(found["free"]["turn_3"]) == {"turn_1", "turn_2"}
    assert dependencies(found["perception"]["turn_3"]) == {"turn_2"}
    third = resolve(found["perception"]["turn_3"].messages, REPLIES)
    assert [message.parts[-1] for message in third] == [
        Text(text=text) for text in ("What is it?", "A kite.", "Why?", "own 2", "Write a slogan.")
    ]
    assert third[0].parts[0] == PICTURE


def test_the_system_prompt_goes_first() -> None:
    turn = calls(dialogue(system="Be brief."))["free"]["turn_1"]
    assert turn.messages[0].parts == (Text(text="Be brief."),)


@pytest.mark.parametrize("side", ["A", "B", None])
def test_convbench_prompts_ask_what_a_run_asks(side: Literal["A", "B"] | None) -> None:
    order = side or "both"
    asked = dialogue(prompts="convbench", gradings=["direct", "pairwise"], order=order)
    first, second, third = asked.request.turns
    row = Row(
        id="14",
        image=PICTURE,
        instructions=(first.instruction, second.instruction, third.instruction),
        caption=asked.request.caption,
        references=(first.reference, second.reference, third.reference),
        focus_points="A slogan?",
        position=side,
    )
    options = {"data": "x", "images": "x", "order": "random" if side else "both"}
    benchmark = ConvBench(
        RunSpec(benchmark="convbench", options=options, models=asked.benchmark.spec.models)
    )
    for condition, found in calls(asked).items():
        run = benchmark.calls(row, condition)
        assert {call.id: key(call) for call in run} == {name: key(found[name]) for name in found}


def test_an_offline_judge_has_prompts_of_its_own() -> None:
    judged = calls(dialogue(prompts="convbench", judge="reference/chrf"))["free"]["direct/turn_1"]
    assert judged.messages[0].parts == (Text(text="direct turn 1"),)
    with pytest.raises(ConfigError, match="set prompts: convbench"):
        dialogue(judge="reference/chrf").plans()


def test_a_judge_reads_up_to_the_turn_with_its_reference_and_focus_points() -> None:
    found = calls(dialogue())["free"]
    second, third = prompt(found["direct/turn_2"]), prompt(found["direct/turn_3"])
    for text in ("A red kite.", "What is it?", "own 1", "Why?", "own 2", "For fun."):
        assert text in second
    for text in ("Write a slogan.", "own 3", "A kite.", "Fly high!"):
        assert text not in second
    assert "A slogan?" in third
    assert "Fly high!" in third
    overall = prompt(found["direct/overall"])
    assert all(f"own {number}" in overall for number in (1, 2, 3))
    assert all(str(turn["reference"]) in overall for turn in TURNS)


def test_a_turn_without_reference_is_rated_on_its_own() -> None:
    turns = [{"instruction": "What is it?"}, *TURNS[1:]]
    found = calls(dialogue(turns=turns, conditions=["free"]))["free"]
    names = {name: str(call.prompt).partition("@")[0] for name, call in found.items()}
    assert names["direct/turn_1"] == "direct_turn_without_reference"
    assert names["direct/turn_2"] == "direct_turn"
    assert names["direct/overall"] == "direct_overall_without_references"


@pytest.mark.parametrize(("side", "first"), [("A", "own 2"), ("B", "For fun.")])
def test_a_comparison_shows_the_model_on_its_side(side: str, first: str) -> None:
    asked = dialogue(gradings=["pairwise"], order=side, conditions=["perception"])
    text = prompt(calls(asked)["perception"][f"pairwise_{side}/turn_2"])
    other = {"own 2": "For fun.", "For fun.": "own 2"}[first]
    assert text.index(first) < text.index(other)
    assert text.count("A kite.") == 2


@pytest.mark.parametrize("sees", [True, False])
def test_the_judge_sees_the_pictures_if_it_shall(sees: bool) -> None:
    found = calls(dialogue(judge_sees_images=sees))["free"]
    for name, call in found.items():
        if name.startswith("direct"):
            pictures = [part for part in call.messages[-1].parts if isinstance(part, Image)]
            assert pictures == ([PICTURE] if sees else [])


NAME = "image:" + "cd" * 32


def with_images() -> list[dict[str, Any]]:
    """The turns, the first and the last with images of their own."""
    first, second, third = TURNS
    return [first | {"images": [NAME]}, second, third | {"images": [NAME, NAME]}]


def test_images_are_shown_with_their_turns() -> None:
    found = calls(dialogue(turns=with_images()))["free"]
    shown = [
        [isinstance(part, Image) for part in message.parts]
        for message in found["turn_3"].messages
        if message.role == "user"
    ]
    assert shown == [[True, True, False], [False], [True, True, False]]


@pytest.mark.parametrize("grading", ["direct", "pairwise"])
def test_a_judge_sees_images_where_their_turns_stand(grading: str) -> None:
    asked = dialogue(
        turns=with_images(), judge_sees_images=True, gradings=[grading], order="A", caption=None
    )
    found = calls(asked)["free"]
    name = "direct" if grading == "direct" else "pairwise_A"
    counted = {
        turn: sum(isinstance(part, Image) for part in found[f"{name}/{turn}"].messages[-1].parts)
        for turn in ("turn_1", "turn_2", "turn_3")
    }
    # those of turn 1 once, those of turn 3 in each conversation that is shown
    assert counted == {"turn_1": 2, "turn_2": 2, "turn_3": 4 if grading == "direct" else 6}
    parts = resolve(found[f"{name}/turn_3"].messages, REPLIES)[-1].parts
    last = max(place for place, part in enumerate(parts) if isinstance(part, Image))
    after = parts[last + 1]
    assert isinstance(after, Text)
    assert after.text.startswith("Write a slogan.")


def test_any_number_of_turns() -> None:
    turns = [{"instruction": f"Turn {number}", "reference": "r"} for number in range(1, 5)]
    asked = dialogue(turns=turns, conditions=[3, "free"], images=[], gradings=["direct"])
    found = calls(asked)
    assert list(found) == ["free", "given_3"]
    assert list(found["given_3"]) == ["turn_4", "direct/turn_4", "direct/overall"]
    for plan in asked.plans():
        check(plan.calls)
    single = dialogue(turns=turns[:1], conditions=["free"], images=[])
    assert list(calls(single)["free"]) == ["turn_1", "direct/turn_1"]


def test_more_turns_are_given_than_a_run_has_conditions_for() -> None:
    turns = [{"instruction": f"Turn {number}", "reference": "r"} for number in range(1, 20)]
    found = calls(dialogue(turns=turns, conditions=[18], images=[], gradings=["direct"]))
    assert [*found["given_18"]] == ["turn_19", "direct/turn_19", "direct/overall"]


def test_without_a_judge_nothing_is_judged() -> None:
    run = dialogue()
    asked = run.request.model_validate(
        run.request.model_dump(exclude={"judge", "caption"}, exclude_unset=True)
        | {"conditions": ["reasoning"]}
    )
    benchmark = type(run.benchmark)(
        run.benchmark.spec.model_copy(update={"options": {"data": "x", **asked.options}})
    )
    [plan] = DialogueRun(request=asked, benchmark=benchmark, sample=run.sample).plans()
    assert [call.id for call in plan.calls] == ["turn_3"]
