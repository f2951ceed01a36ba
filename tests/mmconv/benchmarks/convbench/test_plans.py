"""What the candidate is asked, what the judge reads, and every switch between paper and code."""

from pathlib import Path
from typing import Any

import pytest

from judges import PromptSet
from mmconv.benchmarks.ablations.metrics import GIVEN
from mmconv.benchmarks.convbench.benchmark import CUT_OFF_HERE, NOT_JUDGED
from mmconv.benchmarks.convbench.options import ALONE, CONDITIONS
from mmconv.core.graph import check, resolve
from mmconv.core.types import Call, Reply
from tests.mmconv.benchmarks.convbench.rows import PICTURE, ROW, benchmark, texts


def replies() -> dict[str, Reply]:
    own = {f"turn_{number}": Reply(text=f"own {number}") for number in (1, 2, 3)}
    for prefix in ("direct", "pairwise_A", "pairwise_B"):
        for number in (1, 2, 3):
            own[f"{prefix}/turn_{number}"] = Reply(text=f"{prefix} says {number}")
    return own


def prompt_of(call: Call) -> str:
    """The judge's last message, resolved."""
    return texts(resolve(call.messages, replies()))[-1][1]


def candidate_calls(condition: str, **options: Any) -> list[Call]:
    planned = benchmark(generate_only=True, **options).plan(ROW, condition)
    return list(check(tuple(planned)))


def calls(condition: str, **options: Any) -> dict[str, Call]:
    """The judgements, by id."""
    planned = check(tuple(benchmark(**options).plan(ROW, condition)))
    return {call.id: call for call in planned if call.model == "judge"}


@pytest.mark.parametrize(
    ("condition", "asked"),
    [
        ("free", ["turn_1", "turn_2", "turn_3"]),
        ("perception", ["turn_2", "turn_3"]),
        ("reasoning", ["turn_3"]),
        ("reasoning_alone", ["turn_2"]),
        ("creation_alone", ["turn_3"]),
    ],
)
def test_a_condition_asks_the_turns_that_are_not_given(condition: str, asked: list[str]) -> None:
    assert [call.id for call in candidate_calls(condition)] == asked


@pytest.mark.parametrize(
    ("condition", "history"),
    [
        ("free", ["own 1", "own 2"]),
        ("perception", ["A kite.", "own 2"]),
        ("reasoning", ["A kite.", "For fun."]),
    ],
)
def test_the_history_of_the_last_turn(condition: str, history: list[str]) -> None:
    last = candidate_calls(condition)[-1]
    assert texts(resolve(last.messages, replies())) == [
        ("user", "What is it?"),
        ("assistant", history[0]),
        ("user", "Why?"),
        ("assistant", history[1]),
        ("user", "Write a slogan."),
    ]


def test_alone_means_one_instruction_with_the_picture() -> None:
    [call] = candidate_calls("creation_alone")
    assert texts(call.messages) == [("user", "Write a slogan.")]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_picture_is_shown_once_in_the_first_message(condition: str) -> None:
    for call in candidate_calls(condition, candidate_system="Be brief."):
        assert texts(call.messages[:1]) == [("system", "Be brief.")]
        shown = [message.parts.count(PICTURE) for message in call.messages]
        assert shown == [0, 1] + [0] * (len(shown) - 2)


def test_a_sample_needs_six_generations_and_nine_judgements_per_grading() -> None:
    generations = sum(len(candidate_calls(condition)) for condition in GIVEN)
    judgements = sum(len(calls(condition)) for condition in GIVEN)
    assert (generations, judgements) == (6, 18)


@pytest.mark.parametrize("condition", ALONE)
def test_alone_judges_the_one_turn(condition: str) -> None:
    turn = ALONE[condition]
    assert set(calls(condition, order="both")) == {
        f"direct/turn_{turn}",
        f"pairwise_A/turn_{turn}",
        f"pairwise_B/turn_{turn}",
    }


def test_both_conversations_stand_whole_in_every_judgement() -> None:
    for call in calls("free", order="both").values():
        for text in ("A red kite.", "own 1", "own 2", "own 3", "A kite.", "For fun.", "Fly high!"):
            assert text in prompt_of(call)


def test_the_order_decides_the_side() -> None:
    by_authors = calls("free", order="authors", positions="pairwise.npy")
    assert {name.partition("/")[0] for name in by_authors} == {"direct", "pairwise_B"}
    prompt = prompt_of(by_authors["pairwise_B/turn_1"])
    assert prompt.index("A kite.") < prompt.index("own 1")
    unplaced = ROW.model_copy(update={"position": None})
    drawn = [benchmark(side_seed=seed).sides(unplaced) for seed in (*range(20), *range(20))]
    assert set(drawn) == {("A",), ("B",)}
    assert drawn[:20] == drawn[20:]


def test_focus_points_only_for_the_creation_and_only_on_request() -> None:
    wanted = calls("free")
    assert [name for name, call in wanted.items() if "Is it a slogan?" in prompt_of(call)] == [
        "direct/turn_3",
        next(name for name in wanted if name.startswith("pairwise") and name.endswith("turn_3")),
    ]
    for call in calls("free", focus_points=False).values():
        assert "Is it a slogan?" not in prompt_of(call)
    without = ROW.model_copy(update={"focus_points": None})
    assert any(call.id == "direct/turn_3" for call in benchmark().plan(without, "free"))


def test_the_overall_judge_reads_the_turns_judgements() -> None:
    overall = prompt_of(calls("perception")["direct/overall"])
    assert NOT_JUDGED in overall
    assert "direct says 2" in overall
    assert "direct says 3" in overall
    assert "direct says" not in prompt_of(
        calls("perception", turn_judgements=False)["direct/overall"]
    )


def test_skipped_turns_may_get_the_authors_canned_verdict_for_the_human() -> None:
    canned = calls("reasoning", skipped_turns="canned", order="both")
    for side, human in (("A", "B"), ("B", "A")):
        overall = prompt_of(canned[f"pairwise_{side}/overall"])
        assert overall.count(f"Response {human} is better") >= 2
        assert NOT_JUDGED not in overall
    assert NOT_JUDGED in prompt_of(canned["direct/overall"])


def test_the_judge_sees_the_picture_only_on_request() -> None:
    for shown in (False, True):
        for call in calls("free", judge_sees_image=shown).values():
            pictures = [PICTURE in message.parts for message in call.messages]
            assert pictures == [False] * (len(pictures) - 1) + [shown]


def test_prompts_of_a_folder_are_sent_to_the_byte(tmp_path: Path) -> None:
    """Odd layout, a canned answer, no line break at the end: as a script's format strings give."""
    layout = (
        "Context:{caption}\n\n\n [1] {instruction_1}\t{a_1}|{b_1}\n[2] {instruction_2} {a_2} {b_2} "
        "\n\n[3] {instruction_3}\n{a_3}\n{b_3}\n\nEvaluations: {judgement_1}.\n {judgement_2}.\n "
        "{judgement_3}.\n\nSay who is better. "
    )
    file = "a note\n# system\n Two\n\nlines \n# user\nReady?\n# assistant\nYes.\n# user\n" + (
        layout.replace("{", "{{").replace("}", "}}")
    )
    (tmp_path / "pairwise_overall.md").write_bytes(file.encode())
    options = {"order": "authors", "positions": "x.npy", "skipped_turns": "canned"}
    planned = {call.id: call for call in benchmark(tmp_path, **options).plan(ROW, "perception")}
    verdict = texts(PromptSet("convbench")["pairwise_skipped_turn"].fill({"human": "A"}))[0][1]
    expected = layout.format(
        caption="A red kite.",
        instruction_1="What is it?",
        instruction_2="Why?",
        instruction_3="Write a slogan.",
        a_1="A kite.",
        a_2="For fun.",
        a_3="Fly high!",
        b_1="A kite.",
        b_2="own 2",
        b_3="own 3",
        judgement_1=verdict,
        judgement_2="pairwise_B says 2",
        judgement_3="pairwise_B says 3",
    )
    assert texts(resolve(planned["pairwise_B/overall"].messages, replies())) == [
        ("system", " Two\n\nlines "),
        ("user", "Ready?"),
        ("assistant", "Yes."),
        ("user", expected),
    ]


def test_the_overall_judge_reads_that_a_judgement_was_cut_off() -> None:
    overall = calls("free")["direct/overall"]
    cut = {**replies(), "direct/turn_2": Reply(text="Rating: 9\nThat is", finish="length")}
    prompt = texts(resolve(overall.messages, cut))[-1][1]
    assert f"⟦judgement of turn 2⟧\nRating: 9\nThat is{CUT_OFF_HERE}\n⟦end of judg" in prompt
    assert prompt.count(CUT_OFF_HERE) == 1
    assert CUT_OFF_HERE not in prompt_of(overall)
