"""In which order plans are opened and calls are served."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mmconv.core.plans import Finished, Plan
from mmconv.core.run_stats import ModelStats
from mmconv.core.types import Call, Message, Reply, Sampling
from mmconv.engine import RoleModel, Runner
from mmconv.engine.driver import OPEN_PLANS
from mmconv.store import Store
from tests.messages import user
from tests.mmconv.engine.test_driver import (
    Gathering,
    Scripted,
    call,
    chain_of_two,
    model_for,
    run,
    shout,
)


async def test_plans_are_taken_in_lazily(store: Store) -> None:
    backend = Scripted(shout, seconds=0.001)
    runner = Runner({"candidate": model_for(backend)}, store, window=5)
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
    model = model_for(backend).model
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
            (user("holder"),), Sampling(), priority=0, affinity="", pinned=None, stats=ModelStats()
        )
    )
    await asyncio.sleep(0)
    await run(store, backend, plans, RoleModel(model=model, system=None, sampling={}))
    await holder
    asked = [prompt[-1][1] for prompt in backend.prompts]
    assert asked == ["holder", "hello", "0", "1", "2", "3", "after HELLO.0"]


async def test_the_slots_of_all_models_are_used(store: Store) -> None:
    """Together they take more calls at once than a run without models opens plans."""
    backends = {name: Gathering(shout, most=OPEN_PLANS) for name in ("candidate", "judge")}
    runner = Runner({name: model_for(backend) for name, backend in backends.items()}, store)

    def plan(order: int) -> Plan:
        said = user(f"w{order}")
        asked = Call(id="only", model="judge" if order % 2 else "candidate", messages=(said,))
        return Plan(order=order, sample=str(order), condition="free", calls=(asked,))

    assert await runner.run(map(plan, range(2 * OPEN_PLANS)), lambda _: None)
    assert {len(backend.prompts) for backend in backends.values()} == {OPEN_PLANS}


async def test_the_calls_of_a_conversation_and_no_others_belong_together(store: Store) -> None:
    backend = Scripted(shout)
    talks = [(sample, condition) for sample in "12" for condition in ("free", "told")]
    plans = [
        replace(chain_of_two(order, f"w{order}"), sample=sample, condition=condition)
        for order, (sample, condition) in enumerate(talks)
    ]
    await run(store, backend, plans)
    texts = (prompt[-1][1] for prompt in backend.prompts)
    affinity = dict(zip(texts, backend.affinities, strict=True))
    for order in range(len(talks)):
        assert affinity[f"w{order}"] == affinity[f"after W{order}.0"]
    assert len({*affinity.values()}) == len(talks)
