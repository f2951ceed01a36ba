"""How fast a run gets on, as it is told while it is under way."""

from __future__ import annotations

import pytest

from mmconv.errors import Transient
from mmconv.tally import MOST_NAMES, OTHERS, Pace, SeatTally, Tally
from mmconv.values import Reply


def test_the_pace_is_that_of_the_last_seconds() -> None:
    pace = Pace()
    marks = [(0, 0, 0), (10, 100, 0), *((s, 90 + s, 2 * (s - 10)) for s in range(11, 61))]
    told = []
    for now, finished, asked in marks:
        pace.mark(now, Tally(finished=finished, seats={"candidate": SeatTally(asked=asked)}))
        told.append((*pace.rates, pace.seconds_left(250)))
    assert (told[0], told[1], told[-1]) == ((0, 0, None), (10, 0, 15), (1, 2, 100))


@pytest.mark.parametrize(("tokens", "unmetered"), [((7, 5), 0), ((7, None), 1), ((None, 5), 1)])
def test_a_reply_without_either_number_of_tokens_is_unmetered(
    tokens: tuple[int | None, int | None], unmetered: int
) -> None:
    tally = SeatTally()
    tally.count(Reply(text="Yes.", input_tokens=tokens[0], output_tokens=tokens[1]), stored=False)
    assert (tally.asked, tally.unmetered) == (1, unmetered)


def test_replies_are_counted_by_who_answered_as_far_as_that_is_told() -> None:
    tally = Tally()
    for name, stored in (("a", True), ("b", False), ("a", False), (None, True)):
        tally.seat("candidate").count(Reply(text="Yes.", answered_by=name), stored=stored)
    tally.seat("judge").count(Reply(text="Yes."), stored=False)
    assert tally.answered_by == {"candidate": {"a": 2, "b": 1}}


def test_a_server_with_a_fingerprint_for_each_reply_is_counted_by_its_models_at_last() -> None:
    seat = SeatTally()
    for number in range(3 * MOST_NAMES):
        model = "m" if number < 2 * MOST_NAMES else "fallback"
        seat.count(Reply(text="Yes.", answered_by=f"{model}, fingerprint {number}"), stored=False)
    seat.count(Reply(text="Yes.", answered_by="m, fingerprint 0"), stored=False)
    assert len(seat.answered_by) == MOST_NAMES + 2
    assert seat.answered_by["m, fingerprint 0"] == 2
    assert (seat.answered_by["m"], seat.answered_by["fallback"]) == (MOST_NAMES, MOST_NAMES)


def test_a_server_with_a_name_for_each_reply_takes_no_memory_for_each() -> None:
    seat = SeatTally()
    for number in range(3 * MOST_NAMES):
        seat.count(Reply(text="Yes.", answered_by=f"m{number}"), stored=False)
    assert len(seat.answered_by) == 2 * MOST_NAMES + 1
    assert seat.answered_by[OTHERS] == MOST_NAMES


def test_a_reply_that_nobody_needs_is_unmetered_as_others_are_and_no_failed_attempt_is() -> None:
    tally = SeatTally()
    for told in (Reply(text="Yes."), Reply(text="Yes.", input_tokens=7, output_tokens=5)):
        tally.count_paid(told)
    tally.count_unanswered(Transient("timeout", "no reply"))
    assert (tally.unmetered, tally.total_unmetered, tally.total_input_tokens) == (1, 1, 7)
