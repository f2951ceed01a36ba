"""Judgements in a plan: their rescues, the picture, and what is read from their outcomes."""

from __future__ import annotations

import pytest

from judges.judging import Extraction, Judge, Reading, read_verdict
from judges.parsers import choice, extracted_choice
from judges.template import parse_prompt
from mmconv import graph
from mmconv.errors import PromptError
from mmconv.values import (
    Call,
    Failure,
    Image,
    Message,
    Outcome,
    Ref,
    Reply,
    Sampling,
    Skipped,
    Text,
)

PICTURE = Image(sha256="00" * 32, media_type="image/png", width=1, height=1)
PROMPT = parse_prompt("# system\nJudge.\n# user\nA: {{a}}\n", "prompt")
SLOTS = {"a": Ref(call="turn_1")}
MESSAGES = PROMPT.fill(SLOTS)
EXTRACTION = Extraction(
    prompt=parse_prompt("# user\nRead: {{judgement}}\n", "extract"), parser=extracted_choice
)
SAMPLING = Sampling(temperature=1.0, max_tokens=512, trial=4)
JUDGE = Judge(parser=choice, sampling=SAMPLING, retries=2, extraction=EXTRACTION)
CALL = JUDGE.call("judge_1", PROMPT, SLOTS)

NEITHER = Reply(text="Both are fine.")
FAILED = Failure(kind="timeout", message="no answer in 600 s", attempts=8)


def test_a_judgement_is_repeated_and_then_extracted() -> None:
    assert (CALL.id, CALL.seat, CALL.messages) == ("judge_1", "judge", MESSAGES)
    assert CALL.parser is choice
    assert CALL.prompt == f"prompt@{PROMPT.digest[:16]}"
    assert [rescue.id for rescue in CALL.rescues] == [
        "judge_1~retry_1",
        "judge_1~retry_2",
        "judge_1~extract",
    ]
    first, second, extract = CALL.rescues
    assert [call.sampling.trial for call in (CALL, first, second, extract)] == [4, 5, 6, 4]
    assert first.messages == second.messages == MESSAGES
    assert first.parser is second.parser is choice
    assert extract.parser is extracted_choice
    assert extract.messages == (
        Message(role="user", parts=(Text(text="Read: "), Ref(call="judge_1"))),
    )
    assert all(rescue.seat == "judge" and not rescue.rescues for rescue in CALL.rescues)


def test_the_plan_holds() -> None:
    turn = Call(id="turn_1", seat="candidate", messages=())
    assert graph.check((CALL, turn)) == (turn, CALL)


def test_without_retries_and_extraction_there_are_no_rescues() -> None:
    judge = Judge(parser=choice, sampling=SAMPLING, seat="umpire")
    call = judge.call("judge_1", PROMPT, SLOTS)
    assert call.rescues == ()
    assert call.seat == "umpire"


@pytest.mark.parametrize(
    ("image", "picture", "parts"),
    [
        (True, PICTURE, (PICTURE, *MESSAGES[-1].parts)),
        (True, None, MESSAGES[-1].parts),
        (False, PICTURE, MESSAGES[-1].parts),
    ],
)
def test_the_picture_goes_before_the_last_message(
    image: bool, picture: Image | None, parts: tuple[object, ...]
) -> None:
    judge = Judge(parser=choice, sampling=SAMPLING, retries=1, image=image)
    call = judge.call("judge_1", PROMPT, SLOTS, picture)
    assert call.messages[0] == MESSAGES[0]
    assert call.messages[-1].parts == parts
    assert call.rescues[0].messages == call.messages


def test_an_extraction_prompt_has_one_slot() -> None:
    with pytest.raises(PromptError, match="'extract': its one slot must be 'judgement'"):
        Extraction(prompt=parse_prompt("# user\n{{text}}\n", "extract"), parser=choice)


@pytest.mark.parametrize(
    ("outcomes", "call", "label", "why"),
    [
        ({"judge_1": Reply(text="Response A is better")}, "judge_1", "A", None),
        ({"judge_1": NEITHER}, "judge_1", None, "unparsed"),
        ({"judge_1": FAILED}, "judge_1", None, "failed: timeout"),
        ({"judge_1": Skipped(because="turn_1")}, "judge_1", None, "skipped: turn_1"),
        (
            {"judge_1": NEITHER, "judge_1~retry_1": Reply(text="Response B is better")},
            "judge_1~retry_1",
            "B",
            None,
        ),
        (
            {
                "judge_1": NEITHER,
                "judge_1~retry_1": NEITHER,
                "judge_1~retry_2": FAILED,
                "judge_1~extract": Reply(text="Final Answer: Response A"),
            },
            "judge_1~extract",
            "A",
            None,
        ),
        (
            {
                "judge_1": NEITHER,
                "judge_1~retry_1": FAILED,
                "judge_1~extract": Reply(text="Response A is better"),
            },
            "judge_1",
            None,
            "unparsed",
        ),
        (
            {"judge_1": FAILED, "judge_1~extract": Skipped(because="judge_1")},
            "judge_1",
            None,
            "failed: timeout",
        ),
    ],
)
def test_what_is_read(
    outcomes: dict[str, Outcome], call: str, label: str | None, why: str | None
) -> None:
    reading = read_verdict(CALL, outcomes)
    assert (reading.call, reading.why) == (call, why)
    assert (reading.verdict.label if reading.verdict else None) == label


def test_a_judgement_that_was_never_in_the_run_is_a_bug() -> None:
    with pytest.raises(KeyError):
        read_verdict(CALL, {})
    with pytest.raises(ValueError, match="'turn_1' has no parser"):
        read_verdict(Call(id="turn_1", seat="candidate", messages=()), {"turn_1": NEITHER})


def test_a_reading_keeps_the_reasons() -> None:
    reading = read_verdict(CALL, {"judge_1": Reply(text="A is right.\nResponse A is better.")})
    assert isinstance(reading, Reading)
    assert reading.verdict is not None
    assert reading.verdict.rationale == "A is right."
