"""How a model's failure is told: to who waits for its answer, and to the owner of a job."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import cast

from mmconv.core.errors import FailureKind
from mmconv.core.run_stats import StopReason
from mmconv.core.types import Failure
from mmconv.service.errors.privacy import presentable, without_runs
from mmconv.service.errors.problems import Problem
from mmconv.service.http.request_tracing import traced

log = logging.getLogger(__name__)

FAILED: Mapping[FailureKind, tuple[int, str]] = {
    "timeout": (504, "the model did not answer in time"),
    "connection": (502, "the model could not be reached"),
    "rate_limit": (503, "the model's server is busy; ask again later"),
    "server": (502, "the model's server failed"),
    "malformed": (502, "the model's server sent what is no answer"),
    "authentication": (502, "the model's server does not accept the key that it is sent"),
    "forbidden": (400, "the model's server does not allow the request"),
    "quota": (502, "what was paid for at the model's server is used up"),
    "not_found": (502, "the model's server does not have the model"),
    "context": (400, "the messages are longer than the model's context"),
    "filter": (400, "a content filter held the answer back"),
    "rejected": (400, "the model refused the request"),
    "memory": (400, "the request does not fit into the model's memory"),
    "image": (400, "an image of the request cannot be read"),
}
"""How a model failed -> the status, and what a client is told where our own words would not do."""

CODES: Mapping[FailureKind, str] = {
    "context": "context_length_exceeded",
    "filter": "content_filter",
}
"""OpenAI's own words for failures, where it has one; else the kind is the code."""


def problem_of_failure(failure: Failure, param: str | None = None) -> Problem:
    """What a client is told of a model that did not answer; `param` is what the model has read."""
    status, _ = FAILED[failure.kind]
    words = without_runs(words_of_failure(failure.kind, failure.message))
    code = CODES.get(failure.kind, failure.kind)
    if status < 500:
        return Problem(status, words, param=param, code=code)
    return Problem(status, words, code=code, retry_after=10 if status == 503 else None)


def log_failure(model: str, kind: str, message: str) -> None:
    """Log why a model, by its public name, did not answer a request, where its client is not told.

    That is where the fault is not the request's.
    """
    if FAILED[cast("FailureKind", kind)][0] >= 500:
        log.warning("%s: the model %s failed (%s): %s", traced(), model, kind, message)


def words_of_failure(kind: FailureKind, message: str) -> str:
    """Why a model failed, as clients may know it: its own words where they are about the request.

    What a server or a connection says tells of this machine.
    """
    status, words = FAILED[kind]
    return words if status >= 500 else presentable(message, words)


def words_of_halt(stop_reason: StopReason, job: str) -> str:
    """Why the job of this id stopped by itself, as its owner may know it; all of it is logged."""
    log.warning("%s: %s", job, stop_reason.description)
    failure = stop_reason.failure
    if failure is None:
        return stop_reason.reason
    return f"{stop_reason.reason}: {words_of_failure(failure.kind, failure.message)}"
