"""What the service and its client exchange, as values: responses that both read.

Scores and tables are the engine's own. Only the service knows lists and their pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from mmconv.core.errors import FailureKind
from mmconv.core.run_stats import JobState, Progress
from mmconv.core.types import Finish, SeenImage, Table

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
class NamedScore:
    """The score of a turn (0: the conversation) under a condition.

    `name` is S and the turn, then `_hat` if one turn before it is given and `_tilde` if two are.
    `value` is the mean if both sides were judged, `why` the reason for a missing one.
    """

    name: str
    grading: Literal["direct", "pairwise"]
    condition: str
    turn: int
    value: float | None
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """The change of the score of a turn (0: the conversation) when more turns are given.

    `value` is the score under `goal` minus that under `start`, and `name` has the names of both.
    `why` is the reason for a missing value.
    """

    name: str = ""
    grading: Literal["direct", "pairwise"]
    turn: int
    start: str
    goal: str
    value: float | None
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallUsage:
    """Calls that were `requested` or `cached`, and the tokens of the requested ones."""

    requested: int
    cached: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DialogueResult:
    """A dialogue under all of its conditions; `lost` counts its calls without a reply.

    `deltas` are those of each condition to the one before it and to the first.
    """

    model: str
    judge: str | None
    lost: int
    conditions: tuple[ConditionResult, ...]
    deltas: tuple[Delta, ...]
    usage: CallUsage
    scores: tuple[NamedScore, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Image:
    id: str

    @property
    def name(self) -> str:
        """What requests call it."""
        return f"image:{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage(_Image):
    """A stored image: width and height in pixels as displayed, `bytes` of its file."""

    media_type: str
    width: int
    height: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnImage(_Image):
    """One of the caller's images: the bytes of its file, and when it was last sent (UTC)."""

    bytes: int
    sent: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A run: its request, state and progress.

    `owner` is the name of the token that posted it first, which may stop, resume and remove it.
    `progress` is of the current or last session; a resumed run finds its replies in the cache.
    `lost` counts calls without a reply at the end, `scores` all scores and `unscored` those without
    a value, by reason; null before the end. `folder` is the name of the folder in the server's
    `out` that `mmconv show` and other commands take, null until it is written. People wrote `note`
    and `tags`. Times are in UTC; `created` is when it was first posted, `queued` when it was last
    posted.
    """

    id: str
    owner: str
    state: JobState
    stopping: bool
    benchmark: str | None
    model: str | None
    request: Mapping[str, Any]
    progress: Progress
    lost: int
    scores: int | None
    unscored: Mapping[str, int] | None
    folder: str | None
    error: str | None
    created: datetime
    queued: datetime
    started: datetime | None
    updated: datetime
    ended: datetime | None
    note: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """Many dialogues as one run. It has the tables once it is done.

    `scores` has a row for each named score (`S2_hat`: turn 2 with turn 1 given; `S0`: the whole
    conversation), `deltas` for what given turns change, `attribution` for the level that failures
    come from: `rows[name][column]` has the value and its 95 % interval.
    """

    run: RunInfo
    scores: Table | None = None
    deltas: Table | None = None
    attribution: Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DialogueInfo:
    """A dialogue that became a job: its state and progress.

    A conversation of its `progress` is the dialogue under one condition. `location` is its address,
    and `about` the next step in words, null once it has ended. `owner` is the name of the token
    that posted it. Times are in UTC; `created` is when it was first posted.
    """

    id: str
    owner: str
    model: str | None
    location: str
    about: str | None
    state: JobState
    stopping: bool
    progress: Progress
    error: str | None
    created: datetime
    ended: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedDialogue(DialogueInfo):
    """A dialogue that became a job, with its result once it is done."""

    result: DialogueResult | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleInfo:
    """A sample with the numbers of its calls, of those with a reply, and of those that failed."""

    sample: str
    conditions: tuple[str, ...]
    calls: int
    replies: int
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTranscript:
    """All calls of a sample with their messages and replies, and its scores.

    Images are named by their SHA-256. A judge's messages are null if they are a prompt file, filled
    in; `prompts=true` includes them.
    """

    sample: str
    calls: tuple[Mapping[str, Any], ...]
    scores: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTables:
    """The runs by the labels that the tables use, the baseline's label, and the tables."""

    baseline: str
    runs: Mapping[str, str]
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedTables:
    """A leaderboard: the runs by the labels that the tables use, warnings, and the tables.

    The rows of the tables have the best run first.
    """

    runs: Mapping[str, str]
    warnings: tuple[str, ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementTables:
    """A judge's agreement with people: for each metric its measures and the numbers of ratings."""

    warnings: tuple[str, ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkName:
    """A benchmark: its name in requests and runs, and its title."""

    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionInfo:
    """An option of a run: its meaning, its values as JSON Schema, and its default."""

    name: str
    about: str
    takes: Mapping[str, Any]
    default: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A dataset that runs may name: its benchmark's conditions and roles by meaning, and options.

    Options that locate data are not listed; custom benchmarks list none. `about` relates options to
    the benchmark's paper. Datasets that a client sent have a `title`, an `owner`, the number of
    `samples`, the `bytes` that their files take up, and when they were `sent`.
    """

    name: str
    benchmark: BenchmarkName
    conditions: Mapping[str, str]
    roles: Mapping[str, str]
    options: tuple[OptionInfo, ...]
    about: str
    title: str | None = None
    owner: str | None = None
    samples: int | None = None
    bytes: int | None = None
    sent: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingInfo:
    """What `POST /v1/judgements` accepts for a benchmark.

    `sample` is the JSON Schema of a sample, `prompts` the names of the judge's prompts.
    `conditions` and `options` are those of runs; the first condition is the default.
    """

    benchmark: BenchmarkName
    conditions: Mapping[str, str]
    sample: Mapping[str, Any]
    options: tuple[OptionInfo, ...]
    prompts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """A reply of the judge; `call` is the call's id, or that of a retry or a fallback."""

    call: str
    text: str
    finish: Finish
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCall:
    """One judgement: the verdict of the call `call`, or the reason why there is none.

    `prompt` is the prompt file's name with half of its hash. The verdict has a `label`, `scores` by
    name, or both. `problem` is the message of a failure. `replies` are all replies of the judge.
    """

    call: str
    prompt: str
    state: VerdictState
    label: str | None
    scores: Mapping[str, float]
    rationale: str
    reason: str | None
    problem: str | None
    replies: tuple[JudgeReply, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedScore:
    """A score that the benchmark computes from the judgements, or None and the reason."""

    metric: str
    value: float | None
    reason: str | None
    turn: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The judgements that the replies allow, and all scores of the benchmark."""

    benchmark: str
    condition: str
    judge: str
    scores: tuple[JudgedScore, ...]
    judgements: tuple[JudgedCall, ...]
