"""The one impure shell: schedules calls, retries them, commits replies, turns errors into values.

`Runner` drives plans; a `Seat` is a model with its slots. Nothing here knows a benchmark, a prompt
file or a model library.
"""

from mmconv.runner.driver import Runner
from mmconv.runner.seat import Seat

__all__ = ["Runner", "Seat"]
