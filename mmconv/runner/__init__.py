"""The one impure shell: schedules calls, retries them, commits replies, turns errors into values.

`Runner` drives plans; a `Seat` is a model with its slots; a `Tally` counts what happened. Nothing
here knows a benchmark, a prompt file or a model library.
"""

from mmconv.runner.driver import Asked, Finished, Plan, Runner
from mmconv.runner.seat import Seat
from mmconv.runner.tally import SeatTally, Tally

__all__ = ["Asked", "Finished", "Plan", "Runner", "Seat", "SeatTally", "Tally"]
