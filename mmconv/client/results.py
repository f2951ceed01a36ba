"""What the server answers, as values; dialogues, judgements, scores and tables are the engine's.

A field that a newer server adds is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar

from pydantic import TypeAdapter

from mmconv.dialogues.results import DialogueResult
from mmconv.values import Score, Table

Kind = TypeVar("Kind")

JobState: TypeAlias = Literal["queued", "running", "done", "stopped", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """An image that the server keeps: `width` and `height` in pixels, `bytes` of its file."""

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
    """An image of one's own that the server keeps: bytes of its file, and when it was sent last."""

    id: str
    bytes: int
    sent: datetime

    @property
    def name(self) -> str:
        """What requests call it."""
        return f"image:{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """A model's answer; tokens are None where its backend does not count."""

    text: str
    reasoning: str | None
    finish: str
    input_tokens: int | None
    output_tokens: int | None

    @classmethod
    def of(cls, completion: Mapping[str, Any]) -> ChatReply:
        """Read a chat completion."""
        [choice] = completion["choices"]
        usage = completion["usage"] or {}
        return cls(
            text=choice["message"]["content"],
            reasoning=choice["message"].get("reasoning_content"),
            finish=choice["finish_reason"],
            input_tokens=usage.get("prompt_tokens"),
            output_tokens=usage.get("completion_tokens"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a job is: conversations ended out of `total`; calls by how they ended.

    `rate` is answered calls per second; `seconds_left` is None as long as nothing tells it.
    """

    conversations: int
    total: int
    replies: int
    asked: int
    stored: int
    failed: int
    skipped: int
    retried: int
    rate: float
    seconds: float
    seconds_left: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A run as it was posted, and how it is. Times are in UTC.

    `lost` counts calls without a reply; `scores` all scores and `unscored` those without a value,
    by reason, both None before the end. `folder` is the name of its folder on the server.
    """

    id: str
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
class QueuedDialogue:
    """A dialogue that became a job: how it is, and its result when it is done."""

    id: str
    state: JobState
    progress: Progress
    error: str | None
    result: DialogueResult | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleInfo:
    """A sample of a run and how far its calls are: all, those with a reply, those that failed."""

    sample: str
    conditions: tuple[str, ...]
    calls: int
    replies: int
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTranscript:
    """All calls of a sample as they were sent and came back, and its scores, as records."""

    sample: str
    calls: tuple[Mapping[str, Any], ...]
    scores: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs side by side: their ids by the labels that the tables use, and the baseline's label."""

    baseline: str
    runs: Mapping[str, str]
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkName:
    """A benchmark: as requests and runs name it, and as its authors write it."""

    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of a run: its meaning, what it takes as JSON Schema, and what it is if not set."""

    name: str
    about: str
    takes: Mapping[str, Any]
    default: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A data set that runs may name: its benchmark's conditions and seats by meaning, and options.

    `about` says what several options have to do with the benchmark's paper.
    """

    name: str
    benchmark: BenchmarkName
    conditions: Mapping[str, str]
    seats: Mapping[str, str]
    options: tuple[Option, ...]
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePrompt:
    """A prompt that judges may be asked by: the fields that it needs, and may have."""

    benchmark: str
    prompt: str
    needed: tuple[str, ...]
    optional: tuple[str, ...]


def read(kind: type[Kind], value: Any) -> Kind:
    """The JSON value as one of these; raises `pydantic.ValidationError` for anything else."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    made: Kind = _ADAPTERS[kind].validate_python(value)
    return made


def read_score(record: Mapping[str, Any]) -> Score:
    """A score from its record."""
    tags = {tag["name"]: tag["value"] for tag in record["tags"]}
    return read(Score, {**record, "tags": tags})


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}
