"""Where plans are carried out: calls are scheduled, retried and committed, errors become values.

`Runner` drives plans; a `Model` is asked through its slots; a `Seat` is where a model sits. Nothing
here knows a benchmark, a prompt file or a model library.
"""

from mmconv.engine.driver import Runner
from mmconv.engine.garbage import collect_rarely, collect_soon
from mmconv.engine.seat import Model, Seat

__all__ = ["Model", "Runner", "Seat", "collect_rarely", "collect_soon"]
