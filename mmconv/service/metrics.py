"""What a process counts: metrics for Prometheus, and the use of each token against its limits."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, TypeAlias

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
)

from mmconv.core.run_stats import RunStats
from mmconv.service.errors import Problem
from mmconv.service.settings import Allowance
from mmconv.store.jobs import ACTIVE, Backlog

SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""The upper bounds of the buckets of times."""

WorkName: TypeAlias = Literal["chat", "dialogue", "judgement", "run"]
"""What calls to models are made for. A dialogue is one whether or not it became a job."""

METHODS = frozenset({"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"})


class Metrics:
    """Counters and histograms by route, status, work, model and token, and of the process itself.

    Labels never hold what a client sent, so their number is bounded. Tokens appear by name.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "mmconv_requests",
            "Requests by route, method and status.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "mmconv_request_seconds",
            "Seconds from a request's head to the end of its response.",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.open = Gauge("mmconv_open_requests", "Requests under way.", registry=self.registry)
        self.calls = Counter(
            "mmconv_calls",
            "Calls to models by outcome: reply, the kind of failure, or cancelled (a chat whose "
            "client left).",
            ("work", "model", "token", "outcome"),
            registry=self.registry,
        )
        self.tokens = Counter(
            "mmconv_tokens",
            "Tokens of those calls, as models count them, and of their attempts without a reply.",
            ("work", "model", "token", "direction"),
            registry=self.registry,
        )
        self.jobs = Gauge(
            "mmconv_queue_jobs",
            "Jobs in the database that are queued or running at any server; none if it is away.",
            ("work", "state"),
            registry=self.registry,
        )
        self.oldest = Gauge(
            "mmconv_queue_oldest_seconds",
            "How long the oldest queued job has waited; 0 if none is queued.",
            ("work",),
            registry=self.registry,
        )

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that ended; `route` is its pattern, 499 a client that left early."""
        self.requests.labels(route, method if method in METHODS else "other", status).inc()
        self.seconds.labels(route).observe(seconds)

    def show_backlog(self, kinds: Iterable[str], backlog: Mapping[str, Backlog] | None) -> None:
        """Show how many jobs of these kinds there are; None if unknown."""
        self.jobs.clear()
        self.oldest.clear()
        if backlog is None:
            return
        for kind in kinds:
            known = backlog.get(kind, Backlog())
            for state in ACTIVE:
                self.jobs.labels(kind, state).set(getattr(known, state))
            self.oldest.labels(kind).set(known.oldest_seconds)


class RunnerMetrics:
    """Adds to the metrics what a runner, or a chat, has counted since the last time.

    `names` are the public names of its models, by role.
    """

    def __init__(
        self, metrics: Metrics, work: WorkName, names: Mapping[str, str], token: str
    ) -> None:
        self._metrics = metrics
        self._work = work
        self._token = token
        self._names = names
        self._counted: dict[tuple[str, str], int] = {}

    def update(self, stats: RunStats) -> None:
        """Count the calls that have ended since the last update."""
        for role, counts in stats.models.items():
            if role not in self._names:  # its replies came with the request
                continue
            for outcome, calls in {"reply": counts.requested, **counts.failures}.items():
                self._add(self._metrics.calls, role, outcome, calls)
            self._add(self._metrics.tokens, role, "input", counts.session.input)
            self._add(self._metrics.tokens, role, "output", counts.session.output)

    def _add(self, counter: Counter, role: str, label: str, count: int) -> None:
        before = self._counted.get((role, label), 0)
        self._counted[role, label] = count
        counter.labels(self._work, self._names[role], self._token, label).inc(count - before)


BUSY_SECONDS = 2.0
"""`Retry-After` for a token with too many calls or watchers."""


class Meter:
    """The use of one token by requests to this process.

    Requests are counted as a bucket that holds a minute's allowance and fills at its rate. Runs are
    counted in the queue, stored bytes by `images.uploads`.
    """

    def __init__(self) -> None:
        self._left: float | None = None
        self._updated = 0.0
        self.calls = 0
        self.watchers = 0

    def count_request(self, limits: Allowance) -> None:
        """Count a request. Raises `Problem` 429 above the token's requests per minute."""
        allowed = limits.requests_per_minute
        if allowed is None:
            return
        now = time.monotonic()
        rate = allowed / 60
        left = allowed if self._left is None else self._left + (now - self._updated) * rate
        self._updated, self._left = now, min(float(allowed), left)
        if self._left < 1:
            raise Problem(
                429,
                f"this token may send {allowed} requests per minute",
                code="rate_limit_exceeded",
                retry_after=(1 - self._left) / rate,
            )
        self._left -= 1

    @contextmanager
    def calling(self, limits: Allowance, calls: int = 1) -> Iterator[None]:
        """Count calls to models while they wait or run. Raises `Problem` 429 for too many."""
        if self.calls + calls > limits.queued_calls:
            raise _busy(
                f"{self.calls} calls of this token wait already, and at most "
                f"{limits.queued_calls} may",
                "queue_full",
            )
        self.calls += calls
        try:
            yield
        finally:
            self.calls -= calls

    @contextmanager
    def watching(self, limits: Allowance) -> Iterator[None]:
        """Count a request while it watches a job. Raises `Problem` 429 for too many."""
        if self.watchers >= limits.watchers:
            message = f"{self.watchers} requests of this token watch or wait for jobs already"
            raise _busy(f"{message}, and no more may", "too_many_watchers")
        self.watchers += 1
        try:
            yield
        finally:
            self.watchers -= 1


def _busy(message: str, code: str) -> Problem:
    return Problem(429, message, code=code, retry_after=BUSY_SECONDS)
