"""Models that are asked while a client waits: a call alone for chat, or plans of several.

Calls are counted and measured; a chat's reply is not stored. Plans go through a runner and the
store: what was answered once is not asked again, neither by another request nor by a run, nor what
is under way when the client goes, which is waited for and kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from mmconv.core.errors import ConfigError
from mmconv.core.plans import Finished, Plan
from mmconv.core.run_stats import RunStats
from mmconv.core.types import Failure, Message, Reply, Sampling
from mmconv.engine import Runner, Seat
from mmconv.service.access import Caller
from mmconv.service.errors.problems import Problem
from mmconv.service.http.request_tracing import traced
from mmconv.service.metrics import RunnerMetrics, WorkName
from mmconv.service.models.failures import log_failure, problem_of_failure
from mmconv.service.models.pool import guest
from mmconv.service.state import Service

log = logging.getLogger(__name__)

CANCELLED: Final = "cancelled"
"""The outcome in the metrics of a chat whose client went before there was another."""


async def ask(
    shared: Service,
    caller: Caller,
    model: str,
    messages: tuple[Message, ...],
    sampling: Sampling,
    affinity: str,
) -> Reply:
    """Ask a model by its public name; the messages and sampling are sent as they are.

    The metrics count the call however it ends: as `CANCELLED` where the client goes early, be the
    call under way by then or still waiting for a slot.

    Raises `Problem`: 429 where too many calls of the caller wait, 503 where the model cannot be
    loaded, and for a failure what `mmconv.service.models.failures` says.
    """
    seat = shared.model(model)
    stats = RunStats()
    counts = stats.seat(model)
    try:
        with shared.meters.of(caller.name).calling(caller.limits), telling_unusable(model):
            outcome = await seat.model.ask(
                messages,
                sampling,
                priority=0,
                affinity=affinity,
                pinned=None,
                stats=counts,
            )
        counts.count(outcome, stored=False)
    except asyncio.CancelledError:
        counts.failures[CANCELLED] += 1
        raise
    finally:
        RunnerMetrics(shared.metrics, "chat", {model: model}, caller.name).tell(stats)
    if isinstance(outcome, Failure):
        log_failure(model, outcome.kind, outcome.message)
        raise problem_of_failure(outcome, "messages")
    return outcome


async def run_plans(
    shared: Service,
    caller: Caller,
    seats: Mapping[str, Seat],
    names: Mapping[str, str],
    plans: Sequence[Plan],
    work: WorkName,
) -> list[Finished]:
    """Run the plans to their ends; `names` are the public names of the models on the seats.

    The metrics count the calls as those of this `work`, also where the client goes early.

    Raises `Problem`: 429 where too many calls of the caller wait, 503 for a model that cannot be
    loaded. A call that fails is an outcome, and of each kind of failure one is logged. Cancelled
    once, it asks nothing more and ends when the calls under way have; until then all calls of the
    plans count for the caller. Cancelled again, it ends at once.
    """
    finished: list[Finished] = []
    own = {name: guest(seat) for name, seat in seats.items()}
    runner = Runner(own, shared.store, window=len(plans), goes_on=True)
    calls = sum(len(plan.calls) for plan in plans)
    meter = shared.meters.of(caller.name)
    try:
        with meter.calling(caller.limits, calls), telling_unusable(*names.values()):
            running = asyncio.create_task(runner.run(plans, finished.append))
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                runner.stop()
                await running
                raise
    finally:
        RunnerMetrics(shared.metrics, work, names, caller.name).tell(runner.stats)
        for seat, counts in runner.stats.seats.items():
            for kind, message in counts.examples.items():
                log_failure(names[seat], kind, message)
    return finished


@contextmanager
def telling_unusable(*models: str) -> Iterator[None]:
    """Raise `Problem` 503 where one of the models that are asked within cannot be loaded."""
    try:
        yield
    except ConfigError as error:
        log.error("%s: of %s, one cannot be opened: %s", traced(), ", ".join(models), error)
        raise Problem(
            503, "a model cannot be loaded; the server's log says why", code="model_unusable"
        ) from error
