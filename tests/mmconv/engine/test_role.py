"""A model's slots and retries, one at a time: who gets a slot, and who waits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from mmconv.core.errors import ImageError, MmconvError, Refused, Transient
from mmconv.core.protocols import Listen
from mmconv.core.run_stats import ModelStats
from mmconv.core.types import Failure, Reply, Sampling
from mmconv.engine import Model, RoleModel
from mmconv.engine import limiter as slots
from mmconv.engine.limiter import Stopped
from tests.messages import Messages, message


class Held:
    """Answers a call when the test says so; `waiting` are those under way, by their text."""

    def __init__(self, most: int) -> None:
        self.max_concurrency = most
        self.waiting: dict[str, asyncio.Future[Reply]] = {}
        self.asked = asyncio.Event()
        self.opened = 0

    async def open(self) -> Held:
        self.opened += 1
        return self

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.waiting[affinity] = future
        self.asked.set()
        try:
            return await future
        finally:
            del self.waiting[affinity]

    async def aclose(self) -> None:
        pass

    async def settle(self, end: Callable[[asyncio.Future[Reply]], None]) -> int:
        """End all calls that are under way, and let those that waited begin; how many ended."""
        ending = [*self.waiting.values()]
        for future in ending:
            end(future)
        await turns()
        return len(ending)


async def turns() -> None:
    """Give everything that can go on the time to do so."""
    for _ in range(20):
        await asyncio.sleep(0)


async def fail(backend: Held, *problems: MmconvError) -> None:
    """Have the call named 0 meet these problems, each when it is asked again."""
    for problem in problems:
        backend.waiting["0"].set_exception(problem)
        await turns()


def answer(future: asyncio.Future[Reply]) -> None:
    future.set_result(Reply(text="yes"))


def ask(
    model: Model, name: str, pinned: str | None = None, stats: ModelStats | None = None
) -> asyncio.Task[Reply | Failure]:
    said = tuple(message("user", f"{name} {turn}") for turn in range(3))
    return asyncio.create_task(
        model.ask(
            said,
            Sampling(),
            priority=int(name),
            affinity=name,
            pinned=pinned,
            stats=stats or ModelStats(),
        )
    )


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that calls waited before they were asked again; no time passes."""
    waited: list[float] = []

    async def wait(model: Model, seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(Model, "_wait", wait)
    return waited


async def test_a_slot_given_to_a_call_that_is_cancelled_goes_to_the_next() -> None:
    backend = Held(1)
    model = Model("held", backend.open)
    first, second, third = (ask(model, str(number)) for number in range(3))
    await turns()
    answer(backend.waiting["0"])
    # Its slot is given away in the loop's next turn, and taken in the one after it.
    await asyncio.sleep(0)
    assert first.done()
    second.cancel()
    await turns()
    assert [*backend.waiting] == ["2"]
    await backend.settle(answer)
    assert third.done()


@pytest.mark.usefixtures("without_jitter")
async def test_the_server_is_left_alone_for_as_long_as_it_asks() -> None:
    backend = Held(1)
    call = ask(Model("held", backend.open), "0")
    await turns()
    asked_at = asyncio.get_running_loop().time()
    backend.asked.clear()
    backend.waiting["0"].set_exception(Transient("server", "busy", retry_after=0.1))
    await backend.asked.wait()
    assert asyncio.get_running_loop().time() - asked_at >= 0.1
    call.cancel()


@pytest.mark.parametrize(
    ("asked_for", "shortest", "longest"),
    [
        (None, [0.0] * 8, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]),
        (0.0, [0.0] * 8, [1.0] * 8),
        (90.0, [90.0] * 8, [91.0] * 8),
    ],
)
async def test_waits_grow_and_are_spread_so_that_calls_do_not_come_back_in_one_instant(
    waits: list[float],
    monkeypatch: pytest.MonkeyPatch,
    asked_for: float | None,
    shortest: list[float],
    longest: list[float],
) -> None:
    async def generate(*_: object, **__: object) -> Reply:
        raise Transient("server", "busy", retry_after=asked_for)

    backend = Held(1)
    backend.generate = generate  # type: ignore[method-assign]  # it never answers
    for drawn, expected in ((0, shortest), (1, longest)):
        monkeypatch.setattr(
            random.Random, "uniform", lambda *between, drawn=drawn: between[1 + drawn]
        )
        waits.clear()
        await ask(Model("held", backend.open, attempts=9), "0")
        assert waits == expected


async def test_waits_grow_with_the_refusals_of_a_busy_server_apart_from_other_failures(
    waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, busy = Transient("timeout", "no reply"), Transient("rate_limit", "busy")
    problems = [slow, slow, busy, slow, busy, busy]

    async def generate(*_: object, **__: object) -> Reply:
        if problems:
            raise problems.pop(0)
        return Reply(text="yes")

    backend = Held(1)
    backend.generate = generate  # type: ignore[method-assign]  # it answers at last
    monkeypatch.setattr(random.Random, "uniform", lambda *between: between[2])
    assert await ask(Model("held", backend.open), "0") == Reply(text="yes")
    assert waits == [1.0, 2.0, 1.0, 4.0, 2.0, 4.0]


@pytest.mark.usefixtures("without_jitter")
async def test_a_call_fails_when_its_attempts_are_used_up_though_others_are_answered() -> None:
    backend = Held(2)
    model = Model("held", backend.open, attempts=2)
    failing, answered = ask(model, "0"), ask(model, "1")
    await turns()
    answer(backend.waiting["1"])
    await turns()
    assert answered.done()
    await fail(backend, *[Transient("timeout", "no reply")] * 2)
    assert failing.done()
    assert await failing == Failure(kind="timeout", message="no reply", attempts=2)


@pytest.mark.usefixtures("without_jitter")
async def test_shortening_a_prompt_uses_up_no_attempt() -> None:
    backend = Held(1)
    call = ask(Model("held", backend.open, attempts=2), "0", pinned="")
    await turns()
    await fail(backend, *[Refused("context", "long")] * 2, Transient("server", ""))
    await backend.settle(answer)
    assert await call == Reply(text="yes", dropped=2)


@pytest.mark.parametrize(
    ("problems", "failure"),
    [
        (
            [Refused("context", "long"), Refused("rejected", "no")],
            Failure(kind="rejected", message="no", attempts=1),
        ),
        ([ImageError("it is cut")], Failure(kind="image", message="it is cut", attempts=1)),
    ],
)
async def test_other_refusals_are_final(problems: list[MmconvError], failure: Failure) -> None:
    backend = Held(1)
    call = ask(Model("held", backend.open), "0", pinned="")
    await turns()
    await fail(backend, *problems)
    assert call.done()
    assert await call == failure


@pytest.mark.usefixtures("without_jitter")
async def test_what_attempts_without_a_reply_took_is_counted() -> None:
    backend, stats = Held(1), ModelStats()
    call = ask(Model("held", backend.open), "0", stats=stats)
    await turns()
    await fail(
        backend,
        Transient("malformed", "no text", input_tokens=1000, output_tokens=100),
        Transient("timeout", "no reply in 1 s"),
        Refused("rejected", "held back", input_tokens=1000, output_tokens=7),
    )
    assert isinstance(await call, Failure)
    assert (stats.session.input, stats.session.output) == (2000, 107)
    assert (stats.total.input, stats.total.output) == (2000, 107)
    assert (stats.timed_out, stats.session.unmetered) == (1, 0)


async def test_a_model_that_nobody_opened_before_the_end_stays_closed() -> None:
    backend = Held(1)
    model = Model("held", backend.open)
    model.stop()
    with pytest.raises(Stopped):
        await ask(model, "0")
    assert backend.opened == 0


@pytest.mark.parametrize(
    ("temperature", "own", "overrides", "sent"),
    [
        (1.0, None, {}, 3),
        (None, None, {}, 3),
        (0.0, None, {}, None),
        (0.0, None, {"temperature": 0.5}, 3),
        (1.0, 7, {}, 7),
        (1.0, None, {"seed": 9}, 9),
        (1.0, None, {"seed": None}, None),
    ],
)
def test_the_seed_of_a_run_is_that_of_answers_which_are_drawn(
    temperature: float | None, own: int | None, overrides: dict[str, float], sent: int | None
) -> None:
    model = Model("held", Held(1).open, attempts=1)
    sampling = Sampling(temperature=temperature, seed=own)
    for seed, expected in ((3, sent), (0, own if "seed" not in overrides else sent)):
        _, prompted = RoleModel(model=model, sampling=overrides, seed=seed).prompt((), sampling)
        assert prompted.seed == expected


async def test_a_call_may_be_asked_again_for_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "LONGEST_DELAY", 0.0)

    async def generate(*_: object, **__: object) -> Reply:
        raise Transient("connection", "nobody there")

    backend = Held(1)
    backend.generate = generate  # type: ignore[method-assign]  # it never answers
    failed = await ask(Model("held", backend.open, attempts=1100), "0")
    assert failed == Failure(kind="connection", message="nobody there", attempts=1100)


def test_a_benchmarks_system_prompt_stands_in_place_of_the_models_own() -> None:
    role = RoleModel(model=Model("m", Held(1).open), system="Be brief.")
    user = message("user", "hello")
    own = message("system", "You are a judge.")
    assert role.prompt((own, user), Sampling())[0] == (own, user)
    sent = [(each.role, each.text) for each in role.prompt((user,), Sampling())[0]]
    assert sent == [("system", "Be brief."), ("user", "hello")]
    assert [each.text for each in role.prompt((), Sampling())[0]] == ["Be brief."]
    sampling = Sampling(temperature=1.0)
    assert RoleModel(model=Model("m", Held(1).open)).prompt((), sampling) == ((), sampling)


@pytest.mark.usefixtures("without_jitter")
@pytest.mark.parametrize("is_heard", [False, True])
async def test_a_reply_that_was_heard_in_part_is_not_retried(is_heard: bool) -> None:
    class Streaming(Held):
        requests = 0

        async def stream(
            self, _messages: object, _sampling: object, *, affinity: str, listen: Listen
        ) -> Reply:
            self.requests += 1
            if self.requests > 1:
                listen("text", "yes")
                return Reply(text=f"yes, {affinity}")
            if is_heard:
                listen("text", "no")
            raise Transient("connection", "gone")

    backend = Streaming(1)
    heard: list[str] = []
    outcome = await Model("", backend.open, attempts=3).ask(
        (message("user", "Well?"),),
        Sampling(),
        priority=0,
        affinity="sir",
        pinned=None,
        stats=ModelStats(),
        listen=lambda _channel, piece: heard.append(piece),
    )
    if is_heard:
        assert outcome == Failure(kind="connection", message="gone", attempts=1)
        assert heard == ["no"]
    else:
        assert isinstance(outcome, Reply)
        assert (outcome.text, heard) == ("yes, sir", ["yes"])
