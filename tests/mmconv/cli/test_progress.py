"""What the line of a run's progress counts."""

from __future__ import annotations

from mmconv.cli.progress import line
from mmconv.config import ModelSpec, RunSpec
from mmconv.tally import SeatTally, Tally

MODEL = ModelSpec(provider="fake", model="echo")
SPEC = RunSpec(benchmark="riddles", seats={"candidate": MODEL})


def test_a_first_run_with_equal_calls_reuses_replies() -> None:
    seat = SeatTally(asked=2000, stored=1500, failed=3, skipped=1, retried=4)
    told = line(SPEC, Tally(seats={"candidate": seat}), 10.0)
    assert told == "3,504 calls, 200.0/s, 1,500 replies reused, 4 retried, 4 failed or skipped"
