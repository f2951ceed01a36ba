"""Models as requests use them: calls while a client waits, and their failures.

Calls are counted and measured. A chat's reply is not cached. Plans go through a runner and the
store, so a call that was answered is not requested again, even if the client left before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, cast

from mmconv.api import VerdictState
from mmconv.core.errors import ConfigError, FailureKind
from mmconv.core.plans import Finished, Plan
from mmconv.core.protocols import Listen
from mmconv.core.run_stats import RunStats
from mmconv.core.types import Failure, Message, Outcome, Reply, Sampling, Skipped
from mmconv.engine import RoleModel, Runner
from mmconv.service.access import Caller
from mmconv.service.errors import Problem, presentable
from mmconv.service.metrics import RunnerMetrics, WorkName
from mmconv.service.state import Service
from mmconv.service.tracing import traced

log = logging.getLogger(__name__)

CANCELLED: Final = "cancelled"
"""The outcome in the metrics of a chat whose client left before another outcome."""


async def ask(  # noqa: PLR0913 - a call, and who listens
    shared: Service,
    caller: Caller,
    model: str,
    messages: tuple[Message, ...],
    sampling: Sampling,
    affinity: str,
    listen: Listen | None = None,
) -> Reply:
    """Call a model by its public name, with the messages and sampling as they are.

    The metrics count the call however it ends, also as `CANCELLED`. Raises `Problem`: 429 if too
    many calls of the caller wait, 503 if the model cannot be loaded, and `problem_of_failure`.
    """
    role = shared.model(model)
    stats = RunStats()
    counts = stats.model(model)
    try:
        with shared.meters[caller.name].calling(caller.limits), _loadable(model):
            outcome = await role.model.ask(
                messages,
                sampling,
                priority=0,
                affinity=affinity,
                pinned=None,
                stats=counts,
                listen=listen,
            )
        counts.count(outcome, cached=False)
    except asyncio.CancelledError:
        counts.failures[CANCELLED] += 1
        raise
    finally:
        RunnerMetrics(shared.metrics, "chat", {model: model}, caller.name).update(stats)
    if isinstance(outcome, Failure):
        _log_failure(model, outcome.kind, outcome.message)
        raise problem_of_failure(outcome, "messages")
    return outcome


async def run_plans(
    shared: Service,
    caller: Caller,
    models: Mapping[str, RoleModel],
    names: Mapping[str, str],
    plans: Sequence[Plan],
    work: WorkName,
) -> list[Finished]:
    """Run the plans to their ends; `names` are the public names of the models by role.

    A role whose replies are all in the plans needs no name.
    Raises `Problem`: 429 if too many calls of the caller wait, 503 for a model that cannot be
    loaded. A call that fails is an outcome, and one failure of each kind is logged. Cancelled once,
    it makes no new calls and ends when the calls under way have ended; until then all calls of the
    plans count for the caller. Cancelled again, it ends at once.
    """
    finished: list[Finished] = []
    own = {name: replace(role, model=role.model.guest()) for name, role in models.items()}
    runner = Runner(own, shared.store, window=len(plans), goes_on=True)
    calls = sum(len(plan.calls) - len(plan.replies) for plan in plans)
    try:
        with shared.meters[caller.name].calling(caller.limits, calls), _loadable(*names.values()):
            running = asyncio.create_task(runner.run(plans, finished.append))
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                runner.stop()
                await running
                raise
    finally:
        RunnerMetrics(shared.metrics, work, names, caller.name).update(runner.stats)
        for role, counts in runner.stats.models.items():
            for kind, message in counts.examples.items():
                _log_failure(names[role], kind, message)
    return finished


def check_answered(finished: list[Finished]) -> None:
    """Raise the first failure as a `Problem` if no call that was made has a reply."""
    outcomes = [
        outcome
        for result in finished
        for call_id, outcome in result.outcomes.items()
        if call_id not in result.plan.replies
    ]
    if any(isinstance(outcome, Reply) for outcome in outcomes):
        return
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            raise problem_of_failure(outcome)


@contextmanager
def _loadable(*models: str) -> Iterator[None]:
    """Raise `Problem` 503 if one of the models called within cannot be loaded."""
    try:
        yield
    except ConfigError as error:
        log.error("%s: of %s, one cannot be opened: %s", traced(), ", ".join(models), error)
        message = "a model cannot be loaded; the server's log says why"
        raise Problem(503, message, code="model_unusable") from error


FAILED: Mapping[FailureKind, tuple[int, str]] = {
    "timeout": (504, "the model did not answer in time"),
    "connection": (502, "the model could not be reached"),
    "rate_limit": (503, "the model's server is busy; ask again later"),
    "server": (502, "the model's server failed"),
    "malformed": (502, "the model's server sent an invalid response"),
    "authentication": (502, "the model's server does not accept the key that it is sent"),
    "forbidden": (400, "the model's server does not allow the request"),
    "quota": (502, "the quota at the model's server is used up"),
    "not_found": (502, "the model's server does not have the model"),
    "context": (400, "the messages are longer than the model's context"),
    "filter": (400, "a content filter held the answer back"),
    "rejected": (400, "the model refused the request"),
    "memory": (400, "the request does not fit into the model's memory"),
    "image": (400, "an image of the request cannot be read"),
}
"""How a model failed -> the status, and a message that exposes nothing of this machine."""

CODES: Mapping[FailureKind, str] = {
    "context": "context_length_exceeded",
    "filter": "content_filter",
}
"""OpenAI's codes for failures. For other kinds the kind is the code."""


def problem_of_failure(failure: Failure, param: str | None = None) -> Problem:
    """The error for a model that did not answer; `param` is the field that the model reads."""
    status, _ = FAILED[failure.kind]
    message = words_of_failure(failure.kind, failure.message)
    code = CODES.get(failure.kind, failure.kind)
    if status < 500:
        return Problem(status, message, param=param, code=code)
    return Problem(status, message, code=code, retry_after=10 if status == 503 else None)


def words_of_failure(kind: FailureKind, message: str) -> str:
    """The failure's message for clients: the model's own words if they are about the request.

    What a server or a connection says exposes this machine.
    """
    status, words = FAILED[kind]
    return words if status >= 500 else presentable(message, words)


def _log_failure(model: str, kind: str, message: str) -> None:
    """Log a failure whose message the client does not get: the request did not cause it."""
    if FAILED[cast("FailureKind", kind)][0] >= 500:
        log.warning("%s: the model %s failed (%s): %s", traced(), model, kind, message)


def presentable_outcomes(finished: Finished) -> dict[str, Outcome]:
    """The outcomes by call id, with the messages of failures as clients may see them."""
    return {
        call_id: replace(outcome, message=words_of_failure(outcome.kind, outcome.message))
        if isinstance(outcome, Failure)
        else outcome
        for call_id, outcome in finished.outcomes.items()
    }


def verdict_state(outcome: Outcome, *, is_read: bool) -> VerdictState:
    """The state of a judgement whose request ended like this."""
    match outcome:
        case Failure():
            return "failed"
        case Skipped():
            return "skipped"
    return "parsed" if is_read else "unparsed"
