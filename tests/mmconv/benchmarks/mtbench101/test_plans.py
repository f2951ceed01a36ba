"""What the candidate is asked and what the judge reads, under every option."""

from pathlib import Path
from typing import Any

import pytest

from mmconv.benchmarks.mtbench101 import REFERENCED, TASKS
from mmconv.core.graph import check, resolve
from mmconv.core.types import Call, Message, Reply
from tests.mmconv.benchmarks.mtbench101.dialogues import (
    TURNS,
    build,
    dialogue,
    records,
    spec,
    write,
)

REPLIES = {f"turn_{number}": Reply(text=f"own answer {number}") for number in range(1, 6)}


def plan(
    tmp_path: Path,
    task: str,
    condition: str = "golden",
    prompts: Path | None = None,
    **options: Any,
) -> dict[str, Call]:
    data = write(tmp_path / "data.jsonl", records())
    benchmark = build(spec(data, **options).model_copy(update={"prompts": prompts}))
    return {call.id: call for call in check(tuple(benchmark.plan(dialogue(task), condition)))}


def texts(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in resolve(messages, REPLIES)]


def judged(call: Call) -> str:
    """All that the judge reads, resolved."""
    return "\n".join(text for _, text in texts(call.messages))


@pytest.mark.parametrize("task", TASKS)
def test_each_own_turn_is_generated_and_judged_once(tmp_path: Path, task: str) -> None:
    numbers = range(TASKS[task].first, len(TURNS[task]) + 1)
    calls = plan(tmp_path, task)
    assert set(calls) == {f"{before}turn_{n}" for before in ("", "judge/") for n in numbers}
    # the authors' `max_out_len`, of the candidate and of the judge
    assert {call.sampling.max_tokens for call in calls.values()} == {4096}
    limited = plan(tmp_path, task, max_tokens=8, judge_max_tokens=16).values()
    assert {call.sampling.max_tokens for call in limited} == {8, 16}
    # only reasoning has a reference, and only that of its turn
    read = judged(calls[f"judge/turn_{numbers[-1]}"])
    assert (TURNS[task][-1][1] in read) == (task in REFERENCED)
    assert ("⟦reference solution" in read) == (task in REFERENCED)


def test_golden_histories_make_every_turn_independent(tmp_path: Path) -> None:
    calls = plan(tmp_path, "CM")
    (u1, b1), (u2, b2), (u3, _) = TURNS["CM"]
    assert texts(calls["turn_3"].messages) == [
        ("user", u1),
        ("assistant", b1),
        ("user", u2),
        ("assistant", b2),
        ("user", u3),
    ]
    assert not calls["turn_3"].needs
    assert calls["judge/turn_3"].needs == {"turn_3"}
    assert b2 in judged(calls["judge/turn_3"])
    assert "own answer 2" not in judged(calls["judge/turn_3"])


def test_own_history_holds_own_answers_after_turns_of_history_only(
    tmp_path: Path,
) -> None:
    calls = plan(tmp_path, "CM", "self")
    answers = [text for role, text in texts(calls["turn_3"].messages) if role == "assistant"]
    assert answers == [TURNS["CM"][0][1], "own answer 2"]
    assert calls["turn_3"].needs == {"turn_2"}
    assert calls["judge/turn_3"].needs == {"turn_2", "turn_3"}
    assert TURNS["CM"][1][1] not in judged(calls["judge/turn_3"])


def test_the_judge_reads_the_dialogue_up_to_the_answer(tmp_path: Path) -> None:
    read = judged(plan(tmp_path, "SI")["judge/turn_2"])
    (u1, b1), (u2, b2), (u3, _) = TURNS["SI"]
    places = [read.index(text) for text in (u1, b1, u2, "own answer 2")]
    assert places == sorted(places)
    assert b2 not in read
    assert u3 not in read


def test_the_reference_may_be_the_authors_list_of_messages(tmp_path: Path) -> None:
    (u1, b1), (u2, b2) = TURNS["GR"]
    calls = plan(tmp_path, "GR", reference="messages")
    first = [{"role": "user", "content": u1}, {"role": "assistant", "content": b1}]
    second = [{"role": "user", "content": u2}, {"role": "assistant", "content": b2}]
    assert f"\n{first!r}\n" in judged(calls["judge/turn_1"])
    assert f"\n{[*first, *second]!r}\n" in judged(calls["judge/turn_2"])


@pytest.mark.parametrize("task", ["CM", "MR"])
def test_guidelines_can_be_left_out(tmp_path: Path, task: str) -> None:
    last = f"judge/turn_{len(TURNS[task])}"
    with_them, without = (
        judged(plan(tmp_path, task, guidelines=wanted)[last]) for wanted in (True, False)
    )
    assert "- 4-6:" in with_them
    assert "- 4-6:" not in without
    assert "guidelines" not in without
    assert "⟦criteria⟧" in without


def test_no_two_tasks_are_judged_alike(tmp_path: Path) -> None:
    options: dict[str, Any] = {"judge_retries": 2, "candidate_system": "Be brief."}
    plans = {task: plan(tmp_path, task, **options) for task in TASKS}
    judgements = {task: plans[task][f"judge/turn_{len(TURNS[task])}"] for task in TASKS}
    assert len({texts(call.messages)[0] for call in judgements.values()}) == 13
    # an unreadable judgement is requested again
    assert [fallback.id for fallback in judgements["CC"].fallbacks] == [
        "judge/turn_2~retry_1",
        "judge/turn_2~retry_2",
    ]
    assert texts(plans["CC"]["turn_2"].messages)[0] == ("system", "Be brief.")


def test_the_prompts_of_the_authors_can_be_sent_to_the_byte(tmp_path: Path) -> None:
    folder = tmp_path / "prompts"
    folder.mkdir()
    files = {
        "turn": "# user\n{{history}}\n\n Human: {{user}}\n\nAssistant: {{answer}}",
        "criteria_GR": "# user\nBe just. ",
        "guidelines_GR": "# user\n",
        "judge_with_reference": (
            "# system\n{{criteria}}{{guidelines}}End.\n# user\n"
            "Judge: \n *** \n {{history}}\n\n Human: {{question}}\n\nAssistant:  {{answer}} \n ***"
            "\n ### \n {{reference}} \n ###\n\n"
        ),
    }
    for name, text in files.items():
        # one line break ends a file and is no part of what is sent
        (folder / f"{name}.md").write_bytes(f"{text}\n".encode())
    calls = plan(tmp_path, "GR", prompts=folder, reference="messages")
    (u1, b1), (u2, b2) = TURNS["GR"]
    messages = [
        {"role": "user", "content": u1},
        {"role": "assistant", "content": b1},
        {"role": "user", "content": u2},
        {"role": "assistant", "content": b2},
    ]
    history = f"\n\n Human: {u1}\n\nAssistant: {b1}\n\n Human: {u2}\n\nAssistant: "
    assert texts(calls["judge/turn_2"].messages) == [
        ("system", "Be just. End."),
        ("user", f"Judge: \n *** \n {history} own answer 2 \n ***\n ### \n {messages} \n ###\n\n"),
    ]
