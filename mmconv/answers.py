"""What a server answers, as values: the service documents them, and `mmconv.client` reads them.

Dialogues (`mmconv.dialogues.results`), judgements, scores and tables are the engine's own. Lists
and their pages are known to the service alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mmconv.core.run_stats import JobState
from mmconv.core.types import Table
from mmconv.dialogues.results import DialogueResult


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """An image that is kept: sizes in pixels as a person sees it, `bytes` of its file."""

    id: str
    media_type: str
    width: int
    height: int
    bytes: int

    @property
    def name(self) -> str:
        """What requests call it."""
        return f"image:{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnImage:
    """An image of the caller's: the bytes of its file, and when it was sent last (UTC)."""

    id: str
    bytes: int
    sent: datetime

    @property
    def name(self) -> str:
        """What requests call it."""
        return f"image:{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a run has done in this session.

    `calls` have ended, out of `planned`, which is an estimate until the last conversation has
    begun. `conversations` (a sample under a condition, in one trial) have ended, out of `total`.
    Calls by how they ended: `asked` and answered, `stored` before, `failed`, `skipped` because of
    those; `replies` have a text. Tokens are of the calls asked, as models count them. `rate` is
    answered calls per second, lately; `seconds_left` is None until calls are answered.
    """

    calls: int = 0
    planned: int = 0
    conversations: int = 0
    total: int = 0
    replies: int = 0
    asked: int = 0
    stored: int = 0
    failed: int = 0
    skipped: int = 0
    retried: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    rate: float = 0.0
    seconds: float = 0.0
    seconds_left: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A run as it was asked for, and how it is.

    `owner` is the name of the token that posted it first, which may stop, resume and remove it.
    `progress` is of the session under way or the last one; a run that was resumed finds in the
    store what is answered. `lost` counts calls without a reply at the end, `scores` all scores and
    `unscored` those without a value, by reason; null before the end. `folder` is the name of the
    folder in the server's `out` that `mmconv show` and the other commands take, null until it is
    written. Times are in UTC; `created` is when it was first posted, `queued` when it was last.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DialogueInfo:
    """A dialogue that became a job, and how it is.

    A conversation of its `progress` is the dialogue under one condition. `location` is where to
    ask for it again, and `about` says in words what to do next, null once it has ended. `owner` is
    the name of the token that posted it. Times are in UTC; `created` is when it was first posted.
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
    """A dialogue that became a job: how it is, and its result once it was done."""

    result: DialogueResult | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleInfo:
    """A sample and how far its calls are: all, those with a reply, those that failed."""

    sample: str
    conditions: tuple[str, ...]
    calls: int
    replies: int
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTranscript:
    """All calls of a sample, as they were sent and came back, and its scores.

    Images are named by their SHA-256. A judge's messages are null where they are a prompt file
    filled in; with `prompts=true` they are there.
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
class BenchmarkName:
    """A benchmark: as requests and runs name it, and as its authors write it."""

    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionInfo:
    """An option of a run: its meaning, what it takes as JSON Schema, and what it is if not set."""

    name: str
    about: str
    takes: Mapping[str, Any]
    default: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A data set that runs may name: its benchmark's conditions and seats by meaning, and options.

    Options that say where data lie are the operator's and are not told. Of a benchmark that is none
    of mmconv's own, nothing is known. `about` says what several options have to do with its paper.
    """

    name: str
    benchmark: BenchmarkName
    conditions: Mapping[str, str]
    seats: Mapping[str, str]
    options: tuple[OptionInfo, ...]
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptInfo:
    """A prompt that judges may be asked by: the fields that its request needs, and may have.

    Beside them every request names `judge`, `benchmark` and `prompt`. `shape` is the schema of the
    request in the OpenAPI document, where the fields are described.
    """

    benchmark: str
    prompt: str
    needed: tuple[str, ...]
    optional: tuple[str, ...]
    shape: str
