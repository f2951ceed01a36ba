"""The result of a dialogue: every turn's text and verdicts, and the deltas between conditions.

These are the fields of the HTTP response and what `mmconv.client` returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from mmconv.core.errors import FailureKind
from mmconv.core.types import Finish, SeenImage

VerdictState: TypeAlias = Literal["parsed", "unparsed", "failed", "skipped"]
"""Whether a judgement was read, could not be read, failed, or was skipped: no answer to judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTurn:
    """One judgement of a turn, or of the whole conversation.

    `score` is the rating from 1 to 10; in pairwise grading 1 if the judge chose the model's
    conversation, shown on `side`, else 0. `why` is the reason for a missing score. `reply` is the
    judge's text, `problem` the message of a failure.
    """

    grading: Literal["direct", "pairwise"]
    side: Literal["A", "B"] | None
    state: VerdictState
    score: float | None
    choice: str | None
    why: str | None
    problem: str | None
    rationale: str
    reply: str | None
    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """One turn: its answer or the reason for its absence, and its judgements.

    The text of a `given` turn is its reference, which is not judged. `seen` are the images as they
    were sent to the model. `failed` is the kind of failure and `problem` its message; `skipped` is
    the call whose failure prevented this one.
    """

    turn: int
    instruction: str
    given: bool
    text: str | None = None
    reasoning: str | None = None
    finish: Finish | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    seen: tuple[SeenImage, ...] = ()
    failed: FailureKind | None = None
    problem: str | None = None
    skipped: str | None = None
    judgements: tuple[JudgedTurn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionResult:
    """The dialogue under one condition: `given` leading turns are the reference's."""

    condition: str
    given: int
    turns: tuple[TurnResult, ...]
    overall: tuple[JudgedTurn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """The change of the score of a turn (0: the conversation) when more turns are given.

    `value` is the score under `goal` minus that under `start`; of their means if both sides were
    judged. `why` is the reason for a missing value.
    """

    grading: Literal["direct", "pairwise"]
    turn: int
    start: str
    goal: str
    value: float | None
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallUsage:
    """Calls that were made (`asked`) and that were cached (`stored`), and tokens of those made."""

    asked: int
    stored: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DialogueResult:
    """A dialogue under all of its conditions; `lost` counts its calls without a reply."""

    model: str
    judge: str | None
    lost: int
    conditions: tuple[ConditionResult, ...]
    deltas: tuple[Delta, ...]
    usage: CallUsage
