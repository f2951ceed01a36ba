"""Plans that are carried out while a client waits, through a runner and the store.

So what was answered once is not asked again, neither by another request nor by a run: nor what is
under way when the client goes, which is waited for and kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from mmconv.plans import Finished, Plan
from mmconv.runner import Runner, Seat
from mmconv.service.access import Caller
from mmconv.service.asking import telling_unusable
from mmconv.service.metrics import RunnerMetrics, WorkName
from mmconv.service.model_failures import log_failure
from mmconv.service.models import guest
from mmconv.service.state import Service


async def carry_out(
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
    once, it asks nothing more and ends when the calls under way have, which count for the caller no
    longer; cancelled again, it ends at once.
    """
    finished: list[Finished] = []
    own = {name: guest(seat) for name, seat in seats.items()}
    runner = Runner(own, shared.store, window=len(plans), goes_on=True)
    calls = sum(len(plan.calls) for plan in plans)
    meter = shared.meters.of(caller.name)
    running: asyncio.Task[bool] | None = None
    try:
        with meter.calling(caller.limits, calls), telling_unusable(*names.values()):
            running = asyncio.create_task(runner.run(plans, finished.append))
            await asyncio.shield(running)
    except asyncio.CancelledError:
        if running is not None:
            runner.stop()
            await running
        raise
    finally:
        RunnerMetrics(shared.metrics, work, names, caller.name).tell(runner.tally)
        for seat, counts in runner.tally.seats.items():
            for kind, message in counts.examples.items():
                log_failure(names[seat], kind, message)
    return finished
