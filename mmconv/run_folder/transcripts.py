"""The records of calls and scores: the lines of `SCORES` and `TRANSCRIPTS`.

Readers check lines by these types, and Parquet columns follow them. A call made from a prompt file
has the file's name and hash instead of messages; `mmconv show` fills the prompt again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ConfigDict

from judges import read_reply
from mmconv.core.errors import Unparsed
from mmconv.core.plans import Finished, ResolvedCall, read_trial
from mmconv.core.score_rows import CLUSTER
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

if TYPE_CHECKING:
    import pyarrow

PARSED = "parsed"
"""The field `parse` of a reply that could be parsed."""

_OF_REPLY = ("text", "reasoning", "finish", "input_tokens", "output_tokens", "seconds")
"""Fields of a call's record that are the reply's, None without one."""

INCOMPLETE = "incomplete: lacks "
"""The begin of the field `parse` of an incomplete verdict; the number of missing parts follows."""


class Entry(BaseModel):
    """A record without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PartRecord(Entry):
    """A part of a message: a text, a reference to a call's text, or an image."""

    text: str | None = None
    ref: str | None = None
    image: str | None = None
    width: int | None = None
    height: int | None = None


class MessageRecord(Entry):
    """A message as it was sent."""

    role: str
    parts: tuple[PartRecord, ...]


class SeenRecord(Entry):
    """An image by its hash, and its size in pixels as the model got it."""

    image: str
    width: int
    height: int


class NumberRecord(Entry):
    """One of a verdict's numbers."""

    name: str
    value: float


class TagRecord(Entry):
    """One of a score's tags."""

    name: str
    value: str


class CallRecord(Entry):
    """A call, its outcome, and how it was parsed; `text` is None without a reply.

    `messages` is None for a call that was not requested, or was made from a prompt file;
    `answered_by` is None if no server names the model, and in older files.
    """

    sample: str
    condition: str
    call: str
    model: str
    prompt: str | None
    key: str | None
    stored: bool
    messages: tuple[MessageRecord, ...] | None
    state: str
    text: str | None
    reasoning: str | None
    finish: str | None
    input_tokens: int | None
    output_tokens: int | None
    seconds: float | None
    dropped: int
    seen: tuple[SeenRecord, ...]
    answered_by: str | None = None
    problem: str | None
    parse: str | None
    label: str | None
    scores: tuple[NumberRecord, ...] | None
    rationale: str | None


class ScoreRecord(Entry):
    """A score."""

    sample: str
    condition: str
    metric: str
    turn: int | None
    value: float | None
    why: str | None
    tags: tuple[TagRecord, ...]


def columns_of(kind: type[Entry]) -> pyarrow.Schema:
    """The columns of a file of such records."""
    import pyarrow as pa

    return pa.schema(_fields(kind))


def _fields(kind: type[Entry]) -> list[tuple[str, pyarrow.DataType]]:
    return [(name, _column(field.annotation)) for name, field in kind.model_fields.items()]


def _column(annotation: Any) -> pyarrow.DataType:
    """The column for values of a field's type; any of them may be null."""
    import pyarrow as pa

    plain = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    if annotation in plain:
        return plain[annotation]
    if isinstance(annotation, type) and issubclass(annotation, Entry):
        return pa.struct(_fields(annotation))
    inner, other = get_args(annotation)
    return _column(inner) if other is NoneType else pa.list_(_column(inner))


def call_records(finished: Finished) -> Iterator[dict[str, Any]]:
    """One record per call of a finished plan, skipped ones too, in the order of their ends."""
    exchanges = {exchange.call.id: exchange for exchange in finished.exchanges()}
    for call_id in finished.outcomes:
        exchange = exchanges[call_id]
        yield {
            "sample": finished.plan.sample,
            "condition": finished.plan.condition,
            "call": call_id,
            "model": exchange.call.model,
            "prompt": exchange.call.prompt,
            **_sent(exchange.resolved),
            **_outcome_fields(exchange.outcome),
            **_parsed(exchange.call, exchange.outcome),
        }


def judged_as(call: Call, reply: Reply) -> str:
    """How a judge's reply is parsed, in a few words."""
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
    """The score of a record; trials are `clustered`."""
    tags = {tag["name"]: tag["value"] for tag in record["tags"]}
    return clustered(Score(**{**record, "tags": tags}))


def clustered(score: Score) -> Score:
    """The score; trials of a sample form a cluster, unless the benchmark sets one."""
    key = read_trial(score.sample).key
    if key == score.sample or CLUSTER in score.tags:
        return score
    return replace(score, tags={**score.tags, CLUSTER: key})


def message_record(message: Message) -> dict[str, Any]:
    """A message as JSON: images by hash and size, references by the call that they name."""
    return {"role": message.role, "parts": [_part(part) for part in message.parts]}


def _part(part: Text | Image | Ref) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    if isinstance(part, Ref):
        return {"ref": part.call}
    return {"image": part.sha256, "width": part.width, "height": part.height}


def _sent(resolved: ResolvedCall | None) -> dict[str, Any]:
    if resolved is None:
        return {"key": None, "stored": False, "messages": None}
    filled = resolved.call.prompt is not None
    return {
        "key": resolved.key,
        "stored": resolved.cached,
        "messages": None if filled else [message_record(message) for message in resolved.messages],
    }


def _outcome_fields(outcome: Outcome) -> dict[str, Any]:
    reply = outcome if isinstance(outcome, Reply) else None
    return {
        "state": type(outcome).__name__.lower(),
        **{name: getattr(reply, name, None) for name in _OF_REPLY},
        "dropped": reply.dropped if reply else 0,
        "seen": [
            {"image": seen.sha256, "width": seen.width, "height": seen.height}
            for seen in (reply.seen if reply else ())
        ],
        "answered_by": reply.answered_by if reply else None,
        "problem": problem_of(outcome),
    }


def problem_of(outcome: Outcome) -> str | None:
    """How a call failed, or why it was skipped; None for a reply."""
    if isinstance(outcome, Failure):
        return outcome.description
    return outcome.because if isinstance(outcome, Skipped) else None


def _parsed(call: Call, outcome: Outcome) -> dict[str, Any]:
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
