"""The lines of a run's files: what is written has the fields that are told, in their order."""

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from judges.parsers import rating
from mmconv.core.errors import DataError, Unparsed
from mmconv.core.plans import Finished, Plan, ResolvedCall
from mmconv.core.types import (
    Call,
    Failure,
    Finish,
    Image,
    Ref,
    Reply,
    Sampling,
    Score,
    SeenImage,
    Skipped,
    Verdict,
)
from mmconv.run_folder.saved_run import read_scores
from mmconv.run_folder.transcripts import (
    CallRecord,
    ScoreRecord,
    call_records,
    judged_as,
    score_record,
)
from tests.messages import message, user

PICTURE = Image(sha256="ab" * 32, media_type="image/png", width=8, height=6)
SEEN = user(PICTURE, "What is it?")


def finished() -> Finished:
    """A plan with a call of each end: answered, failed, skipped, and judged."""
    answer = Call(id="turn_1", model="candidate", messages=(SEEN,))
    own = message("assistant", Ref(call="turn_1"))
    calls = (
        answer,
        Call(id="turn_2", model="candidate", messages=(SEEN, own)),
        Call(id="turn_3", model="candidate", messages=()),
        Call(id="judgement", model="judge", messages=(), parser=rating, prompt="direct@1"),
    )
    sampling = Sampling(temperature=0)
    return Finished(
        plan=Plan(order=0, sample="1", condition="free", calls=calls),
        outcomes={
            "turn_1": Reply(
                text="A kite.",
                seen=(SeenImage(sha256=PICTURE.sha256, width=4, height=3),),
                output_tokens=3,
            ),
            "judgement": Reply(text="Rating: [[7]]"),
            "turn_2": Failure(kind="server", message="down", attempts=8),
            "turn_3": Skipped(because="turn_2"),
        },
        resolved={
            call.id: ResolvedCall(call=call, key="k", messages=call.messages, sampling=sampling)
            for call in calls
            if call.id != "turn_3"
        },
    )


def test_calls_are_written_as_they_ended_with_the_fields_that_are_told() -> None:
    records = list(call_records(finished()))
    assert [record["call"] for record in records] == ["turn_1", "judgement", "turn_2", "turn_3"]
    for record in records:
        assert list(record) == list(CallRecord.model_fields)
        record_read = CallRecord.model_validate(orjson.loads(orjson.dumps(record)))
        assert record_read.text == record["text"]


def test_scores_are_written_with_the_fields_that_are_told() -> None:
    for given in ({"value": 1.0}, {"why": "unparsed"}):
        record = score_record(
            Score(sample="1", condition="free", metric="m", turn=1, tags={"task": "GR"}, **given)
        )
        assert list(record) == list(ScoreRecord.model_fields)
        assert ScoreRecord.model_validate(record).tags[0].value == "GR"


@pytest.mark.parametrize(
    ("text", "finish", "parse", "read"),
    [
        ("7", "stop", "parsed", "rating 7"),
        ("rated 7!", "length", "parsed", "rating 7"),
        ("7", "length", "unparsed: cut off before its verdict", None),
        ("7 of 9", "stop", "incomplete: lacks 2", "rating 7 (incomplete: lacks 2)"),
        ("none", "stop", "unparsed: no number", None),
    ],
)
def test_verdicts_are_recorded(text: str, finish: Finish, parse: str, read: str | None) -> None:
    def parser(text: str) -> Verdict:
        if "7" not in text:
            raise Unparsed("no number")
        return Verdict(scores={"rating": 7.0}, missing=2 * text.endswith("9"))

    call = Call(id="judge", model="judge", messages=(), parser=parser)
    reply = Reply(text=text, finish=finish)
    plan = Plan(order=0, sample="1", condition="free", calls=(call,))
    resolved = ResolvedCall(call=call, key="k", messages=(), sampling=Sampling())
    ended = Finished(plan=plan, outcomes={"judge": reply}, resolved={"judge": resolved})
    [record] = call_records(ended)
    assert record["parse"] == parse
    assert record["scores"] == (None if read is None else [{"name": "rating", "value": 7.0}])
    assert judged_as(call, reply) == (read or parse)


SCORES = (
    Score(sample="1", condition="free", metric="rating", value=7.5, turn=2),
    Score(sample="1#2", condition="free", metric="rating", why="failed", tags={"side": "left"}),
    Score(sample="1#2", condition="free", metric="fit", value=0, tags={"cluster": "a", "x": "ü"}),
    Score(sample="2#1", condition="Perfect\n", metric="rating", value=-1e300, turn=0),
    Score(sample="free", condition="free", metric="free", value=3, tags={"x": "free", "side": ""}),
)


def write(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def test_records_are_read_as_the_scores_that_were_written(tmp_path: Path) -> None:
    path = write(tmp_path / "scores.jsonl", *map(orjson.dumps, map(score_record, SCORES)))
    scores = [*read_scores(path)]
    assert [score.tags for score in scores] == [
        {},
        {"side": "left", "cluster": "1"},
        {"cluster": "a", "x": "ü"},
        {"cluster": "2"},
        {"x": "free", "side": ""},
    ]
    assert [replace(score, tags={}) for score in scores] == [replace(e, tags={}) for e in SCORES]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"sample": "1"', "line 2: cut short"),
        (b'{"sample": "1"}', "line 2: has no condition"),
        (b"[]", "line 2: holds a list"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes, problem: str) -> None:
    first = orjson.dumps(score_record(SCORES[0]))
    with pytest.raises(DataError, match=problem):
        list(read_scores(write(tmp_path / "scores.jsonl", first, line)))
