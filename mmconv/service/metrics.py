"""What Prometheus is told: requests, calls to models, images. One registry for each application.

A part of the service that has more to tell makes its own metrics in `Metrics.registry`.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from mmconv.values import Failure, Reply

SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""The upper bounds of the buckets of times."""

METHODS = frozenset({"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"})


class Metrics:
    """Counters and histograms by route, status and model; labels never hold what a client sent."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
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
            "Calls to models of synchronous requests, by how they ended.",
            ("model", "outcome"),
            registry=self.registry,
        )
        self.tokens = Counter(
            "mmconv_tokens",
            "Tokens of those calls, as models count them.",
            ("model", "direction"),
            registry=self.registry,
        )
        self.uploaded = Counter(
            "mmconv_uploaded_bytes", "Bytes of images that were kept.", registry=self.registry
        )

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that ended; `route` is its pattern, 499 a client that went early."""
        self.requests.labels(route, method if method in METHODS else "other", status).inc()
        self.seconds.labels(route).observe(seconds)

    def count_call(self, model: str, outcome: Reply | Failure) -> None:
        """Count how a call to a model ended; `model` is its public name."""
        if isinstance(outcome, Failure):
            self.calls.labels(model, outcome.kind).inc()
            return
        self.calls.labels(model, "reply").inc()
        self.tokens.labels(model, "input").inc(outcome.input_tokens or 0)
        self.tokens.labels(model, "output").inc(outcome.output_tokens or 0)

    def page(self) -> bytes:
        """The page that Prometheus scrapes."""
        return generate_latest(self.registry)
