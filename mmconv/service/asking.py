"""How a model is asked for a synchronous request: counted, measured, and answered or refused.

Replies are not stored here. What goes through a runner (dialogues, judgements, runs) does not come
this way.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from mmconv.errors import ConfigError
from mmconv.service.access import Caller
from mmconv.service.model_failures import log_failure, problem_of_failure
from mmconv.service.problems import Problem
from mmconv.service.state import Service
from mmconv.service.tracing import traced
from mmconv.tally import SeatTally
from mmconv.values import Failure, Message, Reply, Sampling

log = logging.getLogger(__name__)


async def ask(
    shared: Service,
    caller: Caller,
    model: str,
    messages: tuple[Message, ...],
    sampling: Sampling,
    affinity: str,
) -> Reply:
    """Ask a model by its public name; the messages and sampling are sent as they are.

    Raises `Problem`: 429 where too many calls of the caller wait, 503 where the model cannot be
    loaded, and for a failure what `mmconv.service.problems` says.
    """
    seat = shared.model(model)
    with shared.meters.of(caller.name).calling(caller.limits), telling_unusable(model):
        outcome = await seat.model.ask(
            messages,
            sampling,
            priority=0,
            affinity=affinity,
            pinned=None,
            tally=SeatTally(),
        )
    shared.metrics.count_chat(model, caller.name, outcome)
    if isinstance(outcome, Failure):
        log_failure(model, outcome.kind, outcome.message)
        raise problem_of_failure(outcome, "messages")
    return outcome


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
