"""In which order plans are opened and calls are served."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from mmconv.plans import Finished, Plan
from mmconv.runner import Runner, Seat
from mmconv.store import Store
from mmconv.tally import SeatTally
from mmconv.values import Message, Reply, Sampling, Text
from tests.mmconv.runner.test_driver import Scripted, call, chain_of_two, run, seat_for, shout, user


async def test_plans_are_taken_in_lazily(store: Store) -> None:
    backend = Scripted(shout, seconds=0.001)
    runner = Runner({"candidate": seat_for(backend)}, store, window=5)
    open_now = most = 0

    def plans() -> Iterator[Plan]:
        nonlocal open_now, most
        for order in range(40):
            open_now += 1
            most = max(most, open_now)
            yield chain_of_two(order, f"w{order}")

    def close(finished: Finished) -> None:
        nonlocal open_now
        open_now -= 1

    await runner.run(plans(), close)
    assert most <= 6


async def test_a_long_chain_begins_before_short_plans_that_are_a_little_older(store: Store) -> None:
    """All wait for the one slot, which another call holds, before the first of them is served."""
    backend = Scripted(shout, most=1)
    model = seat_for(backend).model
    plans = [
        *(
            Plan(
                order=order, sample=str(order), condition="free", calls=(call("only", f"{order}"),)
            )
            for order in range(4)
        ),
        chain_of_two(order=4),
    ]
    all_wait = asyncio.Event()
    looked_up = 0
    get, generate = store.get, backend.generate

    async def counting(key: str) -> Reply | None:
        nonlocal looked_up
        found = await get(key)
        looked_up += 1
        if looked_up == len(plans):
            all_wait.set()
        return found

    async def held_up(messages: Sequence[Message], sampling: Sampling, *, affinity: str) -> Reply:
        await all_wait.wait()
        return await generate(messages, sampling, affinity=affinity)

    store.get = counting  # type: ignore[method-assign]  # tells when the last has looked
    backend.generate = held_up  # type: ignore[method-assign]  # the slot's holder keeps it till then
    holder = asyncio.create_task(
        model.ask(
            (user(Text(text="holder")),),
            Sampling(),
            priority=0,
            affinity="",
            pinned=None,
            tally=SeatTally(),
        )
    )
    await asyncio.sleep(0)
    await run(store, backend, plans, Seat(model=model, system=None, sampling={}))
    await holder
    asked = [prompt[-1][1] for prompt in backend.prompts]
    assert asked == ["holder", "hello", "0", "1", "2", "3", "after HELLO.0"]
