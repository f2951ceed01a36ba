"""How fast a run gets on, as it is told while it is under way."""

from __future__ import annotations

from mmconv.tally import Pace, SeatTally, Tally


def test_the_pace_is_that_of_the_last_seconds() -> None:
    pace = Pace()
    marks = [(0, 0, 0), (10, 100, 0), *((s, 90 + s, 2 * (s - 10)) for s in range(11, 61))]
    told = []
    for now, finished, asked in marks:
        pace.mark(now, Tally(finished=finished, seats={"candidate": SeatTally(asked=asked)}))
        told.append((*pace.rates, pace.seconds_left(250)))
    assert (told[0], told[1], told[-1]) == ((0, 0, None), (10, 0, 15), (1, 2, 100))
