"""One plan under way: which of its calls can start, and what has come of the others.

A call starts when everything that it refers to has replied; a rescue when the reply before it gives
no whole verdict. How a call is found or asked is the runner's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from judges import is_settled
from mmconv.core.errors import PlanError
from mmconv.core.graph import chain_lengths, check, dependencies, is_needless
from mmconv.core.plans import Finished, Plan, ResolvedCall
from mmconv.core.types import SAME_TEXT, Call, Failure, Outcome, Reply, Skipped
from mmconv.engine.limiter import Stopped

if TYPE_CHECKING:
    from mmconv.engine.driver import Runner


@dataclass(slots=True)
class OpenPlan:
    """A plan whose calls are tasks of `group`; `on_finished` gets it at its end.

    `unmet` tells which calls each waits for, `waiting` which wait for it.
    """

    plan: Plan
    runner: Runner
    group: asyncio.TaskGroup
    on_finished: Callable[[Finished], None]
    left: int = 0
    replies: dict[str, Reply] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    asked: dict[str, ResolvedCall] = field(default_factory=dict)
    unmet: dict[str, set[str]] = field(default_factory=dict)
    waiting: dict[str, list[Call]] = field(default_factory=dict)
    chains: Mapping[str, int] = field(default_factory=dict)

    def start(self) -> None:
        """Start the calls that wait for none; raises `PlanError` for a plan that cannot be done."""
        try:
            calls = check(self.plan.calls)
        except PlanError as error:
            where = f"sample {self.plan.sample}, {self.plan.condition}"
            raise PlanError(f"{where}: {error}") from error
        self.left = len(calls)
        self.runner.stats.planned += len(calls)
        needs = {call.id: dependencies(call) for call in calls}
        self.chains = chain_lengths(needs)
        for call in calls:
            self.unmet[call.id] = set(needs[call.id])
            for need in needs[call.id]:
                self.waiting.setdefault(need, []).append(call)
        if not calls:
            self._finish()
        for call in calls:
            if not self.unmet[call.id]:
                self._launch(call, call)

    def _launch(self, call: Call, root: Call) -> None:
        """Start a call, or a rescue of the call `root`, whose needs are met."""
        self.group.create_task(self._see_through(call, root))

    async def _see_through(self, call: Call, root: Call) -> None:
        try:
            await self._answer(call, root)
        except Stopped:
            return
        except Exception as error:  # noqa: BLE001 - the run ends by it
            self.runner.end_by(error)

    async def _answer(self, call: Call, root: Call) -> None:
        """Find or ask a call; raises `Stopped` where the run is stopped before that is done."""
        if is_needless(call, self.replies):
            self._settle(call, Skipped(because=SAME_TEXT, reason="same_text"), stored=False)
            self._count_down()
            return
        asked = self.runner.address(call, self.replies)
        outcome, stored = await self.runner.outcome(self.plan, asked, self.chains[root.id])
        self.asked[call.id] = asked.as_cached() if stored else asked
        self._settle(call, outcome, stored=stored)
        fallback = _next_fallback(call, root, outcome)
        if fallback is None:
            self._count_down()
        else:
            self.runner.stats.planned += 1
            self._launch(fallback, root)

    def _settle(self, call: Call, outcome: Outcome, *, stored: bool) -> None:
        self.outcomes[call.id] = outcome
        self.runner.count(call.seat, outcome, stored=stored)
        if not isinstance(outcome, Reply):
            self._skip_behind(call, outcome)
            return
        self.replies[call.id] = outcome
        for dependent in self.waiting.get(call.id, ()):
            self.unmet[dependent.id].discard(call.id)
            if not self.unmet[dependent.id]:
                self._launch(dependent, dependent)

    def _skip_behind(self, call: Call, outcome: Failure | Skipped) -> None:
        """Skip all that waits for a call without a reply, however long the chain is."""
        lost = outcome if isinstance(outcome, Skipped) else Skipped(because=call.id)
        behind = [*self.waiting.get(call.id, ())]
        while behind:
            dependent = behind.pop()
            if dependent.id not in self.outcomes:
                self.outcomes[dependent.id] = lost
                self.runner.count(dependent.seat, lost, stored=False)
                self._count_down()
                behind += self.waiting.get(dependent.id, ())

    def _count_down(self) -> None:
        self.left -= 1
        if self.left == 0:
            self._finish()

    def _finish(self) -> None:
        self.runner.stats.finished += 1
        self.runner.close_plan()
        if not self.runner.is_failing:  # else nobody uses it, and what is done with it may fail too
            self.on_finished(Finished(plan=self.plan, outcomes=self.outcomes, asked=self.asked))


def _next_fallback(call: Call, root: Call, outcome: Outcome) -> Call | None:
    """The rescue to ask after `call`, if its reply gives no whole verdict and one is left."""
    if call.parser is None or not root.fallbacks:
        return None
    if is_settled(call, outcome) if isinstance(outcome, Reply) else call is root:
        return None
    position = 0 if call is root else root.fallbacks.index(call) + 1
    return root.fallbacks[position] if position < len(root.fallbacks) else None
