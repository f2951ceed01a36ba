"""The pace by itself: when calls go out again after refusals, and how far apart."""

from __future__ import annotations

import pytest

from mmconv.engine.limiter import (
    LONGEST_PROBE,
    SHORTEST_GAP,
    SLOWEST,
    SPEED_UP,
    UNTOLD_WAIT,
    RateLimiter,
)

NOW = 10.0
SLOTS = 4


def send(pace: RateLimiter, calls: int) -> None:
    """Let so many calls out, each as soon as it may go."""
    for _ in range(calls):
        pace.send(pace.opens_at)


def test_it_is_closed_for_as_long_as_the_server_asks_and_its_slots_share_that_time() -> None:
    pace = RateLimiter()
    assert pace.close(NOW, 8.0, SLOTS, drawn=0.5)
    assert (pace.opens_at, pace.gap) == (NOW + 8, 2.0)


@pytest.mark.parametrize(("drawn", "wait"), [(0.0, 0.5), (0.5, 0.75), (1.0, 1.0)])
def test_for_a_server_that_asks_nothing_it_is_closed_for_half_a_backoff_at_least(
    drawn: float, wait: float
) -> None:
    pace = RateLimiter()
    pace.close(NOW, None, SLOTS, drawn)
    assert (pace.opens_at, pace.gap) == (NOW + wait, wait / SLOTS)


@pytest.mark.parametrize(
    ("asked_for", "waits"),
    [
        (None, [1.0, 2.0, 4.0, 8.0]),
        (0.5, [0.5, 2.0, 4.0, 8.0]),
        (3.0, [3.0, 3.0, 4.0, 8.0]),
        (30.0, [30.0] * 4),
    ],
)
def test_the_wait_grows_and_the_gap_does_not_while_the_one_call_that_tries_is_refused(
    asked_for: float | None, waits: list[float]
) -> None:
    pace, now = RateLimiter(), NOW
    for number, wait in enumerate(waits):
        assert pace.close(now, asked_for, SLOTS, drawn=1.0) is (number == 0)
        assert pace.opens_at == now + wait
        assert pace.gap == pytest.approx(waits[0] / SLOTS * SPEED_UP**number)
        now = pace.opens_at
        pace.send(now)


def test_the_wait_is_short_again_once_a_call_has_got_through() -> None:
    pace, now = RateLimiter(), NOW
    for calls, wait in ((1, 1.0), (1, 2.0), (2, 4.0), (1, 1.0), (0, 2.0)):
        pace.close(now, None, SLOTS, drawn=1.0)
        assert pace.opens_at == now + wait
        send(pace, calls)
        now = pace.opens_at


def test_a_pause_that_was_longer_is_kept_to() -> None:
    pace = RateLimiter()
    pace.extend(NOW + 20)
    pace.extend(NOW + 5)
    pace.close(NOW, 8.0, SLOTS, drawn=0.5)
    assert pace.opens_at == NOW + 20


@pytest.mark.parametrize(
    ("asked_for", "slots", "after_the_first"),
    [(0.25, 50, 0.25), (8.0, 50, LONGEST_PROBE), (8.0, 4, 2.0 * SPEED_UP)],
)
def test_the_first_call_that_goes_out_again_has_a_while_to_be_refused_and_later_ones_have_none(
    asked_for: float, slots: int, after_the_first: float
) -> None:
    pace = RateLimiter()
    pace.close(NOW, asked_for, slots, drawn=0.5)
    pace.send(NOW + 9)
    assert pace.opens_at == pytest.approx(NOW + 9 + after_the_first)
    pace.send(NOW + 12)
    assert pace.opens_at == pytest.approx(NOW + 12 + asked_for / slots * SPEED_UP**2)


@pytest.mark.parametrize(("seconds", "gap"), [(3.0, 1.0), (60.0, 4.0 * SPEED_UP**4)])
def test_calls_are_kept_apart_as_they_were_taken_of_late_but_at_most_twice_as_far_as_before(
    seconds: float, gap: float
) -> None:
    """Four went out in that time, of which the last is the one that is refused."""
    pace = RateLimiter()
    pace.close(NOW, 8.0, SLOTS, drawn=0.5)
    send(pace, 4)
    assert pace.close(NOW + seconds, 8.0, SLOTS, drawn=0.5)
    assert pace.gap == pytest.approx(gap)


def gaps_of_a_server_that_always_refuses_the_second(
    pace: RateLimiter, asked_for: float | None, later: float | None
) -> list[float]:
    """It is sent to with one slot, after long pauses, until the pace is dropped."""
    pace.close(NOW, asked_for, 1, drawn=1.0)
    gaps = [pace.gap]
    for round_ in range(1, 20):
        send(pace, 2)
        pace.close(NOW + 10_000 * round_, later, 1, drawn=1.0)
        gaps.append(pace.gap)
        if not pace.gap:
            return gaps
    raise AssertionError("it is never dropped")


@pytest.mark.parametrize(
    ("asked_for", "later", "most"),
    [(None, None, 9), (8.0, 2.0, 24), (2.0, 8.0, 24), (8.0, None, 24)],
)
def test_calls_are_kept_apart_by_three_times_the_longest_wait_at_the_most(
    asked_for: float | None, later: float | None, most: float
) -> None:
    gaps = gaps_of_a_server_that_always_refuses_the_second(RateLimiter(), asked_for, later)
    assert most / 2 < max(gaps) <= most


def test_a_pace_ends_when_calls_follow_each_other_closely() -> None:
    pace = RateLimiter()
    pace.close(NOW, SHORTEST_GAP * SLOTS / SPEED_UP**3.5, SLOTS, drawn=0.5)
    send(pace, 3)
    assert pace.gap >= SHORTEST_GAP
    send(pace, 1)
    assert pace.gap == 0


@pytest.mark.parametrize(("asked_for", "most"), [(2.0, 6.0), (None, SLOWEST * UNTOLD_WAIT)])
def test_the_longest_wait_of_a_pace_that_has_ended_is_none_of_the_next(
    asked_for: float | None, most: float
) -> None:
    pace = RateLimiter()
    pace.close(NOW, 100.0, 1e5, drawn=0.5)
    send(pace, 2)
    assert pace.gap == 0
    assert max(gaps_of_a_server_that_always_refuses_the_second(pace, asked_for, 2.0)) <= most
