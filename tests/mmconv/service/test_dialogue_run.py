"""A dialogue as a run: the request's fields, its plans, its result and its failures."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import pytest

from mmconv.api import DialogueResult
from mmconv.benchmarks.convbench.benchmark import ConvBench
from mmconv.benchmarks.convbench.data import Row
from mmconv.benchmarks.dialogue import Dialogue, DialogueOptions
from mmconv.core.config import RunSpec
from mmconv.core.errors import PromptError
from mmconv.core.graph import check, resolve
from mmconv.core.keys import content_key
from mmconv.core.types import Call, Failure, Image, Outcome, Reply, Text
from mmconv.service.dialogue_run import OPTIONS, DialogueRequest, DialogueRun
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.dialogue_samples import PICTURE, TURNS, dialogue, finish, request

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


def test_given_turns_stand_as_text_and_others_as_what_was_said() -> None:
    found = calls(dialogue())
    assert found["free"]["turn_3"].needs == {"turn_1", "turn_2"}
    assert found["perception"]["turn_3"].needs == {"turn_2"}
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


NAME = "image:" + "cd" * 32


def with_images() -> list[dict[str, Any]]:
    """The turns, the first and the last with images of their own."""
    first, second, third = TURNS
    return [first | {"images": [NAME]}, second, third | {"images": [NAME, NAME]}]


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


SHOWN = TURNS[0] | {"images": ["image:" + "cd" * 32]}
LATE = [TURNS[0], TURNS[1] | {"images": ["image:" + "cd" * 32]}, TURNS[2]]
BARE = [{"instruction": "What is it?"}, {"instruction": "Why?"}]


def test_a_folder_of_prompts_replaces_those_that_judge(tmp_path: Path) -> None:
    shipped = resources.files("judges") / "prompts" / "convbench" / "direct_turn_1.md"
    (tmp_path / "direct_turn_1.md").write_text(shipped.read_text(encoding="utf-8") + "!")

    def digests(folder: Path | None, **options: str) -> dict[str, str]:
        options["data"] = "unused"
        spec = RunSpec(benchmark="dialogue", models={}, prompts=folder, options=options)
        return Dialogue(spec).prompt_set.digests()

    ours, theirs = (digests(folder, prompts="convbench") for folder in (None, tmp_path))
    assert {name for name in ours if ours[name] != theirs[name]} == {"direct_turn_1"}
    with pytest.raises(PromptError, match="dialogue has no prompt 'direct_turn_1'"):
        digests(tmp_path)


def test_an_offline_judge_is_remarked_on() -> None:
    by_overlap = dialogue(judge="reference/chrf", prompts="convbench", gradings=["direct"])
    assert "not comparable" in " ".join(by_overlap.benchmark.remarks())
    assert not [*dialogue().benchmark.remarks()]


def test_defaults_are_those_of_the_benchmark() -> None:
    fields, options = DialogueRequest.model_fields, DialogueOptions.model_fields
    for option, field in OPTIONS.items():
        assert fields[field].default == options[option].default, option


def test_conditions_are_numbers_of_given_turns() -> None:
    asked = request(conditions=["reasoning", "free", 1])
    assert asked.given == (0, 1, 2)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"conditions": ["free", 0]}, "conditions"),
        ({"conditions": ["free", 3]}, "turns"),
        ({"turns": BARE, "conditions": ["free", 1]}, "turns[0].reference"),
        ({"judge": None, "gradings": ["direct"], "caption": None}, "judge"),
        ({"caption": None}, "caption"),
        ({"images": [], "judge_sees_images": True}, "judge_sees_images"),
        ({"turns": [*TURNS[:2], BARE[1]], "gradings": ["pairwise"]}, "turns[2].reference"),
        ({"prompts": "convbench", "images": []}, "images"),
        ({"images": [], "turns": LATE, "caption": None}, "caption"),
        ({"prompts": "convbench", "turns": LATE}, "images"),
        ({"prompts": "convbench", "turns": [SHOWN, *TURNS[1:]]}, "images"),
        ({"prompts": "convbench", "turns": TURNS[:2], "conditions": ["free"]}, "turns"),
        ({"prompts": "convbench", "caption": None, "judge_sees_images": True}, "caption"),
        (
            {
                "prompts": "convbench",
                "turns": [TURNS[0], {**TURNS[1], "focus_points": "x"}, TURNS[2]],
            },
            "turns[1].focus_points",
        ),
    ],
)
def test_the_field_to_blame_is_named(change: dict[str, Any], field: str) -> None:
    assert field in [where for where, _ in request(**change).faults()]


RATED = {"free": (4, 5, 6, 5), "perception": (None, 7, 6, 6), "reasoning": (None, None, 9, 8)}


def rated(ratings: tuple[int | None, ...]) -> dict[str, Outcome]:
    names = ("turn_1", "turn_2", "turn_3", "overall")
    return {
        f"direct/{name}": Reply(text=f"It is so.\nRating: {rating}", output_tokens=3)
        for name, rating in zip(names, ratings, strict=True)
    }


def read(run: DialogueRun, replies: Mapping[str, Mapping[str, Outcome]]) -> DialogueResult:
    """The result, its plans ended in reverse."""
    ended = [finish(plan, replies.get(plan.condition, {})) for plan in run.plans()]
    return run.result(reversed(ended))


@pytest.fixture
def whole() -> DialogueResult:
    return read(dialogue(), {name: rated(ratings) for name, ratings in RATED.items()})


def test_texts_and_verdicts(whole: DialogueResult) -> None:
    assert [each.condition for each in whole.conditions] == ["free", "perception", "reasoning"]
    perception = whole.conditions[1]
    given, own = perception.turns[:2]
    assert (given.given, given.text, given.judgements) == (True, "A kite.", ())
    assert (own.given, own.text) == (False, "turn_2 says so.")
    [judged] = own.judgements
    assert (judged.state, judged.score, judged.rationale) == ("parsed", 7, "It is so.")
    assert judged.prompt.startswith("direct_turn@")
    [overall] = perception.overall
    assert overall.score == 6


def test_deltas_are_of_turns_that_both_conditions_leave_open(
    whole: DialogueResult,
) -> None:
    found = {(each.start, each.goal, each.turn): each.value for each in whole.deltas}
    assert found == {
        ("free", "perception", 2): 2,
        ("free", "perception", 3): 0,
        ("free", "perception", 0): 1,
        ("perception", "reasoning", 3): 3,
        ("perception", "reasoning", 0): 2,
        ("free", "reasoning", 3): 3,
        ("free", "reasoning", 0): 3,
    }
    assert [each.name for each in whole.deltas][:2] == ["S2_hat - S2", "S3_hat - S3"]
    names = {each.name: each.value for each in whole.scores}
    assert names.keys() == {
        *("S1", "S2", "S3", "S0", "S2_hat", "S3_hat", "S0_hat", "S3_tilde", "S0_tilde")
    }
    assert names["S2_hat"] == 7


def test_a_failure_is_told_and_what_needs_it_is_skipped() -> None:
    failure = Failure(kind="timeout", message="at /secret/path", attempts=2)
    result = read(dialogue(), {"free": {**rated(RATED["free"]), "turn_2": failure}})
    first, second, third = result.conditions[0].turns
    assert first.text is not None
    assert (second.text, second.failed) == (None, "timeout")
    assert (third.text, third.skipped) == (None, "turn_2")
    [judged] = third.judgements
    assert (judged.state, judged.score, judged.why) == ("skipped", None, "skipped: turn_2")
    deltas = [each for each in result.deltas if each.start == "free"]
    assert all(each.value is None and each.why is not None for each in deltas)
    assert second.problem == "the model did not answer in time"


def test_an_unreadable_verdict_is_no_score() -> None:
    result = read(dialogue(), {})
    [judged] = result.conditions[0].turns[0].judgements
    assert (judged.state, judged.score, judged.why) == ("unparsed", None, "unparsed")
    assert judged.reply == "direct/turn_1 says so."
    assert {each.why for each in result.deltas} == {"free: unparsed", "perception: unparsed"}


def test_both_sides_count_in_a_comparison() -> None:
    asked = dialogue(gradings=["pairwise"], conditions=["free", "perception"])
    wins = Reply(text="Overall, Response A is better.")
    free: dict[str, Outcome] = {"pairwise_A/turn_2": wins, "pairwise_B/turn_2": wins}
    goal: dict[str, Outcome] = {
        "pairwise_A/turn_2": wins,
        "pairwise_B/turn_2": Reply(text="Overall, Response B is better."),
    }
    result = read(asked, {"free": free, "perception": goal})
    scores = [(each.side, each.score) for each in result.conditions[0].turns[1].judgements]
    assert scores == [("A", 1.0), ("B", 0.0)]
    [delta] = [each for each in result.deltas if each.turn == 2]
    assert delta.value == 0.5


URL = "/v1/dialogues"
MODELS: Mapping[str, Any] = {
    "brief": {"provider": "fake", "model": "scripted", "options": {"script": ["A kite."]}},
    "busy": {
        "provider": "fake",
        "model": "echo",
        "options": {"rate": 1.0, "kinds": ["rate_limit"]},
        "attempts": 1,
    },
    "away": {
        "provider": "openai",
        "model": "x",
        "base_url": "http://127.0.0.1:9/secret",
        "attempts": 1,
        "wait_for_server": 0.3,
    },
}
DIALOGUE: dict[str, Any] = {
    "judge": "judge",
    "caption": "Red beside blue.",
    "turns": TURNS,
    "conditions": ["free"],
    "gradings": ["direct"],
}


@pytest.fixture
async def failing(serve: Serve) -> Served:
    return await serve(models=MODELS)


async def test_why_a_judgement_failed_is_told(failing: Served) -> None:
    asked = DIALOGUE | {"model": "echo", "judge": "away"}
    answer = await failing.client.post(URL, json=asked)
    assert answer.status_code == 200, answer.text
    [condition] = answer.json()["conditions"]
    for judged in (condition["turns"][0]["judgements"][0], condition["overall"][0]):
        assert judged["state"] == "failed"
        assert judged["problem"] == "the model could not be reached"
    assert "secret" not in answer.text


@pytest.mark.parametrize(("model", "status"), [("away", 502), ("busy", 503)])
async def test_a_dialogue_of_which_nothing_was_answered_fails_as_chat_does(
    failing: Served, model: str, status: int
) -> None:
    answer = await failing.client.post(URL, json=DIALOGUE | {"model": model})
    chat = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
    same = await failing.client.post("/v1/chat/completions", json=chat)
    assert answer.status_code == same.status_code == status
    assert answer.json() == same.json()
    assert answer.headers.get("retry-after") == same.headers.get("retry-after")
