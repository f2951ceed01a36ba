"""Simulated servers with limits, on a virtual clock: `python -m tests.bench.limits_virtual`.

Prints wall time and refusals for each server. Words given as arguments select the servers.
"""

import sys

from tests.mmconv.simulated_server import simulate
from tests.server_limits import Limits

WAITS = (0.0, 0.2, 1.0, 5.0, None)

Case = tuple[str, Limits, int, dict[str, float]]


def steady() -> list[Case]:
    """One limit that stays."""
    cases: list[Case] = []
    for wait in WAITS:
        for cap in (8, 16, 32, 128):
            limits = Limits(caps=((0.0, cap),), retry_after=wait)
            cases.append((f"{cap} at once", limits, 75 * cap, {"latency": 0.2, "slots": 2 * cap}))
        for rate in (30, 100, 300):
            limits = Limits(rate=rate, burst=rate, retry_after=wait)
            cases.append((f"{rate}/s", limits, 16 * rate, {}))
        for headers in (True, False):
            name = "100/s in tokens" + (", with headers" if headers else "")
            limits = Limits(tokens=20000, token_burst=20000, retry_after=wait, headers=headers)
            cases.append((name, limits, 1600, {"tokens": 200}))
    return cases


def unsteady() -> list[Case]:
    """Limits that change or are shared, and servers that refuse by chance or for a while."""
    cases: list[Case] = []
    for wait in (1.0, None):
        for caps in (((0.0, 32), (8.0, 16)), ((0.0, 8), (8.0, 16))):
            name = f"{caps[0][1]}, then {caps[1][1]} at once"
            cases.append((name, Limits(caps=caps, retry_after=wait), 2400, {"latency": 0.1}))
        two = {"latency": 0.15, "clients": 2}
        cases += [
            ("two processes, 16 at once", Limits(caps=((0.0, 16),), retry_after=wait), 1600, two),
            ("two processes, 100/s", Limits(rate=100, burst=100, retry_after=wait), 1600, two),
        ]
        for chance in (0.02, 0.05, 0.1, 0.2, 0.3):
            limits = Limits(chance=chance, retry_after=wait)
            cases.append((f"{chance:.0%} by chance", limits, 6400, {"latency": 0.2}))
        for rate, latency in ((1, 1.0), (1, 5.0), (6, 5.0), (30, 1.0), (30, 5.0)):
            limits = Limits(rate=rate, burst=1, retry_after=wait)
            calls = max(50, 20 * rate)
            name = f"{rate}/s, no burst, {latency:.0f} s a reply"
            cases.append((name, limits, calls, {"latency": latency}))
    both = Limits(chance=0.1, retry_after=1.0, caps=((0.0, 32),))
    cases.append(("32 at once, 10% by chance", both, 2400, {"latency": 0.2}))
    both = Limits(chance=0.1, retry_after=1.0, rate=100, burst=100)
    cases.append(("100/s, 10% by chance", both, 1600, {"latency": 0.2}))
    block = Limits(rate=100, burst=100, block=1.0, retry_after=1.0)
    cases.append(("100/s, a refusal blocks for 1 s", block, 2000, {}))
    return cases


def main() -> None:
    print(f"{'server':38} {'wait':>5} {'ideal':>7} {'bar':>7} {'wall':>7} {'refused':>8}")
    for name, limits, calls, options in [*steady(), *unsteady()]:
        if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
            continue
        run = simulate(limits, calls, **options)  # type: ignore[arg-type]
        lost = f" {run.lost} lost" if run.lost else ""
        wait = "none" if limits.retry_after is None else f"{limits.retry_after:g}"
        seconds = f"{run.ideal:7.1f} {run.bound:7.1f} {run.wall:7.1f}"
        print(f"{name:38} {wait:>5} {seconds} {run.refused:8.1%}{lost}")


if __name__ == "__main__":
    main()
