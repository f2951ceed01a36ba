"""Runs plans: schedules, retries and commits calls, and turns model errors into values.

`Runner` drives plans, `Model` limits and retries its requests, `Seat` adds system prompt and
sampling. Benchmarks, prompt files and model libraries are unknown here.
"""

from mmconv.engine.driver import Runner
from mmconv.engine.seat import Model, Seat

__all__ = ["Model", "Runner", "Seat"]
