"""How a model is asked for a synchronous request: counted, measured, and answered or refused.

Replies are not stored here. What goes through a runner (dialogues, judgements, runs) does not come
this way.
"""

from __future__ import annotations

import logging

from mmconv.errors import ConfigError
from mmconv.service.access import Caller
from mmconv.service.problems import Problem, problem_of_failure
from mmconv.service.state import Service
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
    with shared.meters.of(caller.name).calling(caller.limits):
        try:
            outcome = await seat.model.ask(
                messages,
                sampling,
                priority=0,
                affinity=affinity,
                pinned=None,
                tally=SeatTally(),
            )
        except ConfigError as error:
            log.error("model %s cannot be opened: %s", model, error)
            raise Problem(
                503, "the model cannot be loaded; the server's log says why", code="model_unusable"
            ) from error
    shared.metrics.count_call(model, outcome)
    if isinstance(outcome, Failure):
        raise problem_of_failure(outcome)
    return outcome
