"""The lines of `SCORES` and `TRANSCRIPTS`: their fields, in order, with what each may hold.

These types are the one place where the fields stand: what is read is checked by them, and the
columns of the Parquet files are made from them. `mmconv.run_folder.transcripts` fills them.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Entry(BaseModel):
    """What all of them have in common: no field but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PartRecord(Entry):
    """A part of a message: a text, the id of the call whose text stands there, or a picture."""

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
    """A picture by its hash, and its size in pixels as the model got it."""

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
    """A call: what was asked, what came back, and how it was read; `text` is None without a reply.

    `messages` is None for a call that was not asked, and where a prompt file was filled;
    `answered_by` where no server names the model that answered, and in older files.
    """

    sample: str
    condition: str
    call: str
    seat: str
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
