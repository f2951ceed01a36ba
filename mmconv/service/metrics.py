"""What Prometheus is told: requests, calls to models, jobs, images. One registry an application.

A part of the service that has more to tell makes its own metrics in `Metrics.registry`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from mmconv.core.run_stats import RunStats
from mmconv.store.jobs import ACTIVE, Backlog

SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""The upper bounds of the buckets of times."""

WorkName: TypeAlias = Literal["chat", "dialogue", "judgement", "run"]
"""What calls to models are made for; a dialogue is one whether or not it became a job."""

METHODS = frozenset({"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"})


class Metrics:
    """Counters and histograms by route, status, work, model and token, and of the process itself.

    Labels never hold what a client sent, so there are only so many. A token is told by its name.
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
            "Seconds from a request's head to the end of its answer.",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.open = Gauge("mmconv_open_requests", "Requests under way.", registry=self.registry)
        self.calls = Counter(
            "mmconv_calls",
            "Calls to models, by how they ended: reply, the kind of failure, or cancelled (a chat "
            "whose client went).",
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
            "Jobs in the database that wait or are under way at any server; none if it is away.",
            ("work", "state"),
            registry=self.registry,
        )
        self.oldest = Gauge(
            "mmconv_queue_oldest_seconds",
            "How long the job has waited that waits longest; 0 where none waits.",
            ("work",),
            registry=self.registry,
        )
        self.uploaded = Counter(
            "mmconv_uploaded_bytes", "Bytes of images that were kept.", registry=self.registry
        )

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that ended; `route` is its pattern, 499 a client that went early."""
        self.requests.labels(route, method if method in METHODS else "other", status).inc()
        self.seconds.labels(route).observe(seconds)

    def show_backlog(self, kinds: Iterable[str], backlog: Mapping[str, Backlog] | None) -> None:
        """Show how many jobs of these kinds there are; None where that cannot be told."""
        self.jobs.clear()
        self.oldest.clear()
        if backlog is None:
            return
        for kind in kinds:
            known = backlog.get(kind, Backlog())
            for state in ACTIVE:
                self.jobs.labels(kind, state).set(getattr(known, state))
            self.oldest.labels(kind).set(known.oldest_seconds)

    def page(self) -> bytes:
        """The page that Prometheus scrapes."""
        return generate_latest(self.registry)


class RunnerMetrics:
    """What the metrics have been told of one runner, or of a chat, at work for a `token`.

    `names` are its models' public ones, by seat.
    A runner counts for itself, and tells what it has counted as often as one likes to look.
    """

    def __init__(
        self, metrics: Metrics, work: WorkName, names: Mapping[str, str], token: str
    ) -> None:
        self._metrics = metrics
        self._work = work
        self._token = token
        self._names = names
        self._told: dict[tuple[str, str], int] = {}

    def tell(self, stats: RunStats) -> None:
        """Count the calls that were asked and have ended since the last time."""
        for seat, counts in stats.seats.items():
            for outcome, calls in {"reply": counts.asked, **counts.failures}.items():
                self._add(self._metrics.calls, seat, outcome, calls)
            self._add(self._metrics.tokens, seat, "input", counts.input_tokens)
            self._add(self._metrics.tokens, seat, "output", counts.output_tokens)

    def _add(self, counter: Counter, seat: str, what: str, now: int) -> None:
        before = self._told.get((seat, what), 0)
        self._told[seat, what] = now
        counter.labels(self._work, self._names[seat], self._token, what).inc(now - before)
