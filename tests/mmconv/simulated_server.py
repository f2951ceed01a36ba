"""A server with limits on the virtual clock, and runs of calls to it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mmconv.core.errors import Transient
from mmconv.core.protocols import ServerLimit
from mmconv.core.run_stats import ModelStats
from mmconv.core.types import Failure, Reply, Sampling
from mmconv.engine import Model
from tests.messages import Messages, user
from tests.mmconv.virtual_clock import run_virtually
from tests.server_limits import LimitedServer, Limits

TRANSIT = 0.001
"""Seconds that a request or an answer is under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run took and would have taken at best, in seconds, and its calls.

    `refused` are requests per call.
    """

    wall: float
    ideal: float
    retry_after: float
    refused: float
    lost: int

    @property
    def bound(self) -> float:
        """The longest time that a run may take."""
        return 1.25 * self.ideal + 2 * self.retry_after + 1.5


class SimulatedServer:
    """A backend over a limited server; its answers take `latency`, or `spread` around it."""

    def __init__(self, server: LimitedServer, slots: int, latency: float, spread: float) -> None:
        self.max_concurrency = slots
        self.server = server
        self.latency = latency
        self.spread = spread
        self.random = random.Random(1)
        self.limits: tuple[ServerLimit, ...] = ()

    async def open(self) -> SimulatedServer:
        return self

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        loop = asyncio.get_running_loop()
        tokens = int(affinity)
        await asyncio.sleep(TRANSIT * self.random.uniform(0.5, 1.5))
        admitted = self.server.admit(loop.time(), tokens)
        limits = tuple(read(self.server.headers(loop.time())))
        if not admitted:
            await asyncio.sleep(TRANSIT)
            self.limits = limits
            raise Transient("rate_limit", "429", retry_after=self.server.limits.retry_after)
        latency = self.latency
        if self.spread:
            latency *= self.random.lognormvariate(-(self.spread**2) / 2, self.spread)
        await asyncio.sleep(latency)
        self.server.finish()
        await asyncio.sleep(TRANSIT * self.random.uniform(0.5, 1.5))
        self.limits = limits
        return Reply(text="yes", input_tokens=tokens - 20, output_tokens=20)

    async def aclose(self) -> None:
        pass


def read(lines: Sequence[str]) -> list[ServerLimit]:
    """The limits in the headers of `LimitedServer`."""
    units: tuple[Literal["requests", "tokens"], ...] = ("requests", "tokens")
    values = dict(line.removeprefix("x-ratelimit-").split(": ") for line in lines)
    return [
        ServerLimit(
            unit=unit,
            limit=float(values[f"limit-{unit}"]),
            remaining=float(values[f"remaining-{unit}"]),
            reset=float(values[f"reset-{unit}"].removesuffix("ms")) / 1000,
        )
        for unit in units
        if f"limit-{unit}" in values
    ]


def simulate(  # noqa: PLR0913 - a server and its clients
    limits: Limits,
    calls: int,
    *,
    slots: int = 64,
    latency: float = 0.05,
    spread: float = 0.0,
    clients: int = 1,
    tokens: int = 0,
) -> Run:
    """Have each client make its share of the calls at once; `tokens` is the mean of a call."""
    server = LimitedServer(limits)
    sizes = [tokens // 2 + 37 * number % (tokens + 1) for number in range(calls)]

    async def main() -> list[Reply | Failure]:
        asked = []
        for client in range(clients):
            backend = SimulatedServer(server, slots, latency, spread)
            model = Model("m", backend.open)
            share = range(client, calls, clients)
            asked += [ask(model, number, sizes[number]) for number in share]
        return await asyncio.gather(*asked)

    replies, wall = run_virtually(main())
    return Run(
        wall=wall,
        ideal=max(
            limits.ideal(calls, latency, sum(sizes)),
            calls / (1 - limits.chance) * latency / (slots * clients),
        ),
        retry_after=limits.retry_after or 0.0,
        refused=server.refused / calls,
        lost=sum(not isinstance(reply, Reply) for reply in replies),
    )


async def ask(model: Model, number: int, tokens: int) -> Reply | Failure:
    message = user("x" * 4 * max(0, tokens - 20))
    return await model.ask(
        (message,),
        Sampling(),
        priority=number,
        affinity=str(tokens),
        pinned=None,
        stats=ModelStats(),
    )
