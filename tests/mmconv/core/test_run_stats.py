"""How fast a run gets on, as it is told while it is under way."""

import time

import pytest

from mmconv.core.errors import Transient
from mmconv.core.run_stats import ModelStats, RunStats, Throughput
from mmconv.core.types import Reply


def test_the_time_left_is_that_of_calls_at_the_latest_pace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """250 plans of two calls; in the first ten seconds nothing is answered, then two a second."""
    pace = Throughput()
    shown = []
    for now in range(61):
        monkeypatch.setattr(time, "monotonic", lambda now=now: now)
        role = ModelStats(requested=2 * max(0, now - 10))
        stats = RunStats(plans=100, planned=200, models={"candidate": role})
        progress = pace.measure(stats, 250)
        shown.append((progress.rate, progress.seconds_left))
    assert (shown[0], shown[10], shown[-1]) == ((0, None), (0, None), (2, 200))


def test_cached_replies_do_not_shorten_the_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pace = Throughput()
    for now, asked in ((0, 0), (1, 0), (11, 10)):
        stats = RunStats(
            plans=10, planned=1000, models={"candidate": ModelStats(requested=asked, cached=900)}
        )
        monkeypatch.setattr(time, "monotonic", lambda now=now: now)
        progress = pace.measure(stats, 10)
    assert progress.calls == 910
    assert progress.seconds_left == pytest.approx(90 * 11 / 10)


def test_plans_that_are_not_opened_count_as_the_others_on_average() -> None:
    stats = RunStats(plans=4, planned=36)
    assert [stats.planned_in(plans) for plans in (3, 4, 100)] == [36, 36, 900]
    assert RunStats().planned_in(100) == 0


@pytest.mark.parametrize(("tokens", "unmetered"), [((7, 5), 0), ((7, None), 1), ((None, 5), 1)])
def test_replies_may_be_unmetered(tokens: tuple[int | None, int | None], unmetered: int) -> None:
    stats = ModelStats()
    stats.count(Reply(text="Yes.", input_tokens=tokens[0], output_tokens=tokens[1]), cached=False)
    assert (stats.requested, stats.session.unmetered) == (1, unmetered)


def test_replies_are_counted_by_who_answered_as_far_as_that_is_told() -> None:
    stats = RunStats()
    for name, stored in (("a", True), ("b", False), ("a", False), (None, True)):
        stats.model("candidate").count(Reply(text="Yes.", answered_by=name), cached=stored)
    stats.model("judge").count(Reply(text="Yes."), cached=False)
    assert stats.answered_by == {"candidate": {"a": 2, "b": 1}}


def test_a_reply_that_nobody_needs_is_unmetered_as_others_are_and_no_failed_attempt_is() -> None:
    stats = ModelStats()
    for message in (Reply(text="Yes."), Reply(text="Yes.", input_tokens=7, output_tokens=5)):
        stats.count_tokens(message)
    stats.count_unanswered(Transient("timeout", "no reply"))
    assert (stats.session.unmetered, stats.total.unmetered, stats.total.input) == (1, 1, 7)
