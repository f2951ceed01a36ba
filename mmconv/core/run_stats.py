"""Counts of what a run has done so far, by seat, and how fast; progress and summary read them."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from mmconv.core.errors import BackendError, FailureKind
from mmconv.core.types import FINGERPRINT, Failure, Outcome, Reply

WINDOW_SECONDS = 30.0
"""The time over which the rate is measured."""

MOST_NAMES = 100
"""So many models that answered a seat are counted by name and `FINGERPRINT`, and as many more by
their name alone: some servers have a fingerprint, or a name, for each reply."""

OTHERS = "others"
"""What all further ones are counted as."""

JobState: TypeAlias = Literal["queued", "running", "done", "stopped", "failed"]
"""How a run or dialogue is that a server has queued."""


@dataclass(slots=True, kw_only=True)
class SeatStats:
    """One seat's counts: calls by how they ended, retries, tokens.

    `stored` calls were not asked for themselves: the store held their reply, or an equal call that
    was under way brought it. `needless` calls would have compared equal texts, and nothing is lost
    with them. `input_tokens` and `output_tokens` are of the calls asked now, and of their attempts
    that brought no reply and were counted all the same; the totals include those of `stored` ones.
    `unasked` are the `skipped` ones that were never asked, because this run asks nothing.
    `unmetered` are the `asked` ones of which the backend told no number of tokens, and replies that
    nobody needs; `total_unmetered` has the `stored` ones too. `timed_out` are attempts that no
    reply came to in time: whether they are paid nobody tells.
    `answered_by` counts replies by the model that answered, as far as servers tell.
    `examples` has one message for each kind of failure; `last_failure` is the latest one;
    `last_retry` and `retried_for` are kind and message of the latest attempt that was asked again,
    or "".
    """

    asked: int = 0
    stored: int = 0
    failed: int = 0
    skipped: int = 0
    unasked: int = 0
    needless: int = 0
    retried: int = 0
    truncated: int = 0
    unmetered: int = 0
    total_unmetered: int = 0
    timed_out: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_input_tokens: int = 0
    total_output_tokens: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    answered_by: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    last_retry: str = ""
    retried_for: str = ""
    last_failure: Failure | None = None

    @property
    def ended(self) -> int:
        """Calls that have an outcome, whatever it is."""
        return self.asked + self.stored + self.failed + self.skipped + self.needless

    def count(self, outcome: Outcome, *, stored: bool) -> None:
        """Count one call's end; `stored` says that it was not asked for itself."""
        if isinstance(outcome, Reply):
            self._count_reply(outcome, stored=stored)
        elif isinstance(outcome, Failure):
            self.failed += 1
            self.failures[outcome.kind] += 1
            self.examples.setdefault(outcome.kind, outcome.message)
            self.last_failure = outcome
        elif outcome.reason == "same_text":
            self.needless += 1
        else:
            self.skipped += 1
            self.unasked += outcome.reason == "unasked"

    def count_retry(self, kind: FailureKind, message: str) -> None:
        """Count an attempt that failed, after which the call is asked again."""
        self.retried += 1
        self.last_retry = kind
        self.retried_for = message

    def count_unanswered(self, error: BackendError) -> None:
        """Count what an attempt took that brought no reply."""
        self.timed_out += error.kind == "timeout"
        self.count_paid(error)

    def count_paid(self, told: BackendError | Reply) -> None:
        """Count the tokens of an attempt that brought no reply, or one that nobody needs."""
        self.input_tokens += told.input_tokens or 0
        self.output_tokens += told.output_tokens or 0
        self.total_input_tokens += told.input_tokens or 0
        self.total_output_tokens += told.output_tokens or 0
        is_unmetered = isinstance(told, Reply) and _is_unmetered(told)
        self.unmetered += is_unmetered
        self.total_unmetered += is_unmetered

    def _count_reply(self, reply: Reply, *, stored: bool) -> None:
        self.truncated += reply.finish == "length"
        self.total_input_tokens += reply.input_tokens or 0
        self.total_output_tokens += reply.output_tokens or 0
        is_unmetered = _is_unmetered(reply)
        self.total_unmetered += is_unmetered
        if reply.answered_by is not None:
            self._count_name(reply.answered_by)
        if stored:
            self.stored += 1
            return
        self.asked += 1
        self.unmetered += is_unmetered
        self.input_tokens += reply.input_tokens or 0
        self.output_tokens += reply.output_tokens or 0

    def _count_name(self, name: str) -> None:
        bounds = {name: MOST_NAMES, name.partition(FINGERPRINT)[0]: 2 * MOST_NAMES}
        for counted, most in bounds.items():
            if counted in self.answered_by or len(self.answered_by) < most:
                self.answered_by[counted] += 1
                return
        self.answered_by[OTHERS] += 1


def _is_unmetered(reply: Reply) -> bool:
    return reply.input_tokens is None or reply.output_tokens is None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReason:
    """Why a run stopped by itself, and the failure that was the last to show it, if one did."""

    reason: str
    failure: Failure | None = None

    @property
    def description(self) -> str:
        """All of it, for whoever runs it."""
        return self.reason if self.failure is None else f"{self.reason}: {self.failure.description}"


@dataclass(slots=True, kw_only=True)
class RunStats:
    """A run's counts: plans opened and finished, calls by seat; and why it stopped by itself.

    `planned` are the calls of the plans opened, and the rescues that were needed.
    """

    plans: int = 0
    finished: int = 0
    planned: int = 0
    stop_reason: StopReason | None = None
    seats: dict[str, SeatStats] = field(default_factory=dict)

    def seat(self, name: str) -> SeatStats:
        """The counts of one seat."""
        return self.seats.setdefault(name, SeatStats())

    @property
    def ended(self) -> int:
        """Calls of all seats that have an outcome."""
        return sum(seat.ended for seat in self.seats.values())

    def planned_in(self, plans: int) -> int:
        """Calls of so many plans; those not opened yet count as many as the others on average."""
        unopened = max(0, plans - self.plans)
        return self.planned + round(unopened * self.planned / self.plans if self.plans else 0)

    @property
    def asked(self) -> int:
        """Calls that were sent to a model and answered."""
        return sum(seat.asked for seat in self.seats.values())

    @property
    def replies(self) -> int:
        """Calls that have a reply, asked now or before."""
        return sum(seat.asked + seat.stored for seat in self.seats.values())

    @property
    def answered_by(self) -> dict[str, dict[str, int]]:
        """Replies by seat and the model that answered, of the seats of which that is told."""
        counts = {name: dict(seat.answered_by) for name, seat in self.seats.items()}
        return {name: each for name, each in counts.items() if each}

    @property
    def unasked(self) -> int:
        """Calls that wait for a run that asks."""
        return sum(seat.unasked for seat in self.seats.values())

    @property
    def lost(self) -> int:
        """Calls without a reply: failed, or skipped because of one that failed."""
        return sum(seat.failed + seat.skipped for seat in self.seats.values())


@dataclass(slots=True)
class Throughput:
    """How fast a run gets on, from the calls answered within the last seconds.

    Cached replies do not count: they come at once and say nothing about the model.
    """

    _marks: deque[tuple[float, int]] = field(default_factory=deque)

    def mark(self, now: float, stats: RunStats) -> None:
        """Note what has been counted at a time in seconds."""
        self._marks.append((now, stats.asked))
        while len(self._marks) > 2 and self._marks[1][0] <= now - WINDOW_SECONDS:
            self._marks.popleft()

    @property
    def rate(self) -> float:
        """Answered calls per second."""
        (then, asked), (now, more_asked) = self._marks[0], self._marks[-1]
        return (more_asked - asked) / (now - then) if now > then else 0.0

    def seconds_left(self, stats: RunStats, plans: int) -> float | None:
        """How long the calls of so many plans still take; None if none was answered of late."""
        left = stats.planned_in(plans) - stats.ended
        return left / self.rate if self.rate else None
