"""Runs plans: schedules, retries and commits calls, and turns model errors into values.

`Runner` drives plans, `Model` limits and retries its requests, `RoleModel` adds system prompt and
sampling. Benchmarks, prompt files and model libraries are unknown here.
"""

from mmconv.engine.driver import Runner
from mmconv.engine.model import Model, RoleModel

__all__ = ["Model", "RoleModel", "Runner"]
