"""Run statistics: counts by model role, throughput, and the reason why a run stopped."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from mmconv.core.errors import BackendError, FailureKind
from mmconv.core.types import Failure, Outcome, Reply

WINDOW_SECONDS = 30.0

JobState: TypeAlias = Literal["queued", "running", "done", "stopped", "failed"]


@dataclass(slots=True, kw_only=True)
class Tokens:
    """Tokens of calls, and how many of these calls are `unmetered`: without token counts.

    `cached` are those of `input` that a server read from its own cache of prefixes. The `batched_`
    counts are those that came in batches, which cost half; the others include them.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    unmetered: int = 0
    batched_input: int = 0
    batched_output: int = 0
    batched_cached: int = 0

    def add(self, attempt: BackendError | Reply) -> None:
        """Count a reply, or an attempt that was metered without one."""
        read, written = attempt.input_tokens or 0, attempt.output_tokens or 0
        self.input += read
        self.output += written
        if isinstance(attempt, Reply):
            cached = attempt.cached_tokens or 0
            self.cached += cached
            self.unmetered += None in (attempt.input_tokens, attempt.output_tokens)
            if attempt.batched:
                self.batched_input += read
                self.batched_output += written
                self.batched_cached += cached


@dataclass(slots=True, kw_only=True)
class ModelStats:
    """The counts of one model role: calls by outcome, retries, tokens.

    - `requested`: sent and answered; `cached`: answered from the cache or by an equal call;
    - `needless`: not sent, since the call compares texts that are equal;
    - `skipped`: not sent, since a dependency failed; of these `unrequested`: this run is offline;
    - `session`: tokens of `requested` calls, replays, and failed attempts that were metered;
    - `total`: the same with those of `cached` calls;
    - `timed_out`: attempts that timed out; whether they are paid is unknown;
    - `answered_by`: replies by model, if the server names it;
    - `examples`: one message for each kind of failure; `last_failure`: the latest one;
    - `last_retry`, `retried_for`: kind and message of the latest retried attempt, or "";
    - `describe_wait`: the batches that the model waits for, in words.
    """

    requested: int = 0
    cached: int = 0
    failed: int = 0
    skipped: int = 0
    unrequested: int = 0
    needless: int = 0
    retried: int = 0
    truncated: int = 0
    timed_out: int = 0
    session: Tokens = field(default_factory=Tokens)
    total: Tokens = field(default_factory=Tokens)
    failures: Counter[str] = field(default_factory=Counter)
    answered_by: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    last_retry: str = ""
    retried_for: str = ""
    last_failure: Failure | None = None
    describe_wait: Callable[[], str] | None = None

    @property
    def ended(self) -> int:
        """Calls that have an outcome."""
        return self.requested + self.cached + self.failed + self.skipped + self.needless

    def count(self, outcome: Outcome, *, cached: bool) -> None:
        """Count an outcome; `cached`: the call was not requested itself."""
        if isinstance(outcome, Reply):
            self._count_reply(outcome, cached=cached)
        elif isinstance(outcome, Failure):
            self.failed += 1
            self.failures[outcome.kind] += 1
            self.examples.setdefault(outcome.kind, outcome.message)
            self.last_failure = outcome
        elif outcome.reason == "same_text":
            self.needless += 1
        else:
            self.skipped += 1
            self.unrequested += outcome.reason == "unrequested"

    def count_retry(self, kind: FailureKind, message: str) -> None:
        """Count an attempt that failed and is retried."""
        self.retried += 1
        self.last_retry = kind
        self.retried_for = message

    def count_unanswered(self, error: BackendError) -> None:
        """Count the tokens and the timeout of an attempt without a reply."""
        self.timed_out += error.kind == "timeout"
        self.count_tokens(error)

    def count_tokens(self, attempt: BackendError | Reply, *, paid: bool = True) -> None:
        """Count the tokens of an attempt; `paid`: in this session, so not of a cached reply."""
        self.total.add(attempt)
        if paid:
            self.session.add(attempt)

    def _count_reply(self, reply: Reply, *, cached: bool) -> None:
        self.truncated += reply.finish == "length"
        self.cached += cached
        self.requested += not cached
        self.count_tokens(reply, paid=not cached)
        if reply.answered_by is not None:
            self.answered_by[reply.answered_by] += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReason:
    """The reason why a run stopped by itself, and the last failure that led to it, if any."""

    reason: str
    failure: Failure | None = None

    @property
    def description(self) -> str:
        """The reason and the failure, for people."""
        return self.reason if self.failure is None else f"{self.reason}: {self.failure.description}"


@dataclass(slots=True, kw_only=True)
class RunStats:
    """A run's counts; `planned` are the calls of the opened plans, with needed fallbacks."""

    plans: int = 0
    finished: int = 0
    planned: int = 0
    stop_reason: StopReason | None = None
    models: dict[str, ModelStats] = field(default_factory=dict)

    def model(self, name: str) -> ModelStats:
        """The counts of one role."""
        if (stats := self.models.get(name)) is None:
            stats = self.models[name] = ModelStats()
        return stats

    @property
    def ended(self) -> int:
        """Calls of all roles that have an outcome."""
        return sum(role.ended for role in self.models.values())

    def planned_in(self, plans: int) -> int:
        """Calls of this number of plans; plans not opened yet count with the average."""
        unopened = max(0, plans - self.plans)
        return self.planned + round(unopened * self.planned / self.plans if self.plans else 0)

    @property
    def requested(self) -> int:
        """Calls that were sent to a model and answered."""
        return sum(role.requested for role in self.models.values())

    @property
    def replies(self) -> int:
        """Calls that have a reply, requested now or before."""
        return sum(role.requested + role.cached for role in self.models.values())

    @property
    def answered_by(self) -> dict[str, dict[str, int]]:
        """Replies by role and by the model that the server names."""
        counts = {name: dict(role.answered_by) for name, role in self.models.items()}
        return {name: models for name, models in counts.items() if models}

    @property
    def unrequested(self) -> int:
        """Calls that wait for an online run."""
        return sum(role.unrequested for role in self.models.values())

    def describe_wait(self) -> str:
        """The batches that the models wait for, or ""."""
        waits = (role.describe_wait() for role in self.models.values() if role.describe_wait)
        # roles that share a model wait for the same ones
        return ", ".join(dict.fromkeys(filter(None, waits)))

    @property
    def lost(self) -> int:
        """Calls without a reply: failed, or skipped because of one that failed."""
        return sum(role.failed + role.skipped for role in self.models.values())


class Throughput:
    """The throughput of a run: calls answered within the last seconds, without cached ones."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._marks: deque[tuple[float, int]] = deque()

    def measure(self, stats: RunStats, plans: int) -> Progress:
        """Note the counts now; the progress of a run of this number of plans."""
        now = time.monotonic()
        self._marks.append((now, stats.requested))
        while len(self._marks) > 2 and self._marks[1][0] <= now - WINDOW_SECONDS:
            self._marks.popleft()
        then, earlier = self._marks[0]
        rate = (stats.requested - earlier) / (now - then) if now > then else 0.0
        planned = stats.planned_in(plans)
        roles = stats.models.values()
        return Progress(
            calls=stats.ended,
            planned=planned,
            conversations=stats.finished,
            total=plans,
            replies=stats.replies,
            requested=stats.requested,
            cached=sum(role.cached for role in roles),
            failed=sum(role.failed for role in roles),
            skipped=sum(role.skipped for role in roles),
            retried=sum(role.retried for role in roles),
            input_tokens=sum(role.session.input for role in roles),
            output_tokens=sum(role.session.output for role in roles),
            rate=round(rate, 2),
            seconds=round(now - self._started, 1),
            seconds_left=round((planned - stats.ended) / rate, 1) if rate else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a run in this session.

    `calls` have ended, out of `planned`, an estimate until the last conversation has begun.
    `conversations` (a sample under a condition, in one trial) have ended, out of `total`. Calls by
    outcome: `requested` (and answered), `cached`, `failed`, `skipped` because of
    a failure; `replies` have a text. Tokens are of requested calls, as models count them. `rate` is
    answered calls per second, lately; `seconds_left` is None until calls are answered.
    """

    calls: int = 0
    planned: int = 0
    conversations: int = 0
    total: int = 0
    replies: int = 0
    requested: int = 0
    cached: int = 0
    failed: int = 0
    skipped: int = 0
    retried: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    rate: float = 0.0
    seconds: float = 0.0
    seconds_left: float | None = None
