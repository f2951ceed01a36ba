"""The driver: runs plans, requests the calls that are not cached, returns finished plans.

A call starts when everything that it refers to has a reply. It is looked up in the cache, requested
on a miss, and committed before any call that depends on it starts. Equal calls under way at the
same time are one request, whichever runner of the store sends it. Plans are opened lazily, so
memory does not grow with their number.

A model's error is a `Failure`, and the calls that depend on it are `Skipped`. Any other exception
is a bug and stops the run; replies of calls under way are still cached. A model that cannot answer
stops the run too. A run without a single reply is never complete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from judges import is_settled
from mmconv.core.errors import MmconvError, PlanError
from mmconv.core.graph import chain_lengths, check, is_needless, resolve
from mmconv.core.keys import content_key
from mmconv.core.plans import Finished, Plan, ResolvedCall
from mmconv.core.run_stats import RunStats, StopReason
from mmconv.core.types import SAME_TEXT, UNASKED, Call, Failure, Outcome, Reply, Skipped
from mmconv.core.user_code import noted
from mmconv.engine.circuit_breaker import CircuitBreaker
from mmconv.engine.limiter import Stopped
from mmconv.engine.model import RoleModel

if TYPE_CHECKING:
    # it imports sqlalchemy, which a chat does not need
    from mmconv.store import Store

Result = TypeVar("Result")

_LOGGER = logging.getLogger(__name__)

OPEN_PLANS = 64
"""Minimum number of open plans: enough to look up many replies in one query."""

LEAD = 10
"""Head start of a call, in plans, for each call in the chain that depends on it.

Older plans go first, so that they end and make room. But long chains must begin early, or the end
of a run waits for a few of them while most of the concurrency is unused.
"""


class _Elsewhere(Exception):
    """Another process requests the call, or has done so already; then `reply` is set."""

    def __init__(self, reply: Reply | None) -> None:
        super().__init__()
        self.reply = reply


class Runner:
    """Runs plans against roles and a store. Create it inside its event loop.

    - `offline`: request nothing. A call that is not cached failed before, or was never requested.
    - `window`: open plans at once, until models are opened whose concurrency is higher.
    - `before_asking` is called once, before the first request; an exception ends the run.
    - `goes_on`: do not stop when a model cannot answer (`mmconv.engine.circuit_breaker`). That is
      for runs that share their models with others, which a stop would end too.
    - `enough` may be set: it is called after each request, and a text that it returns is the reason
      why the run stops.
    """

    def __init__(
        self,
        models: Mapping[str, RoleModel],
        store: Store,
        *,
        window: int = OPEN_PLANS,
        offline: bool = False,
        before_asking: Callable[[], None] | None = None,
        goes_on: bool = False,
    ) -> None:
        self._models = models
        self._store = store
        self._window = window
        self._room = asyncio.Semaphore(window)
        self._slots: dict[int, int] = {}
        self.offline = offline
        self._before_asking = before_asking
        self._goes_on = goes_on
        self._breaker = CircuitBreaker()
        self.enough: Callable[[], str | None] | None = None
        self._errors: list[Exception] = []
        self._under_way = 0
        self._extra_plans = 0
        self._stopping: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.stats = RunStats()

    async def run(self, plans: Iterable[Plan], on_finished: Callable[[Finished], None]) -> bool:
        """Run all plans; `on_finished` gets each as it ends, in any order.

        Returns whether the run is complete: False if `stop` ended it early, or the run itself did
        (`stats.halt` has the reason). Exceptions other than a model's failure are raised once the
        replies of calls under way are cached; `on_finished` gets no more plans after the first.
        Raises `RuntimeError` if a call was cancelled from outside, so that its plan has no end.
        """
        taken_in = False
        try:
            async with asyncio.TaskGroup() as group:
                try:
                    taken_in = await self._open(plans, group, on_finished)
                except Exception as error:  # noqa: BLE001 - raised once calls under way are kept
                    self.end_by(error)
        except BaseExceptionGroup as failed:  # not an `Exception`, such as the panic of a library
            raise failed.exceptions[0] from None
        if self._errors:
            bugs = [error for error in self._errors if not isinstance(error, MmconvError)]
            raise (bugs or self._errors)[0]
        lost = self.stats.plans - self.stats.finished
        if self._stopping.done() and (lost or not taken_in):
            stopped = self.stats.stop_reason
            if stopped and not stopped.failure and self.enough and (reason := self.enough()):
                # now with the calls that were under way when the run was stopped
                self.stats.stop_reason = StopReason(reason=reason)
            return False
        if lost:
            raise RuntimeError(f"{lost} plans have no end: their calls were cancelled")
        if self.stats.stop_reason is not None and self.stats.stop_reason.failure is not None:
            return False  # a model cannot answer; later it may
        self.stats.stop_reason = None if self.offline or self._goes_on else self._unanswered()
        return self.stats.stop_reason is None

    async def _open(
        self,
        plans: Iterable[Plan],
        group: asyncio.TaskGroup,
        on_finished: Callable[[Finished], None],
    ) -> bool:
        for plan in plans:
            await self._room.acquire()
            if self._stopping.done():
                return False
            self.stats.plans += 1
            _OpenPlan(plan, self, group, on_finished).start()
            # Opening plans takes a while; let the first calls go out in the meantime.
            await asyncio.sleep(0)
        return True

    @property
    def is_failing(self) -> bool:
        """Whether an error is ending the run, which still waits for calls under way."""
        return bool(self._errors)

    def end_by(self, error: Exception) -> None:
        """Request nothing more, and raise this error once the replies under way are cached."""
        if not self._errors and self._under_way:
            message = "%s ends the run; waiting for the calls under way to cache their replies"
            _LOGGER.warning(message, type(error).__name__)
        self._errors.append(error)
        self.stop()

    def _unanswered(self) -> StopReason | None:
        if self.stats.replies or not self.stats.lost:
            return None
        last = (role.last_failure for role in self.stats.models.values())
        return StopReason(reason="no call was answered", failure=next(filter(None, last), None))

    def stop(self) -> None:
        """Request nothing more; wait for calls under way. Safe to call from a signal handler."""
        if not self._stopping.done():
            self._stopping.set_result(None)
        for role in self._models.values():
            role.model.stop()
        self._room.release()

    def close_plan(self) -> None:
        """Make room for the next plan."""
        if self._extra_plans:
            self._extra_plans -= 1
        else:
            self._room.release()

    async def outcome(
        self, plan: Plan, resolved: ResolvedCall, chain: int, *, is_new: bool
    ) -> tuple[Outcome, bool]:
        """The outcome of one resolved call, and whether it was free (cached, or an equal call's).

        `chain` is the length of the longest chain of calls that begins with this one. A call that
        `is_new` (a text in it was just generated) is not looked up; its claim would find a reply.
        Raises `Stopped` if the run is stopped before the call was requested.
        """
        if self.offline:
            return await self._recall(resolved.key)
        flights = self._store.flights
        while (flight := flights.get(resolved.key)) is not None:
            # it may be another runner's and take long: if this run stops, that call goes on
            equal = await self._unless_stopped(flight)
            if equal is not None:
                return equal, True
        flights[resolved.key] = landing = asyncio.get_running_loop().create_future()
        outcome: Outcome | None = None
        try:
            reply = None if is_new else await self._store.get(resolved.key)
            while reply is None:
                try:
                    outcome = await self._ask(plan, resolved, chain)
                except _Elsewhere as other:
                    reply = other.reply or await self._wait_for_others(resolved.key)
                else:
                    return outcome, False
            self._breaker.note_cached(id(self._models[resolved.call.model].model), resolved)
            outcome = reply
            return outcome, True
        finally:
            # Without an outcome, the first call that waits for this one sends the request itself.
            self._store.release(resolved.key)
            del flights[resolved.key]
            landing.set_result(outcome)

    async def _recall(self, key: str) -> tuple[Outcome, bool]:
        if (reply := await self._store.get(key)) is not None:
            return reply, True
        failure = await self._store.last_failure(key)
        return failure or Skipped(because=UNASKED, reason="unrequested"), False

    async def _unless_stopped(self, work: asyncio.Future[Result]) -> Result:
        await asyncio.wait((work, self._stopping), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise Stopped
        return work.result()

    async def _wait_for_others(self, key: str) -> Reply | None:
        """The reply that another process got, or None if it gave up.

        Meanwhile one more plan is open, so that processes with the same plans work on different
        ones.
        """
        self._extra_plans += 1
        self._room.release()
        waiting = asyncio.ensure_future(self._store.wait_for_others(key))
        try:
            return await self._unless_stopped(waiting)
        finally:
            waiting.cancel()

    async def _ask(self, plan: Plan, resolved: ResolvedCall, chain: int) -> Outcome:
        if self.is_failing:
            raise Stopped
        if self._before_asking is not None:
            self._before_asking()
            self._before_asking = None
        model = self._models[resolved.call.model].model
        if id(model) not in self._slots:
            self._make_room(id(model), await model.open())
        stats = self.stats.model(resolved.call.model)

        async def claim() -> None:
            won = await self._store.claim(resolved.key)
            if won is not True:
                raise _Elsewhere(won or None)

        async def ask(
            resolved: ResolvedCall, claim: Callable[[], Awaitable[None]] | None = None
        ) -> Reply | Failure:
            self._under_way += 1
            try:
                return await model.ask(
                    resolved.messages,
                    resolved.sampling,
                    priority=plan.order - LEAD * chain,
                    affinity=f"{plan.sample}/{plan.condition}",
                    pinned=resolved.call.kept,
                    stats=stats,
                    claim=claim,
                )
            finally:
                self._under_way -= 1

        outcome = await ask(resolved, claim)
        self._note(resolved, outcome, resolved.call.model)
        if isinstance(outcome, Reply):
            return await self._store.put(resolved.key, model.fingerprint, outcome)
        known = None if self._goes_on else self._breaker.doubt(id(model), outcome)
        if known is not None:
            again = await ask(known)
            self._note(known, again, resolved.call.model)
            if isinstance(again, Reply):
                stats.count_tokens(again)
        await self._store.add_failure(resolved.key, outcome)
        return outcome

    def _note(self, resolved: ResolvedCall, outcome: Reply | Failure, role: str) -> None:
        model = self._models[role].model
        failed = self._breaker.note(id(model), resolved, outcome)
        if failed and not self._goes_on and isinstance(outcome, Failure):
            label = self._models[role].label
            named = f"{role} ({label})" if label else role
            reason = f"{named} cannot answer: {failed} calls failed in a row"
            self._stop_because(StopReason(reason=reason, failure=outcome))

    def count(self, role: str, outcome: Outcome, *, cached: bool) -> None:
        """Count an outcome; stop if `enough` gives a reason."""
        self.stats.model(role).count(outcome, cached=cached)
        if self.enough is not None and not cached and (reason := self.enough()):
            self._stop_because(StopReason(reason=reason))

    def _stop_because(self, stop_reason: StopReason) -> None:
        if not self._stopping.done():
            self.stats.stop_reason = stop_reason
            self.stop()

    def _make_room(self, model: int, slots: int) -> None:
        """Open as many plans as the models take calls at once, so that none of them is idle."""
        self._slots[model] = slots
        for _ in range(sum(self._slots.values()) - self._window):
            self._window += 1
            self._room.release()

    async def recall(self, plan: Plan) -> dict[str, Reply]:
        """The cached replies to a plan's calls, without fallbacks; nothing is requested."""
        replies: dict[str, Reply] = {}
        for call in check(plan.calls):
            if call.needs <= replies.keys():
                reply = await self._store.get(self.address(call, replies).key)
                if reply is not None:
                    replies[call.id] = reply
        return replies

    def address(self, call: Call, replies: Mapping[str, Reply]) -> ResolvedCall:
        """Resolve a call whose dependencies have replies, as its role would send it."""
        role = self._models[call.model]
        messages, sampling = role.prompt(resolve(call.messages, replies), call.sampling)
        key = content_key(role.model.fingerprint, messages, sampling, pinned=call.kept)
        return ResolvedCall(call=call, key=key, messages=messages, sampling=sampling)


@dataclass(slots=True)
class _OpenPlan:
    """A plan whose calls are tasks of `group`; `on_finished` gets it at its end.

    A call starts when everything that it refers to has a reply; a fallback starts when the reply
    before it gives no complete verdict. `unmet` has the missing dependencies of each call,
    `waiting` the calls that depend on it.
    """

    plan: Plan
    runner: Runner
    group: asyncio.TaskGroup
    on_finished: Callable[[Finished], None]
    left: int = 0
    replies: dict[str, Reply] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    resolved: dict[str, ResolvedCall] = field(default_factory=dict)
    unmet: dict[str, set[str]] = field(default_factory=dict)
    waiting: dict[str, list[Call]] = field(default_factory=dict)
    chains: Mapping[str, int] = field(default_factory=dict)

    def start(self) -> None:
        """Start the calls without dependencies; raises `PlanError` for an invalid graph."""
        try:
            calls = check(self.plan.calls)
        except PlanError as error:
            where = f"sample {self.plan.sample}, {self.plan.condition}"
            raise PlanError(f"{where}: {error}") from error
        self.left = len(calls)
        self.runner.stats.planned += len(calls)
        self.chains = chain_lengths(calls)
        for call in calls:
            self.unmet[call.id] = set(call.needs)
            for need in call.needs:
                self.waiting.setdefault(need, []).append(call)
        if not calls:
            self._finish()
        for call in calls:
            if not self.unmet[call.id]:
                self._launch(call, call)

    def _launch(self, call: Call, root: Call) -> None:
        """Start a call, or a fallback of the call `root`, whose dependencies have replies."""
        self.group.create_task(self._see_through(call, root))

    async def _see_through(self, call: Call, root: Call) -> None:
        try:
            await self._answer(call, root)
        except Stopped:
            return
        except Exception as error:  # noqa: BLE001 - it ends the run
            self.runner.end_by(error)

    async def _answer(self, call: Call, root: Call) -> None:
        if is_needless(call, self.replies):
            self._settle(call, Skipped(because=SAME_TEXT, reason="same_text"), cached=False)
            self._count_down()
            return
        resolved = self.runner.address(call, self.replies)
        outcome: Outcome
        if (known := self.plan.replies.get(call.id)) is not None:
            outcome, cached = known, True
        else:
            is_new = not all(self.resolved[need].cached for need in call.needs)
            chain = self.chains[root.id]
            outcome, cached = await self.runner.outcome(self.plan, resolved, chain, is_new=is_new)
        self.resolved[call.id] = replace(resolved, cached=True) if cached else resolved
        self._settle(call, outcome, cached=cached)
        plan = self.plan
        with noted(f"sample {plan.sample}, condition {plan.condition}, the parser of {call.id}"):
            fallback = _next_fallback(call, root, outcome)
        if fallback is None:
            self._count_down()
        else:
            self.runner.stats.planned += 1
            self._launch(fallback, root)

    def _settle(self, call: Call, outcome: Outcome, *, cached: bool) -> None:
        self.outcomes[call.id] = outcome
        self.runner.count(call.model, outcome, cached=cached)
        if not isinstance(outcome, Reply):
            self._skip_behind(call, outcome)
            return
        self.replies[call.id] = outcome
        for dependent in self.waiting.get(call.id, ()):
            self.unmet[dependent.id].discard(call.id)
            if not self.unmet[dependent.id]:
                self._launch(dependent, dependent)

    def _skip_behind(self, call: Call, outcome: Failure | Skipped) -> None:
        lost = outcome if isinstance(outcome, Skipped) else Skipped(because=call.id)
        behind = [*self.waiting.get(call.id, ())]
        while behind:
            dependent = behind.pop()
            if dependent.id not in self.outcomes:
                self.outcomes[dependent.id] = lost
                self.runner.count(dependent.model, lost, cached=False)
                self._count_down()
                behind += self.waiting.get(dependent.id, ())

    def _count_down(self) -> None:
        self.left -= 1
        if self.left == 0:
            self._finish()

    def _finish(self) -> None:
        self.runner.stats.finished += 1
        self.runner.close_plan()
        if not self.runner.is_failing:  # else it is not used, and handling it may fail too
            self.on_finished(
                Finished(plan=self.plan, outcomes=self.outcomes, resolved=self.resolved)
            )


def _next_fallback(call: Call, root: Call, outcome: Outcome) -> Call | None:
    if call.parser is None or not root.fallbacks:
        return None
    if is_settled(call, outcome) if isinstance(outcome, Reply) else call is root:
        return None
    position = 0 if call is root else root.fallbacks.index(call) + 1
    return root.fallbacks[position] if position < len(root.fallbacks) else None
