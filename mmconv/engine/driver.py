"""The driver: takes plans in, asks what is not known yet, and hands finished plans out.

A call starts when everything that it refers to has replied; it is looked up in the store first,
asked if it is not there, and committed before anything that needs it starts. Equal calls under way
at the same time are one request, whichever runner of the store asks it. Plans are taken in lazily,
so memory does not grow with their number. What fails is a `Failure`, what needs it is `Skipped`;
any other exception is a bug and stops the run, and what was answered is kept, that of calls under
way too. A model that cannot answer stops it as well, as `stop` does; a run in which nothing was
answered has not come to an end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from mmconv.core.graph import check, dependencies, resolve
from mmconv.core.keys import content_key
from mmconv.core.plans import Finished, Plan, ResolvedCall
from mmconv.core.protocols import Replies
from mmconv.core.run_stats import RunStats, StopReason
from mmconv.core.types import UNASKED, Call, Failure, Outcome, Reply, Skipped
from mmconv.engine.circuit_breaker import MOST_FAILED, CircuitBreaker
from mmconv.engine.limiter import Stopped
from mmconv.engine.seat import Seat

_LOGGER = logging.getLogger(__name__)

OPEN_PLANS = 64
"""How many plans are open at least: enough that the store is asked for many replies at once."""

LEAD = 10
"""How many plans a call is served ahead of its turn for each call in the chain that waits for it.

Older plans go first, so that they end and make room; but whoever has a long chain before him must
begin early, or the end of a run waits for a few chains while most slots are idle.
"""


class _Elsewhere(Exception):
    """Raised where another process requests a call, or has done so by now: then with its reply."""

    def __init__(self, reply: Reply | None) -> None:
        super().__init__()
        self.reply = reply


class Runner:
    """Runs plans against seats and a store.

    `offline` asks nothing: what the store does not hold has failed before, or was never asked.
    `window` bounds how many plans are open at once, until models are opened that together answer
    more calls than that. `before_asking` is called once, before the first call that the store does
    not hold; what it raises ends the run with nothing requested. A run stops when a model cannot
    answer (`mmconv.engine.circuit_breaker`), unless it `goes_on`: that is for runs whose models
    others use too, since stopping would end those calls as well. `enough` may be set: it runs after
    each call that was asked, and what it says is why the run stops then. A runner is made where its
    event loop runs.
    """

    def __init__(
        self,
        seats: Mapping[str, Seat],
        store: Replies,
        *,
        window: int = OPEN_PLANS,
        offline: bool = False,
        before_asking: Callable[[], None] | None = None,
        goes_on: bool = False,
    ) -> None:
        self._seats = seats
        self._store = store
        self._window = window
        self._room = asyncio.Semaphore(window)
        self._slots: dict[int, int] = {}
        self.offline = offline
        self._before_asking = before_asking
        self._goes_on = goes_on
        self._breaker = CircuitBreaker()
        self.enough: Callable[[RunStats], str | None] | None = None
        self._errors: list[Exception] = []
        self._under_way = 0
        self._extra_plans = 0
        self._stopping: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.stats = RunStats()

    async def run(self, plans: Iterable[Plan], on_finished: Callable[[Finished], None]) -> bool:
        """Run all plans; `on_finished` gets each as it ends, in any order.

        Returns whether the run went to its end, False if `stop` ended it early, or the run itself
        (then `stats.halt` tells why). What was to stop with its last calls has come to its end.
        Exceptions other than a model's failure come out as they are, once the calls under way are
        kept; after the first of them `on_finished` gets no more. A call that somebody cancelled, so
        that its plan has no end, is a `RuntimeError`.
        """
        self._store.look_again()
        taken_in = False
        try:
            async with asyncio.TaskGroup() as group:
                try:
                    taken_in = await self._open(plans, group, on_finished)
                except Exception as error:  # noqa: BLE001 - raised once calls under way are kept
                    self.end_by(error)
        except BaseExceptionGroup as failed:  # of what is no `Exception`, as a library's panic
            raise failed.exceptions[0] from None
        if self._errors:
            errors, self._errors = self._errors, []
            raise foremost(errors)
        lost = self.stats.plans - self.stats.finished
        if self._stopping.done() and (lost or not taken_in):
            self._look_again_at_enough()
            return False
        if lost:
            raise RuntimeError(f"{lost} plans have no end: their calls were cancelled")
        if self._is_unable():
            return False
        self.stats.stop_reason = None if self.offline or self._goes_on else self._unanswered()
        return self.stats.stop_reason is None

    async def _open(
        self,
        plans: Iterable[Plan],
        group: asyncio.TaskGroup,
        on_finished: Callable[[Finished], None],
    ) -> bool:
        """Open all plans, as there is room; returns False if the run was stopped meanwhile."""
        for plan in plans:
            await self._room.acquire()
            if self._stopping.done():
                return False
            self.stats.plans += 1
            OpenPlan(plan, self, group, on_finished).start()
            # Opening the first plans takes a while, in which their first calls can go out.
            await asyncio.sleep(0)
        return True

    @property
    def is_failing(self) -> bool:
        """Whether an error ends the run, which still waits for calls under way."""
        return bool(self._errors)

    def end_by(self, error: Exception) -> None:
        """Ask nothing more, and end by this error once the calls under way are answered and kept.

        They may have been paid for.
        """
        if not self._errors and self._under_way:
            told = "%s ends the run; waiting for the calls under way, whose replies are kept"
            _LOGGER.warning(told, type(error).__name__)
        self._errors.append(error)
        self.stop()

    def _is_unable(self) -> bool:
        """Whether the run stopped because a model cannot answer: asked again, it may."""
        return self.stats.stop_reason is not None and self.stats.stop_reason.failure is not None

    def _look_again_at_enough(self) -> None:
        """Have the halt count the calls, too, that were under way when it was enough."""
        if self.stats.stop_reason is None or self._is_unable() or self.enough is None:
            return
        if reason := self.enough(self.stats):
            self.stats.stop_reason = StopReason(reason=reason)

    def _unanswered(self) -> StopReason | None:
        """Why a run of too few calls to stop it midway is none: not one of them was answered."""
        if self.stats.replies or not self.stats.lost:
            return None
        last = (seat.last_failure for seat in self.stats.seats.values())
        return StopReason(
            reason="not one call was answered", failure=next(filter(None, last), None)
        )

    def stop(self) -> None:
        """Ask nothing more; calls under way are awaited and kept. Safe to call from a signal."""
        if not self._stopping.done():
            self._stopping.set_result(None)
        for seat in self._seats.values():
            seat.model.stop()
        self._room.release()

    def close_plan(self) -> None:
        """Make room for the next plan."""
        if self._extra_plans:
            self._extra_plans -= 1
        else:
            self._room.release()

    async def outcome(self, plan: Plan, asked: ResolvedCall, chain: int) -> tuple[Outcome, bool]:
        """Find or ask one resolved call; with it True if the reply was free.

        That is one that was stored, or that an equal call under way brought. `chain` counts the
        calls in a row that end with the last one to wait for it.

        Raises `Stopped` where the run is being stopped before the call was asked.
        """
        if self.offline:
            return await self._recall(asked.key)
        flights = self._store.flights
        while (flight := flights.get(asked.key)) is not None:
            brought = await self._join(flight)
            if brought is not None:
                return brought, True
        flights[asked.key] = landing = asyncio.get_running_loop().create_future()
        outcome: Outcome | None = None
        try:
            reply = await self._store.get(asked.key)
            while reply is None:
                try:
                    outcome = await self._ask(plan, asked, chain)
                except _Elsewhere as found:
                    reply = found.reply or await self._wait_for_others(asked.key)
                else:
                    return outcome, False
            self._breaker.note_cached(id(self._seats[asked.call.seat].model), asked)
            outcome = reply
            return outcome, True
        finally:
            # What this one cannot end, the first of those that wait for it asks anew.
            self._store.release(asked.key)
            del flights[asked.key]
            landing.set_result(outcome)

    async def _recall(self, key: str) -> tuple[Outcome, bool]:
        reply = await self._store.get(key)
        if reply is not None:
            return reply, True
        failure = await self._store.last_failure(key)
        return failure or Skipped(because=UNASKED, reason="unasked"), False

    async def _join(self, flight: asyncio.Future[Outcome | None]) -> Outcome | None:
        """What an equal call brings, or None if it was given up.

        It may be another runner's, and wait for long: stopping this one leaves it.
        """
        await asyncio.wait((flight, self._stopping), return_when=asyncio.FIRST_COMPLETED)
        if not flight.done():
            raise Stopped
        return flight.result()

    async def _wait_for_others(self, key: str) -> Reply | None:
        """What another process brings, or None if it gave up.

        Meanwhile one more plan is open, so that several processes with the same plans go on with
        different ones.
        """
        self._extra_plans += 1
        self._room.release()
        waiting = asyncio.ensure_future(self._store.wait_for_others(key))
        try:
            await asyncio.wait((waiting, self._stopping), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise Stopped
            return waiting.result()
        finally:
            waiting.cancel()

    async def _ask(self, plan: Plan, asked: ResolvedCall, chain: int) -> Outcome:
        if self.is_failing:
            raise Stopped
        if self._before_asking is not None:
            self._before_asking()
            self._before_asking = None
        seat = self._seats[asked.call.seat]
        model = seat.model
        if id(model) not in self._slots:
            self._make_room(id(model), await model.open())
        stats = self.stats.seat(asked.call.seat)

        async def claim() -> None:
            won = await self._store.claim(asked.key)
            if won is not True:
                raise _Elsewhere(won or None)

        async def ask(
            asked: ResolvedCall, claim: Callable[[], Awaitable[None]] | None = None
        ) -> Reply | Failure:
            self._under_way += 1
            try:
                return await model.ask(
                    asked.messages,
                    asked.sampling,
                    priority=plan.order - LEAD * chain,
                    affinity=f"{plan.sample}/{plan.condition}",
                    pinned=asked.call.kept,
                    stats=stats,
                    claim=claim,
                )
            finally:
                self._under_way -= 1

        outcome = await ask(asked, claim)
        self._note(asked, outcome, asked.call.seat)
        if isinstance(outcome, Reply):
            return await self._store.put(asked.key, model.fingerprint, outcome)
        known = None if self._goes_on else self._breaker.doubt(id(model), outcome)
        if known is not None:
            again = await ask(known)
            self._note(known, again, asked.call.seat)
            if isinstance(again, Reply):
                stats.count_paid(again)
        await self._store.add_failure(asked.key, outcome)
        return outcome

    def _note(self, asked: ResolvedCall, outcome: Reply | Failure, seat: str) -> None:
        """Count how a call ended for its model, and stop where that one cannot answer."""
        model = self._seats[seat].model
        is_early = isinstance(outcome, Failure) and model.has_under_way(MOST_FAILED)
        failed = self._breaker.note(id(model), asked, outcome, first_under_way=is_early)
        if failed and not self._goes_on and isinstance(outcome, Failure):
            label = self._seats[seat].label
            self._stop_because(_cannot_answer(seat, label, failed, outcome))

    def count(self, seat: str, outcome: Outcome, *, stored: bool) -> None:
        """Count how a call ended, and stop where that is enough."""
        self.stats.seat(seat).count(outcome, stored=stored)
        if self.enough is not None and not stored and (reason := self.enough(self.stats)):
            self._stop_because(StopReason(reason=reason))

    def _stop_because(self, stop_reason: StopReason) -> None:
        if not self._stopping.done():
            self.stats.stop_reason = stop_reason
            self.stop()

    def _make_room(self, model: int, slots: int) -> None:
        """Let so many plans be open that none of the models' slots wants for calls."""
        self._slots[model] = slots
        for _ in range(sum(self._slots.values()) - self._window):
            self._window += 1
            self._room.release()

    async def recall(self, plan: Plan) -> dict[str, Reply]:
        """The replies to a plan's calls, rescues aside, that the store holds; nothing is asked."""
        replies: dict[str, Reply] = {}
        for call in check(plan.calls):
            if dependencies(call) <= replies.keys():
                reply = await self._store.get(self.address(call, replies).key)
                if reply is not None:
                    replies[call.id] = reply
        return replies

    def address(self, call: Call, replies: Mapping[str, Reply]) -> ResolvedCall:
        """Resolve a call whose needs are met, as its seat would send it."""
        seat = self._seats[call.seat]
        messages, sampling = seat.prompt(resolve(call.messages, replies), call.sampling)
        key = content_key(seat.model.fingerprint, messages, sampling, pinned=call.kept)
        return ResolvedCall(call=call, key=key, messages=messages, sampling=sampling)


def _cannot_answer(seat: str, label: str, failed: int, last: Failure) -> StopReason:
    named = f"{seat} ({label})" if label else seat
    return StopReason(
        reason=f"{named} cannot answer: {failed} calls failed, one after the other", failure=last
    )
