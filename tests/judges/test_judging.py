"""Judgements in a plan: their rescues, the picture, and what is read from their outcomes."""

from dataclasses import replace

import pytest

from judges.judging import Extraction, Judge, Reading, is_settled, read_reply, read_verdict
from judges.parsers import choice, extracted_choice, rating
from judges.parsers.botchat import UniEvalParser, comparison
from judges.parsers.mtbench101 import bracketed_rating
from judges.template import parse_prompt
from mmconv.core.errors import Unparsed
from mmconv.core.types import (
    Call,
    Failure,
    Finish,
    Image,
    Outcome,
    Parser,
    Ref,
    Reply,
    Sampling,
    Skipped,
    Verdict,
)
from tests.messages import user

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
    assert (CALL.id, CALL.model, CALL.messages) == ("judge_1", "judge", MESSAGES)
    assert CALL.parser is choice
    assert CALL.prompt == f"prompt@{PROMPT.digest[:16]}"
    assert [fallback.id for fallback in CALL.fallbacks] == [
        "judge_1~retry_1",
        "judge_1~retry_2",
        "judge_1~extract",
    ]
    first, second, extract = CALL.fallbacks
    assert [call.sampling.trial for call in (CALL, first, second, extract)] == [4, 5, 6, 4]
    assert first.messages == second.messages == MESSAGES
    assert first.parser is second.parser is choice
    assert extract.parser is extracted_choice
    assert extract.messages == (user("Read: ", Ref(call="judge_1")),)
    assert all(fallback.model == "judge" and not fallback.fallbacks for fallback in CALL.fallbacks)


def test_without_retries_and_extraction_there_are_no_rescues() -> None:
    judge = Judge(parser=choice, sampling=SAMPLING, model="umpire")
    call = judge.call("judge_1", PROMPT, SLOTS)
    assert call.fallbacks == ()
    assert call.model == "umpire"


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
    assert call.fallbacks[0].messages == call.messages


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
        read_verdict(Call(id="turn_1", model="candidate", messages=()), {"turn_1": NEITHER})


def test_a_reading_keeps_the_reasons() -> None:
    reading = read_verdict(CALL, {"judge_1": Reply(text="A is right.\nResponse A is better.")})
    assert isinstance(reading, Reading)
    assert reading.verdict is not None
    assert reading.verdict.rationale == "A is right."


UNIEVAL = UniEvalParser(utterances=16)


@pytest.mark.parametrize("finish", ["length", "filter"])
@pytest.mark.parametrize(
    ("parser", "text"),
    [
        (
            rating,
            "The first turn was judged well.\nRating: 9\nThat is too kind, because the answer",
        ),
        (rating, "So the answer is good.\nRating: 1"),
        (rating, "So the answer is good.\nRating: 9 would be"),
        (choice, "Turn by turn. For accuracy, Response A is better. As for the creati"),
        (choice, "In accuracy, Response A is better, but in"),
        (rating, "So the answer is good.\nRating: 4."),
        (choice, "For accuracy, Response A is better.\nAs for the creati"),
        (choice, "For accuracy, Response A is better.\nOverall, Response B is better."),
        (bracketed_rating, "Rating: [[7]] would be too kind.\nFor"),
        (bracketed_rating, "Well.\nRating: [[1"),
        (extracted_choice, "Final Answer: Response A\n\nJudgement: Both"),
        (UNIEVAL, "Choice: Yes\nIndex: 1"),
        (comparison, "Choice: Conversation 1"),
        (rating, ""),
    ],
)
def test_a_reply_cut_off_early_has_no_verdict(parser: Parser, text: str, finish: Finish) -> None:
    first = parser in (UNIEVAL, comparison)
    call = Call(id="judge", model="judge", messages=(), parser=parser, verdict_last=not first)
    reply = Reply(text=text, finish=finish)
    how = {"length": "cut off before", "filter": "held back by a filter before"}[finish]
    with pytest.raises(Unparsed, match=f"^{how} its verdict$"):
        read_reply(call, reply)
    assert not is_settled(call, reply)
    assert read_verdict(call, {"judge": reply}).why == "unparsed"


@pytest.mark.parametrize(
    ("parser", "text", "found"),
    [
        (rating, "It is good.\nRating: 7/10", 7.0),
        (rating, "It is good.\n**Rating: 7**", 7.0),
        (rating, "It is good.\n**Rating: 7.5/10**", 7.5),
        (choice, "It is good.\n**Overall, Response B is better.** ", "B"),
        (rating, "It is good.\nRating: 10\n\n", 10.0),
        (choice, "It is good. Response A is better", "A"),
        (bracketed_rating, "It is good.\nRating: [[7]]", 7.0),
        (UNIEVAL, "Choice: Yes\nIndex: 5\nReason: it is sti", 4.0),
        (UNIEVAL, "Choice: No\nIndex: None\nReason: since chat 3", 16.0),
        (comparison, "Choice: Conversation 1\nReason: Conversation 2", "first"),
    ],
)
def test_a_reply_cut_off_later_has_a_verdict(parser: Parser, text: str, found: float | str) -> None:
    first = parser in (UNIEVAL, comparison)
    call = Call(id="judge", model="judge", messages=(), parser=parser, verdict_last=not first)
    reply = Reply(text=text, finish="length")
    verdict = read_reply(call, reply)
    assert found in (verdict.label, *verdict.scores.values())
    assert is_settled(call, reply)


def test_where_the_verdict_stands_holds_for_repeats_too() -> None:
    first = replace(JUDGE, verdict_last=False).call("judge_1", PROMPT, SLOTS)
    calls = (first, *first.fallbacks)
    assert [call.verdict_last for call in calls] == [False, False, False, True]
    assert all(call.verdict_last for call in (CALL, *CALL.fallbacks))


@pytest.mark.parametrize(
    ("texts", "read"), [("20", 1), ("210", 2), ("212", 1), ("100", 1), ("11", 0), ("x21", 2)]
)
def test_the_first_verdict_of_those_that_lack_least_is_read(texts: str, read: int) -> None:
    def parser(text: str) -> Verdict:
        if text == "x":
            raise Unparsed("x")
        return Verdict(label=text, missing=int(text))

    judge = Judge(parser=parser, sampling=SAMPLING, retries=len(texts) - 1)
    call = judge.call("judge", PROMPT, SLOTS)
    calls = (call, *call.fallbacks)
    replies = [Reply(text=text) for text in texts]
    outcomes = dict(zip((each.id for each in calls), replies, strict=True))
    reading = read_verdict(call, outcomes)
    assert reading.call == calls[read].id
    assert [is_settled(each, reply) for each, reply in zip(calls, replies, strict=True)] == [
        text == "0" for text in texts
    ]
