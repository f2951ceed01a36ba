"""Calls to servers with limits, on the virtual clock: wall time and refusals are bounded."""

import random

import pytest

from mmconv.engine.limiter import FIRST_SECONDS
from tests.mmconv.simulated_server import simulate
from tests.server_limits import Limits

WAITS = [0.0, 1.0, None]


def check(limits: Limits, calls: int, slack: float = 1.0, **options: float) -> None:
    """No call is lost; the wall time and the refusals are within the bars of the benchmark.

    `slack` is for the cases that tests/bench/README.md says miss a bar.
    """
    run = simulate(limits, calls, **options)  # type: ignore[arg-type]
    says_nothing = limits.retry_after is None and not limits.headers
    assert not run.lost
    assert run.wall <= slack * run.bound
    by_chance = limits.chance / (1 - limits.chance)
    assert run.refused <= slack * (0.15 if says_nothing else 0.10) + by_chance


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("cap", [8, 32])
def test_a_cap_on_concurrency_is_kept(cap: int, wait: float | None) -> None:
    check(Limits(caps=((0.0, cap),), retry_after=wait), 75 * cap, latency=0.2, slots=2 * cap)


@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_a_cap_is_kept_also_if_some_replies_take_much_longer(spread: float) -> None:
    check(Limits(caps=((0.0, 16),), retry_after=1.0), 2400, latency=0.1, spread=spread, slots=32)


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("rate", [30, 100])
def test_a_rate_is_kept(rate: int, wait: float | None) -> None:
    check(Limits(rate=rate, burst=rate, retry_after=wait), 16 * rate)


@pytest.mark.parametrize("headers", [True, False])
@pytest.mark.parametrize("wait", [1.0, None])
def test_a_limit_on_tokens_is_kept(wait: float | None, headers: bool) -> None:
    limits = Limits(tokens=20000, token_burst=20000, retry_after=wait, headers=headers)
    check(limits, 1600, tokens=200)


def test_headers_spare_refusals() -> None:
    """Only those of the first calls are left, which were sent before any answer."""
    refused = [
        simulate(Limits(rate=100, burst=40, retry_after=1.0, headers=headers), 1600).refused
        for headers in (True, False)
    ]
    assert refused[0] < refused[1]


@pytest.mark.parametrize(
    "caps",
    [((0.0, 32), (8.0, 16)), ((0.0, 8), (8.0, 16)), ((0.0, 16), (6.0, 8), (12.0, 32))],
    ids=["halves", "doubles", "both"],
)
@pytest.mark.parametrize("wait", [1.0, None])
def test_a_new_cap_is_found_again(caps: tuple[tuple[float, int], ...], wait: float | None) -> None:
    check(Limits(caps=caps, retry_after=wait), 2400, latency=0.1)


@pytest.mark.parametrize("wait", [1.0, None])
@pytest.mark.parametrize(
    "limits", [{"caps": ((0.0, 16),)}, {"rate": 100, "burst": 100}], ids=["cap", "rate"]
)
def test_two_processes_share_a_limit(limits: dict[str, object], wait: float | None) -> None:
    check(Limits(**limits, retry_after=wait), 1600, 1.5, latency=0.15, clients=2)  # type: ignore[arg-type]


@pytest.mark.parametrize("rate", [50, 100])
def test_a_server_that_hammering_closes_is_left_alone(rate: int) -> None:
    check(Limits(rate=rate, burst=rate, block=1.0, retry_after=1.0), 20 * rate, 1.3)


def test_a_server_without_limits_is_sent_as_many_as_it_takes() -> None:
    run = simulate(Limits(), 640, latency=1.0)
    assert run.wall < 10.1 + FIRST_SECONDS
    assert run.refused == 0


def test_a_large_limit_is_found_from_a_small_one_within_seconds() -> None:
    run = simulate(Limits(caps=((0.0, 1), (5.0, 10_000)), retry_after=1.0), 3000, latency=0.2)
    assert run.wall < 5 + 3000 * 0.2 / 64 + 20


@pytest.mark.parametrize("chance", [0.05, 0.1])
def test_refusals_by_chance_lower_nothing_for_long(chance: float) -> None:
    check(Limits(retry_after=1.0, chance=chance), 6400, latency=0.2)


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = random.Random
    monkeypatch.setattr(random, "Random", lambda seed=1: generator(seed))
