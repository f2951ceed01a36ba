"""A run that stops by itself: for a model that cannot answer, or because it was enough."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from mmconv.core.errors import BackendError, FailureKind, Refused, Transient
from mmconv.core.plans import Plan, ResolvedCall
from mmconv.core.run_stats import RunStats, StopReason
from mmconv.core.types import Call, Failure, Message, Reply, Sampling
from mmconv.engine import RoleModel, Runner
from mmconv.engine.circuit_breaker import (
    HOPELESS,
    MOST_EARLY,
    MOST_FAILED,
    MOST_HOPELESS,
    CircuitBreaker,
)
from mmconv.store import Store
from tests.messages import Messages, user
from tests.mmconv.engine.test_driver import Scripted, chain_of_two, model_for

PLANS = [chain_of_two(order, f"w{order}") for order in range(60)]


def failing(error: BackendError, fails: Callable[[int], bool]) -> Scripted:
    """A model that fails some of its calls, by their number, and takes one at a time."""

    def answer(text: str, sampling: Sampling) -> Reply:
        if fails(len(backend.prompts)):
            raise error
        return Reply(text="yes")

    backend = Scripted(answer, most=1)
    return backend


GET = Store.get


@pytest.fixture(autouse=True)
def misses_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a call is looked up it waits for no slot, and counts of calls come out one lower."""
    written: set[str] = set()
    put = Store.put

    async def noting_put(store: Store, key: str, fingerprint: str, reply: Reply) -> Reply:
        written.add(key)
        return await put(store, key, fingerprint, reply)

    async def quick_get(store: Store, key: str) -> Reply | None:
        return await GET(store, key) if key in written else None

    monkeypatch.setattr(Store, "put", noting_put)
    monkeypatch.setattr(Store, "get", quick_get)


ONE_MORE = 1
"""The call that has the slot already when the last of them fails."""

ASKED_AGAIN = 1
"""What it has answered before, to see whether it still does."""


def always(_number: int) -> bool:
    return True


async def run(
    store: Store, backend: Scripted, plans: Sequence[Plan] = PLANS
) -> tuple[bool, RunStats]:
    named = RoleModel(model=model_for(backend, attempts=1).model, label="gpt")
    runner = Runner({"candidate": named}, store)
    return await runner.run(plans, lambda _: None), runner.stats


def stop_reason(calls: int, kind: FailureKind, message: str) -> StopReason:
    return StopReason(
        reason=f"candidate (gpt) cannot answer: {calls} calls failed in a row",
        failure=Failure(kind=kind, message=message, attempts=1),
    )


@pytest.mark.parametrize("kind", sorted(HOPELESS))
async def test_a_hopeless_model_stops_the_run_soon(store: Store, kind: FailureKind) -> None:
    backend = failing(Refused(kind, "HTTP 4xx: no."), always)
    complete, stats = await run(store, backend)
    assert not complete
    assert len(backend.prompts) == MOST_HOPELESS + ONE_MORE
    assert stats.stop_reason == stop_reason(MOST_HOPELESS, kind, "HTTP 4xx: no.")
    assert stats.stop_reason.description.endswith(f"row: {kind} after 1 attempt: HTTP 4xx: no.")


@pytest.mark.parametrize(
    "error",
    [
        Transient("timeout", "no reply"),
        Transient("server", "HTTP 502"),
        Transient("rate_limit", "HTTP 429", retry_after=86_400.0),
    ],
)
async def test_a_model_that_always_fails_stops_it_later(store: Store, error: BackendError) -> None:
    backend = failing(error, always)
    complete, stats = await run(store, backend)
    assert not complete
    assert len(backend.prompts) == MOST_FAILED + ONE_MORE
    assert stats.stop_reason is not None
    assert stats.stop_reason.reason == stop_reason(MOST_FAILED, error.kind, "").reason


async def test_a_model_that_never_answered_and_is_not_there_stops_it_soon(store: Store) -> None:
    nobody = Transient("connection", "nobody there")
    complete, stats = await run(store, failing(nobody, always))
    assert not complete
    assert stats.stop_reason == stop_reason(MOST_HOPELESS, "connection", "nobody there")
    once = failing(nobody, lambda number: number > 1)
    complete, stats = await run(store, once)
    assert not complete
    assert stats.stop_reason == stop_reason(MOST_FAILED, "connection", "nobody there")


@pytest.mark.parametrize("kind", ["connection", "context", "server"])
async def test_a_run_in_which_nothing_was_answered_is_none(store: Store, kind: FailureKind) -> None:
    complete, stats = await run(store, failing(Refused(kind, "no"), always), PLANS[:1])
    assert not complete
    failure = Failure(kind=kind, message="no", attempts=1)
    assert stats.stop_reason == StopReason(reason="no call was answered", failure=failure)
    complete, stats = await run(
        store, failing(Refused(kind, "no"), lambda number: False), PLANS[:1]
    )
    assert (complete, stats.stop_reason) == (True, None)


async def test_a_model_that_rejects_what_it_has_answered_before_stops_the_run(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # calls are looked up one after the other, so that none is asked before the first was found
    monkeypatch.setattr(Store, "get", GET)
    backend = failing(Refused("rejected", "You have reached your limits."), lambda n: n > 10)
    complete, stats = await run(store, backend)
    assert not complete
    failed = MOST_FAILED + ONE_MORE + ASKED_AGAIN
    assert stats.stop_reason == stop_reason(failed, "rejected", "You have reached your limits.")
    assert len(backend.prompts) == 10 + failed + ONE_MORE
    # what it answered then is in the store
    backend = failing(Refused("rejected", "You have reached your limits."), always)
    complete, stats = await run(store, backend)
    assert not complete
    # What it rejects before the first of these is found counts by itself.
    assert len(backend.prompts) < MOST_FAILED + failed + ONE_MORE


def test_a_stored_reply_that_is_met_meanwhile_clears_no_doubt() -> None:
    breaker = CircuitBreaker()
    one, other, next_one = (
        ResolvedCall(call=call, key=call.id, messages=call.messages, sampling=call.sampling)
        for plan in PLANS[:3]
        for call in plan.calls[:1]
    )
    no = Failure(kind="rejected", message="no", attempts=1)
    breaker.note_cached(1, one)
    assert not any(breaker.note(1, next_one, no) for _ in range(MOST_FAILED))
    assert breaker.doubt(1, no) is one
    breaker.note_cached(1, other)
    assert breaker.note(1, one, no) == MOST_FAILED + ASKED_AGAIN


@pytest.mark.parametrize("most", [1, 8])
async def test_a_row_of_calls_that_a_model_rejects_stops_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Neither in the run itself, nor where it is resumed and nothing else is left to ask."""
    monkeypatch.setattr(Store, "get", GET)
    row = 2 * MOST_FAILED + 5
    spoilt = {f"w{number}" for number in range(10, 10 + row)}

    def answer(text: str, sampling: Sampling) -> Reply:
        if text in spoilt:
            raise Refused("rejected", "This picture cannot be read.")
        return Reply(text="yes", input_tokens=5, output_tokens=1)

    for _ in range(2):
        backend = Scripted(answer, most=most)
        complete, stats = await run(store, backend)
        role = stats.model("candidate")
        assert (complete, stats.stop_reason, role.failed) == (True, None, row)
        doubts = len(backend.prompts) - role.requested - row
        assert doubts in (ASKED_AGAIN, 2 * ASKED_AGAIN)
        assert role.session.input == 5 * (role.requested + doubts)
    assert role.requested == 0


class FirstIsSlow(Scripted):
    """Refuses the first `refusals` of all others, and answers the first call only then.

    The first is told to come again before that, as by a server that is just starting.
    """

    def __init__(self, kind: FailureKind, refusals: int) -> None:
        super().__init__(lambda text, sampling: Reply(text="yes"), most=8, seconds=0.001)
        self.kind = kind
        self.left = refusals
        self.first: Sequence[Message] = ()
        self.enough = asyncio.Event()

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        reply = await super().generate(messages, sampling, affinity=affinity)
        if not self.first:
            self.first = messages
            raise Transient("server", "HTTP 503")
        if messages == self.first:
            async with asyncio.timeout(10):
                await self.enough.wait()
        elif self.left:
            self.left -= 1
            if not self.left:
                self.enough.set()
            raise Refused(self.kind, "This picture is not taken.")
        return reply


async def run_many(store: Store, backend: Scripted) -> tuple[bool, RunStats]:
    plans = [chain_of_two(order, f"w{order}") for order in range(2 * MOST_EARLY)]
    runner = Runner({"candidate": RoleModel(model=model_for(backend, attempts=2).model)}, store)
    return await runner.run(plans, lambda _: None), runner.stats


@pytest.mark.parametrize("kind", ["rejected", "forbidden"])
async def test_quick_refusals_before_a_slow_first_answer_stop_nothing(
    store: Store, kind: FailureKind
) -> None:
    complete, stats = await run_many(store, FirstIsSlow(kind, 2 * MOST_FAILED))
    assert (complete, stats.stop_reason) == (True, None)
    assert stats.model("candidate").failed == 2 * MOST_FAILED


async def test_an_overloaded_model_is_not_taken_for_one_that_rejects_all(
    store: Store,
) -> None:
    def fail(number: int) -> bool:
        if number > 10:
            lapsed = number == 10 + MOST_FAILED + ONE_MORE + 1
            raise Transient("server", "HTTP 500") if lapsed else Refused("rejected", "no")
        return False

    complete, stats = await run(store, failing(Refused("rejected", "no"), fail))
    assert not complete
    assert stats.stop_reason == stop_reason(
        2 * MOST_FAILED + ONE_MORE + ASKED_AGAIN, "rejected", "no"
    )


@pytest.mark.parametrize("kind", ["context", "memory", "image"])
async def test_what_lies_with_the_calls_stops_nothing(store: Store, kind: FailureKind) -> None:
    backend = failing(Refused(kind, "no"), always)
    complete, stats = await run(store, backend)
    assert not complete
    assert stats.stop_reason is not None
    assert stats.stop_reason.reason == "no call was answered"
    assert len(backend.prompts) == len(PLANS)


async def test_a_reply_between_them_begins_the_count_anew(store: Store) -> None:
    backend = failing(Transient("server", "HTTP 500"), lambda number: bool(number % MOST_FAILED))
    complete, stats = await run(store, backend)
    assert (complete, stats.stop_reason) == (True, None)
    assert stats.model("candidate").failed > MOST_FAILED


async def test_a_quota_that_is_used_up_midway_stops_it_and_more_of_it_resumes(store: Store) -> None:
    backend = failing(Refused("quota", "Pay."), lambda number: number > 10)
    complete, stats = await run(store, backend)
    assert not complete
    assert stats.stop_reason == stop_reason(MOST_HOPELESS, "quota", "Pay.")
    assert len(backend.prompts) == 10 + MOST_HOPELESS + ONE_MORE
    again = failing(Refused("quota", "Pay."), lambda _: False)
    complete, stats = await run(store, again)
    assert (complete, stats.stop_reason) == (True, None)
    role = stats.model("candidate")
    assert role.requested == len(again.prompts)
    assert role.requested + role.cached == 2 * len(PLANS)
    assert role.cached >= 10


async def test_roles_that_share_a_model_are_counted_together(store: Store) -> None:
    backend = failing(Refused("authentication", "no"), always)
    model = model_for(backend).model
    roles = {name: RoleModel(model=model) for name in ("candidate", "judge")}

    def plan(order: int) -> Plan:
        said = user(f"w{order}")
        role = "judge" if order % 2 else "candidate"
        calls = (Call(id="only", model=role, messages=(said,)),)
        return Plan(order=order, sample=str(order), condition="free", calls=calls)

    assert not await Runner(roles, store).run(map(plan, range(9)), lambda _: None)
    assert len(backend.prompts) == MOST_HOPELESS + ONE_MORE


async def test_a_runner_of_others_models_goes_on_and_stops_none(store: Store) -> None:
    backend = failing(Refused("quota", "Pay."), lambda number: number <= 5)
    runner = Runner({"candidate": model_for(backend)}, store, goes_on=True)
    assert await runner.run(PLANS, lambda _: None)
    assert (runner.stats.stop_reason, runner.stats.model("candidate").failed) == (None, 5)


async def test_it_stops_as_soon_as_it_is_told_that_it_is_enough(store: Store) -> None:
    backend = Scripted(lambda *_: Reply(text="yes"), most=1)
    generate, stopped = backend.generate, asyncio.Event()

    async def held_up(messages: Sequence[Message], sampling: Sampling, *, affinity: str) -> Reply:
        if len(backend.prompts) == 7:
            async with asyncio.timeout(10):
                await stopped.wait()
        return await generate(messages, sampling, affinity=affinity)

    def enough() -> str | None:
        if runner.stats.requested < 7:
            return None
        stopped.set()
        return "seven are enough"

    backend.generate = held_up  # type: ignore[method-assign]  # the eighth call is still under way
    runner = Runner({"candidate": model_for(backend)}, store)
    runner.enough = enough
    assert not await runner.run(PLANS, lambda _: None)
    assert len(backend.prompts) == 7 + ONE_MORE
    assert runner.stats.stop_reason == StopReason(reason="seven are enough")
    assert runner.stats.stop_reason.description == "seven are enough"


async def test_cached_replies_of_a_plan_are_found_as_far_as_needs_are_known(
    store: Store,
) -> None:
    backend = failing(Refused("context", "long"), lambda number: number == 2)
    runner = Runner({"candidate": model_for(backend)}, store)
    assert await runner.recall(PLANS[0]) == {}
    assert await runner.run([PLANS[0]], lambda _: None)
    assert await runner.recall(PLANS[0]) == {"first": Reply(text="yes")}
    assert await runner.run([PLANS[0]], lambda _: None)
    asked = len(backend.prompts)
    assert {*await runner.recall(PLANS[0])} == {"first", "second"}
    assert len(backend.prompts) == asked


@pytest.mark.parametrize("offline", [False, True])
async def test_a_run_stopped_with_its_last_call_is_whole(store: Store, offline: bool) -> None:
    """Nothing is left to ask, whoever wanted to stop: the budget, or somebody by hand."""
    last = chain_of_two()
    backend = Scripted(lambda *_: Reply(text="yes"))
    runner = Runner({"candidate": model_for(backend)}, store)
    runner.enough = lambda: "two are enough" if runner.stats.requested >= 2 else None
    assert await runner.run([last], lambda _: None)
    assert runner.stats.stop_reason is None
    again = Runner({"candidate": model_for(backend)}, store, offline=offline)
    assert await again.run([last], lambda _: again.stop())


async def test_a_model_that_fails_to_the_very_end_leaves_the_run_unfinished(store: Store) -> None:
    await run(store, failing(Refused("quota", "Pay."), lambda _: False), PLANS[:1])
    backend = failing(Refused("quota", "Pay."), always)
    complete, stats = await run(store, backend, PLANS[: MOST_HOPELESS + 1])
    assert stats.plans == stats.finished
    assert not complete
    assert stats.stop_reason == stop_reason(MOST_HOPELESS, "quota", "Pay.")
