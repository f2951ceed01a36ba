"""The values that everything else passes around: messages, calls, outcomes, verdicts, scores.

All are frozen, slotted, keyword-only dataclasses. Nothing here does I/O or knows a benchmark, a
model or a judge. Two rules carry the design: only a `Reply` has text, so nothing else can enter a
later prompt; and a `Score` without a value says why.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from mmconv.core.errors import FailureKind

Role = Literal["system", "user", "assistant"]
Finish = Literal["stop", "length", "filter", "unknown"]
CUT_OFF: tuple[Finish, ...] = ("length", "filter")
"""How a reply finished that ends too early: by the limit on tokens, or by a content filter."""

BY_HOST = " by "
FINGERPRINT = ", fingerprint "
"""Separators before the host and the build of a model, if the server names them."""

ANY_OBJECT = '{"type":"object","additionalProperties":true}'
"""The schema of any JSON object; strict engines need to hear that it may have fields."""

Reason = Literal["loss", "unrequested", "same_text", "absent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Literal text inside a message."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image inside a message, by the SHA-256 (hex) of its file's bytes; sizes in pixels.

    Width and height are those after EXIF orientation, as a person sees the image.
    """

    sha256: str
    media_type: str
    width: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """The whole text of the first reply to the call with this id, also if a fallback was read.

    `cut_off` follows the text of a reply that was cut off or held back. With `json_escaped` both
    enter the message as they would inside a JSON string.
    """

    call: str
    cut_off: str = ""
    json_escaped: bool = False

    def write(self, text: str) -> str:
        """The reply's text as it enters the message."""
        return escape_json(text) if self.json_escaped else text


def escape_json(text: str) -> str:
    """The text as `json.dumps(text, ensure_ascii=False)` writes it, less its quotes."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


Part: TypeAlias = Text | Image | Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a prompt. Resolved messages hold no `Ref`.

    `name` is the speaker's, for servers that show it to the model; others ignore it.
    """

    role: Role
    parts: tuple[Part, ...]
    name: str | None = None

    @property
    def text(self) -> str:
        """Its literal texts joined, without what stands between them."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def images(self) -> tuple[Image, ...]:
        """Its images, in their order."""
        return tuple(part for part in self.parts if isinstance(part, Image))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How a reply is drawn; all of it is part of the content key.

    `temperature` and `top_p` None leave the server's own default in force. `max_tokens` counts
    generated tokens. `trial` numbers repetitions of the same request. `schema` is a JSON schema,
    as text, that the reply shall obey where the server can guide its output; `ANY_OBJECT` is the
    JSON mode of hosted servers. `extra` has further fields by the names that servers use, such as
    `top_k`; only those that the model's provider lists (`Provider.extra_fields`) have an effect.
    """

    temperature: float | None = 0.0
    top_p: float | None = None
    max_tokens: int = 1024
    seed: int | None = None
    stop: tuple[str, ...] = ()
    trial: int = 0
    schema: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a judge's reply was read as: a label, scores by name, and the reasons given.

    `missing` counts scores of turns or criteria that the verdict does not have, or not on the
    scale. Such a verdict is re-requested; the most complete one is used.
    """

    label: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    rationale: str = ""
    missing: int = 0


Parser: TypeAlias = Callable[[str], Verdict]
"""Reads a reply's text as a verdict, or raises `Unparsed`. Pure and hashable, as functions are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to one model role; it `needs` the replies that its messages refer to, by id.

    `fallbacks` are requested in order, each only if no reply before it could be read by its parser
    as a complete verdict; they may hold a `Ref` to this call. `verdict_last` says that replies
    close with the verdict, so that one that was cut off is read only if its last words are one.
    `overflow` says what happens when the prompt does not fit the model's context: the call fails,
    or its oldest messages are dropped and counted, all but system prompts and `pinned`, a prompt
    that the first user's message begins with. `prompt` names the prompt file that filled the
    messages, with its hash, for the record. `compares` holds two lists of texts from the messages:
    where they come out equal there is nothing to ask, and the call ends as `Skipped` by reason of
    `same_text`. `expected_tokens` is how long the reply is likely to be, where that was measured;
    only forecasts read it.
    """

    id: str
    model: str
    messages: tuple[Message, ...]
    sampling: Sampling = Sampling()
    parser: Parser | None = None
    verdict_last: bool = True
    fallbacks: tuple[Call, ...] = ()
    overflow: Literal["fail", "drop_oldest"] = "fail"
    pinned: str = ""
    prompt: str | None = None
    compares: tuple[Sequence[Text | Ref], Sequence[Text | Ref]] | None = None
    expected_tokens: float | None = None
    needs: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = [part for message in self.messages for part in message.parts]
        needs = frozenset([part.call for part in parts if isinstance(part, Ref)])
        object.__setattr__(self, "needs", needs)

    @property
    def attempts(self) -> tuple[Call, ...]:
        """The call and its fallbacks."""
        return (self, *self.fallbacks)

    def changed(self, change: Callable[[Call], Call]) -> Call:
        """The call with its fallbacks, each of them changed."""
        return replace(change(self), fallbacks=tuple(map(change, self.fallbacks)))

    @property
    def kept(self) -> str | None:
        """What a prompt that overflows the context keeps of its beginning; None: it fails."""
        return self.pinned if self.overflow == "drop_oldest" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenImage:
    """An image as it was sent to a model, or handed to its processor: its size in pixels.

    A processor may scale or crop it further. `media_type` is that of the file that was sent, where
    it was not the image's own.
    """

    sha256: str
    width: int
    height: int
    media_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's answer.

    `reasoning` is what it thought aloud, kept apart from `text`. `seconds` is the time of the
    request that succeeded; `dropped` counts messages left out of an overflowing prompt; tokens
    are None if the backend does not report them. `answered_by` is the model as the server names
    it, with `BY_HOST` and `FINGERPRINT` if it names those; None if it names no model.
    `cached_tokens` are those of the input that the server read from its own cache of prefixes.
    `batched`: it came from a batch, at half the price.
    `logprobs` are those of its tokens, as the server sends them, if requested; they are not cached.
    """

    text: str
    reasoning: str | None = None
    finish: Finish = "stop"
    input_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float = 0.0
    dropped: int = 0
    seen: tuple[SeenImage, ...] = ()
    answered_by: str | None = None
    cached_tokens: int | None = None
    batched: bool = False
    logprobs: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A call that was requested and not answered, after `attempts` attempts."""

    kind: FailureKind
    message: str
    attempts: int

    @property
    def why(self) -> str:
        """The reason why it has no score."""
        return f"failed: {self.kind}"

    @property
    def description(self) -> str:
        """A description for people."""
        many = "s" if self.attempts > 1 else ""
        return f"{self.kind} after {self.attempts} attempt{many}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A call that was never requested: `because` is for a reader, `reason` for programs.

    `loss`: it needs a call that has no reply, which `because` names. `unrequested`: the run sends
    no requests (rescoring, showing) and the cache has no reply; `because` is `UNASKED` then.
    `same_text`: it would compare equal texts; `because` is `SAME_TEXT`. `absent`: replies are read
    from a file that has none to it.
    """

    because: str
    reason: Reason = "loss"

    @property
    def why(self) -> str:
        """The reason why it has no score."""
        return self.because if self.reason == "absent" else f"skipped: {self.because}"


UNASKED = "not asked yet"
SAME_TEXT = "same text"
UNPARSED = "unparsed"
"""The reason of a score if a judge's replies hold no readable verdict."""
UNPAIRED = "unpaired: "
"""The begin of the reason of a sample that does not make a pair."""

Outcome: TypeAlias = Reply | Failure | Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One number about one sample under one condition, or None and the reason why not.

    `turn` counts from 1; 0 is the whole conversation; None where turns have no meaning. `tags`
    carry whatever tables group by (category, task, persona, cluster).
    """

    sample: str
    condition: str
    metric: str
    turn: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    value: float | None = None
    why: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.why is None):
            raise ValueError("a score has either a value or a reason why it has none")
        if self.value is not None and math.isnan(self.value):
            raise ValueError("a score is never NaN: give None and a reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A mean with its 95 % interval: `n` values, and how many are `missing` by reason.

    `mean` is None without values, `stderr` with fewer than two independent clusters;
    `mmconv.stats.estimates` says which values have an interval.
    """

    mean: float | None
    stderr: float | None
    low: float | None
    high: float | None
    n: int
    missing: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell of a table: a value with what stands behind it.

    `n` counts the values, `missing` those that are not there, by reason; `low` and `high` are the
    95 % interval where there is one. A cell of text (a label, an authors' convention) has no n.
    Positive numbers of a `signed` cell, a change, have their sign. With `to`, the number is only
    known to be between `value` and `to`; `low` and `high` then are the limits of these two. Readers
    see the `digits` of the table, or fewer ones of the cell, and of numbers outside the `ends` only
    that they are.
    """

    value: float | str | None
    n: int | None = None
    missing: Mapping[str, int] = field(default_factory=dict)
    low: float | None = None
    high: float | None = None
    signed: bool = False
    to: float | None = None
    digits: int | None = None
    ends: tuple[float, float] | None = None

    def outside(self, number: float) -> str:
        """The words for a number outside the ends, as in `>10`; empty for others."""
        if self.ends is None or self.ends[0] <= number <= self.ends[1]:
            return ""
        return f"<{self.ends[0]:g}" if number < self.ends[0] else f">{self.ends[1]:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The columns of a table as places on an axis, so that each row is a curve.

    Their names end in their numbers. A `line` is drawn across all curves. The column `mark` is not
    a place: it says where on the axis each curve falls below the line.
    """

    title: str
    line: float | None = None
    mark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Named rows of cells under named columns, as it is printed and exported.

    `name` is a file name without suffix; numbers are printed with `digits` decimals; `notes` say
    what a reader must know (conventions, drafts, records left out). `findings` are short sentences
    with one number and its interval each, the most important first. In a `signed` table every
    cell is; a `detail` table is written to files and not printed. With an `axis` rows are curves.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Cell]]
    notes: tuple[str, ...] = ()
    digits: int = 2
    signed: bool = False
    detail: bool = False
    findings: tuple[str, ...] = ()
    axis: Axis | None = None

    @classmethod
    def of(
        cls, name: str, title: str, rows: Mapping[str, Mapping[str, Cell]], **more: Any
    ) -> Table:
        """A table with the columns that its rows have, in the order in which they come."""
        columns = dict.fromkeys(column for row in rows.values() for column in row)
        return cls(name=name, title=title, columns=tuple(columns), rows=rows, **more)
