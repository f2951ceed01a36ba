"""Transcripts and scores as records: what was asked, what came back, and how it was read.

One record per call. What a prompt file filled is not repeated in it: the file's name and hash
stand there, and `mmconv show` fills it again. What the fields are is told in
`mmconv.run_folder.transcripts`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from judges import read_reply
from mmconv.core.errors import Unparsed
from mmconv.core.plans import Finished, ResolvedCall, read_trial
from mmconv.core.types import (
    Call,
    Failure,
    Image,
    Message,
    Outcome,
    Ref,
    Reply,
    Score,
    Skipped,
    Text,
)

PARSED = "parsed"
"""The field `parse` of a call whose reply could be read."""

INCOMPLETE = "incomplete: lacks "
"""The same of one whose verdict lacks something; how many things, follows."""


def call_records(finished: Finished) -> Iterator[dict[str, Any]]:
    """One record per call of a finished plan, skipped ones included, in the order of their ends."""
    exchanges = {each.call.id: each for each in finished.exchanges()}
    for call_id in finished.outcomes:
        each = exchanges[call_id]
        yield {
            "sample": finished.plan.sample,
            "condition": finished.plan.condition,
            "call": call_id,
            "seat": each.call.seat,
            "prompt": each.call.prompt,
            **_sent(each.asked),
            **_came_back(each.outcome),
            **_read(each.call, each.outcome),
        }


def judged_as(call: Call, reply: Reply) -> str:
    """How a judge's reply is read, in a few words."""
    try:
        verdict = read_reply(call, reply)
    except Unparsed as error:
        return f"unparsed: {error}"
    scores = ", ".join(f"{name} {value:g}" for name, value in verdict.scores.items())
    lacks = f" ({INCOMPLETE}{verdict.missing})" if verdict.missing else ""
    return (verdict.label or scores) + lacks


def score_record(score: Score) -> dict[str, Any]:
    """A score as one JSON object."""
    return {
        "sample": score.sample,
        "condition": score.condition,
        "metric": score.metric,
        "turn": score.turn,
        "value": score.value,
        "why": score.why,
        "tags": [{"name": name, "value": value} for name, value in score.tags.items()],
    }


def score_of(record: dict[str, Any]) -> Score:
    """The score that `score_record` made a record of, `clustered`."""
    tags = {tag["name"]: tag["value"] for tag in record["tags"]}
    return clustered(Score(**{**record, "tags": tags}))


def clustered(score: Score) -> Score:
    """The score; trials of a sample are marked as one cluster, where the benchmark names none."""
    key = read_trial(score.sample).key
    if key == score.sample or "cluster" in score.tags:
        return score
    return replace(score, tags={**score.tags, "cluster": key})


def message_record(message: Message) -> dict[str, Any]:
    """A message as JSON: images by hash and size, references by the call that they name."""
    return {"role": message.role, "parts": [_part(part) for part in message.parts]}


def _part(part: Text | Image | Ref) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    if isinstance(part, Ref):
        return {"ref": part.call}
    return {"image": part.sha256, "width": part.width, "height": part.height}


def _sent(asked: ResolvedCall | None) -> dict[str, Any]:
    if asked is None:
        return {"key": None, "stored": False, "messages": None}
    filled = asked.call.prompt is not None
    return {
        "key": asked.key,
        "stored": asked.cached,
        "messages": None if filled else [message_record(message) for message in asked.messages],
    }


def _came_back(outcome: Outcome) -> dict[str, Any]:
    reply = outcome if isinstance(outcome, Reply) else None
    return {
        "state": type(outcome).__name__.lower(),
        "text": reply.text if reply else None,
        "reasoning": reply.reasoning if reply else None,
        "finish": reply.finish if reply else None,
        "input_tokens": reply.input_tokens if reply else None,
        "output_tokens": reply.output_tokens if reply else None,
        "seconds": reply.seconds if reply else None,
        "dropped": reply.dropped if reply else 0,
        "seen": [
            {"image": seen.sha256, "width": seen.width, "height": seen.height}
            for seen in (reply.seen if reply else ())
        ],
        "answered_by": reply.answered_by if reply else None,
        "problem": _problem(outcome),
    }


def _problem(outcome: Outcome) -> str | None:
    if isinstance(outcome, Failure):
        return outcome.description
    return outcome.because if isinstance(outcome, Skipped) else None


def _read(call: Call, outcome: Outcome) -> dict[str, Any]:
    """How a judge's reply was read; all None where the call has no parser or no reply."""
    label, scores, rationale, parse = None, None, None, None
    if call.parser is not None and isinstance(outcome, Reply):
        try:
            verdict = read_reply(call, outcome)
        except Unparsed as error:
            parse = f"unparsed: {error}"
        else:
            parse = f"{INCOMPLETE}{verdict.missing}" if verdict.missing else PARSED
            label, rationale = verdict.label, verdict.rationale
            scores = [{"name": name, "value": value} for name, value in verdict.scores.items()]
    return {"parse": parse, "label": label, "scores": scores, "rationale": rationale}
