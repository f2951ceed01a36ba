"""Plans that are carried out while a client waits, through a runner and the store.

So what was answered once is not asked again, neither by another request nor by a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mmconv.plans import Finished, Plan
from mmconv.runner import Runner, Seat
from mmconv.service.access import Caller
from mmconv.service.asking import telling_unusable
from mmconv.service.metrics import RunnerMetrics, WorkName
from mmconv.service.model_failures import log_failure
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
    loaded. A call that fails is an outcome, and of each kind of failure one is logged.
    """
    finished: list[Finished] = []
    runner = Runner(seats, shared.store, window=len(plans), goes_on=True)
    calls = sum(len(plan.calls) for plan in plans)
    meter = shared.meters.of(caller.name)
    try:
        with meter.calling(caller.limits, calls), telling_unusable(*names.values()):
            await runner.run(plans, finished.append)
    finally:
        RunnerMetrics(shared.metrics, work, names, caller.name).tell(runner.tally)
        for seat, counts in runner.tally.seats.items():
            for kind, message in counts.examples.items():
                log_failure(names[seat], kind, message)
    return finished
