"""What the line of a run's progress counts."""

import asyncio
from itertools import count
from types import SimpleNamespace

import pytest

from mmconv.cli.shared.costs import Budget
from mmconv.cli.shared.progress import line, progress
from mmconv.core.config import ModelSpec, PriceSpec, RunSpec
from mmconv.core.run_stats import ModelStats, RunStats, Tokens
from mmconv.core.types import Failure

MODEL = ModelSpec(provider="fake", model="echo")
SPEC = RunSpec(benchmark="riddles", models={"candidate": MODEL, "judge": MODEL})


def test_a_first_run_with_equal_calls_reuses_replies() -> None:
    role = ModelStats(requested=2000, cached=1500, skipped=1)
    status = line(SPEC, RunStats(models={"candidate": role}), 10.0)
    assert status == "3,501 calls, 200.0/s, 1,500 replies reused, 1 skipped"


def test_the_latest_reason_of_each_role_is_told() -> None:
    candidate, judge = ModelStats(requested=1), ModelStats(cached=1)
    candidate.count_retry("timeout", "no reply")
    candidate.count_retry("rate_limit", "HTTP 429")
    candidate.count_retry("rate_limit", "HTTP 429")
    judge.count_retry("connection", "nobody there")
    judge.count(Failure(kind="connection", message="no", attempts=8), cached=False)
    status = line(SPEC, RunStats(models={"candidate": candidate, "judge": judge}), 10.0)
    assert status == (
        "3 calls, 0.1/s, 1 reply reused, 4 retried (latest: rate_limit, connection), "
        "1 failed (connection)"
    )


def test_why_a_model_that_has_answered_nothing_is_asked_again_is_told_in_full() -> None:
    candidate, judge = ModelStats(), ModelStats()
    candidate.count_retry("connection", "Cannot connect to host 127.0.0.1:9")
    status = line(SPEC, RunStats(models={"candidate": candidate, "judge": judge}), 10.0)
    assert status == "0 calls, 0.0/s, 1 retried (connection: Cannot connect to host 127.0.0.1:9)"


@pytest.mark.parametrize(
    ("counts", "status"),
    [
        (ModelStats(session=Tokens(input=1000, output=100)), "$0.002"),
        (
            ModelStats(requested=1200, session=Tokens(unmetered=1100)),
            "price unknown: 1,100 of 1,200 calls without token counts",
        ),
        (
            ModelStats(session=Tokens(input=1000), timed_out=1),
            "$0.001 without 1 attempt that timed out",
        ),
        (
            ModelStats(session=Tokens(input=1000), timed_out=9),
            "$0.001 without 9 attempts that timed out",
        ),
    ],
)
def test_the_price_is_told_as_far_as_it_is_known(counts: ModelStats, status: str) -> None:
    priced = MODEL.model_copy(update={"price": PriceSpec(input=1, output=10)})
    free = MODEL.model_copy(update={"price": PriceSpec(input=0, output=0)})
    spec = RunSpec(benchmark="riddles", models={"candidate": priced, "judge": free})
    # what is free costs nothing, however many tokens it takes
    judge = ModelStats(requested=3, session=Tokens(unmetered=3), timed_out=3)
    roles = {"candidate": counts, "judge": judge}
    assert line(spec, RunStats(models=roles), 10.0).endswith(f"/s, {status}")


@pytest.mark.parametrize(
    ("tokens", "spent"),
    [(1_110, "$0.0011"), (9, "$0.000009"), (50_000, "$0.05"), (12_345_678, "$12.35")],
)
def test_little_money_has_as_many_digits_as_it_takes(tokens: int, spent: str) -> None:
    model = MODEL.model_copy(update={"price": PriceSpec(input=0, output=1)})
    spec = RunSpec(benchmark="riddles", models={"candidate": model})
    stats = RunStats(models={"candidate": ModelStats(requested=24, session=Tokens(output=tokens))})
    budget = Budget(0.000001, spec)
    budget.count(spec, stats)
    assert budget.spent() == f"--max-cost 1e-06: the calls of this session have cost {spent}"
    assert line(spec, stats, 1.0).endswith(f", {spent}")


async def test_progress_counts_calls_before_any_conversation_has_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 1000 calls 900 are cached, and each of the others takes ten seconds."""
    passed, half = count(), asyncio.Event()
    role = ModelStats(cached=900)
    stats = RunStats(plans=50, planned=500, models={"candidate": role})

    def monotonic() -> float:
        role.requested = next(passed)
        if role.requested == 50:
            half.set()
        return 10.0 * role.requested

    monkeypatch.setattr("mmconv.core.run_stats.time", SimpleNamespace(monotonic=monotonic))
    monkeypatch.setattr("mmconv.cli.shared.progress.LINE_SECONDS", 0)
    async with progress(SPEC, stats, 100):
        await half.wait()
    lines = capsys.readouterr().err.splitlines()
    assert "950/1,000 calls, 0.1/s, 900 replies reused, about 8 min left" in lines


async def test_why_nothing_comes_at_first_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mmconv.cli.shared.progress.LINE_SECONDS", 0)
    async with progress(SPEC, RunStats(), 3):
        for _ in range(9):
            await asyncio.sleep(0)
    status = "0 calls, 0.0/s; no reply yet: local models are loaded first"
    assert status in capsys.readouterr().err.splitlines()
