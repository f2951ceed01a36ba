"""The tables and comparisons of a benchmark that declares no metrics: means of its scores."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mmconv.benchmarks.base import Results
from mmconv.benchmarks.base.layouts import Context, Layout, make_tables
from mmconv.benchmarks.base.metrics import Mean, Select, quantities, share
from mmconv.core.types import UNASKED, Cell, Reply, Score, Skipped, Table
from mmconv.report.tables.text import to_text
from mmconv.stats import (
    Quantity,
    ScoreFrame,
    bounded,
    contrast,
    pair,
    summarise_share,
    summarise_share_change,
)
from tests.example_benchmark import Riddle, Riddles
from tests.mmconv.benchmarks.base.own import build


def scores(metric: str, values: Iterable[float], condition: str = "free") -> Iterator[Score]:
    for number, value in enumerate(values):
        yield Score(sample=str(number), condition=condition, metric=metric, value=value)


SHARE = [1.0] * 25 + [0.0] * 15
"""25 of 40; Wilson's interval of their share is the textbook's, 0.47 to 0.76."""


class Scaled(Riddles):
    conditions = ("free", "hinted")
    scale = {  # type: ignore[assignment]  # noqa: RUF012
        "fit": (1, 10),
        "rating": (1, 10),
        "correct": (0, 1),
        "win": (0, 1),
        "errors": None,
    }


def cells(benchmark: Any, given: Iterable[Score], condition: str = "free") -> dict[str, Cell]:
    """The first table's cells of a condition, by score."""
    table = benchmark.tables([*given])[0]
    return {name: row[condition] for name, row in table.rows.items() if condition in row}


@pytest.fixture
def scaled(tmp_path: Path) -> Any:
    return build(tmp_path, Scaled)


def test_a_sample_without_a_score_that_others_have_is_missing(scaled: Any) -> None:
    unparsed = Score(sample="1", condition="free", metric="fit", value=None, why="unparsed")
    given = [*scores("errors", [1, 2, 5]), *scores("rating", [4, 4]), *scores("fit", [4]), unparsed]
    found = cells(scaled, given)
    assert found["rating"].missing == {"not scored": 1}
    assert found["errors"].missing == {}
    assert (found["fit"].value, found["fit"].n) == (4.0, 1)
    assert found["fit"].missing == {"unparsed": 1, "not scored": 1}
    assert not cells(scaled, given, "hinted")


def test_zeros_and_ones_have_the_interval_of_a_share_unless_scaled(
    scaled: Any,
) -> None:
    given = [
        *scores("correct", SHARE),
        *scores("errors", SHARE),
        *scores("rating", [1.0] * 18),
        *scores("win", [*SHARE, 0.5]),
    ]
    found = cells(scaled, given)
    interval = summarise_share(ScoreFrame(given).select(metric="correct"))
    assert (f"{interval.low:.2f}", f"{interval.high:.2f}") == ("0.47", "0.76")
    for metric in ("correct", "errors"):
        assert (found[metric].low, found[metric].high) == (interval.low, interval.high)
    assert (found["rating"].low, found["rating"].value) == (1.0, 1.0)
    assert 2 < (found["rating"].high or 0) < 3  # Wilson's for 18 of the worst ratings of 1 to 10
    plain = summarise_share(ScoreFrame(given).select(metric="win"))
    assert (found["win"].low, found["win"].high) == (plain.low, plain.high)


def test_an_interval_ends_where_the_scale_does(tmp_path: Path, scaled: Any) -> None:
    values = [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]
    found = cells(scaled, [*scores("win", values), *scores("errors", values)])
    assert 11 / 12 < (found["win"].high or 0) < 1
    assert (found["errors"].high or 0) > 1
    fit = cells(build(tmp_path, Riddles), scores("fit", [1, 10, 1, 10, 9]))["fit"]
    assert 1 < (fit.low or 0) < 6.2 < (fit.high or 0) < 10


def compared(frame: ScoreFrame, benchmark: Any) -> Quantity:
    """The first quantity that runs are compared in."""
    return next(quantities(benchmark.metrics_for(frame), frame))


def test_zeros_and_ones_are_compared_as_shares_if_both_runs_have_nothing_else(scaled: Any) -> None:
    flipped = [*SHARE[8:], *SHARE[:8]]
    runs = [ScoreFrame(scores("errors", values)) for values in (SHARE, flipped, [2.0] * 40)]
    first, other, more = (compared(run, scaled) for run in runs)
    found = contrast(first, other, ("a", "b")).summary
    left, right = (run.select(metric="errors") for run in runs[:2])
    interval = bounded(summarise_share_change(pair(left, right)), -1.0, 1.0)
    assert (found.low, found.high) == (interval.low, interval.high)
    assert contrast(first, more, ("a", "c")).summary.mean == pytest.approx(2 - 25 / 40)


def rounds(of_long: float | None, of_short: float) -> Iterator[Score]:
    """30 samples of one turn, but every third of 6; a None is the last of these alone."""
    for number in range(30):
        values = [of_short] if number % 3 else [*[of_long or 0.0] * 5, of_long]
        for turn, value in enumerate(values, start=1):
            why = "no answer" if value is None else None
            given: dict[str, Any] = {"sample": str(number), "turn": turn, "value": value}
            yield Score(condition="free", metric="correct", why=why, **given)


def test_runs_are_compared_by_the_means_that_tables_show(scaled: Any) -> None:
    given = [[*rounds(1.0, 0.0)], [*rounds(0.0, 1.0)]]
    shown = [cells(scaled, each)["correct"] for each in given]
    first, other = (compared(ScoreFrame(each), scaled) for each in given)
    assert [cell.value for cell in shown] == pytest.approx([1 / 3, 2 / 3])
    found = contrast(first, other, ("a", "b")).summary
    assert found.mean == pytest.approx(1 / 3)
    assert found.n == 30
    cell = cells(scaled, rounds(None, 1.0))["correct"]
    assert (cell.value, cell.n, cell.missing) == (1.0, 20, {"no answer": 10})


class Replied(Riddles):
    """Gives the words of an answer, a table by hand, and tags."""

    def tags(self, sample: Riddle, turn: int | None) -> dict[str, str]:
        return {"of": sample.id}

    def score(self, sample: Riddle, results: Results) -> Iterator[Score]:
        text = results["answer"].text
        if text is None:
            yield results.score("words", None, "no answer", side="left")
        else:
            yield results.score("words", len(text.split()), side="left")
        yield results["fit"].score("fit", of="rating")

    scale = None  # type: ignore[assignment]

    def metrics(self) -> Sequence[Mean]:
        long = Select("words", value=lambda words: float(words > 2))
        return [Mean("long answers", of=long, group=share("%"), table="length")]

    def layouts(self) -> Iterator[Layout]:
        yield Layout("length", "Answers of {candidate}, read by {judge}")


def test_results_hold_replies_verdicts_and_reasons(tmp_path: Path) -> None:
    benchmark = build(tmp_path, Replied)
    sample = next(benchmark.load())
    calls = {call.id: call for call in benchmark.calls(sample, "free")}
    lost = Skipped(because=UNASKED, reason="unrequested")

    def scored(answer: Any, fit: Any) -> dict[str, tuple[Any, ...]]:
        outcomes = {"answer": answer, "fit": fit, "fit~retry_1": Reply(text="Rating: 3")}
        found = benchmark.scores(sample, "free", calls, outcomes)
        return {score.metric: (score.value, score.why, dict(score.tags)) for score in found}

    found = scored(Reply(text="A map", finish="length"), Reply(text="Rating: 7"))
    assert found["words"] == (2.0, None, {"of": "a", "side": "left"})
    assert found["fit"] == (7.0, None, {"of": "a"})
    assert found["truncated"] == (1.0, None, {"of": "a", "call": "answer"})
    found = scored(lost, Reply(text="No idea."))
    assert found["words"] == (None, "no answer", {"of": "a", "side": "left"})
    assert found["fit"][:2] == (3.0, None)


def test_declared_metrics_and_layouts_make_the_tables(tmp_path: Path) -> None:
    [table] = build(tmp_path, Replied).tables(scores("words", [1, 2, 3, 4]))
    assert (table.name, table.title) == ("length", "Answers of judge, read by judge")
    cell = table.rows["long answers"]["%"]
    assert (cell.value, cell.n) == (50.0, 4)


def scores_of(wins: int, losses: int, missing: int) -> list[Score]:
    values = [1.0] * wins + [0.0] * losses + [None] * missing
    return [
        Score(
            sample=str(row),
            condition="free",
            metric="win",
            value=value,
            why="unparsed" if value is None else None,
        )
        for row, value in enumerate(values)
    ]


def made(given: list[Score]) -> Table:
    layout = Layout("scores", "Scores")
    mean = Mean("wins", of=Select("win"), group=share("%"))
    [table] = make_tables([layout], [mean], {"m": ScoreFrame(given)}, Context(candidate="m"))
    return table


def test_a_mean_has_bounds_if_more_than_two_percent_are_missing() -> None:
    assert made(scores_of(60, 38, 2)).columns == ("%",)
    table = made(scores_of(60, 37, 3))
    assert table.columns == ("%", "%, missing lowest to highest")
    bounds = table.rows["wins"]["%, missing lowest to highest"]
    assert (bounds.value, bounds.to) == pytest.approx((60.0, 63.0))
    assert "60 to 63" in to_text(table)


def test_shares_of_fewer_than_100_are_printed_in_whole_percent() -> None:
    assert "61 [51, 70] n=99" in to_text(made(scores_of(60, 39, 0)))
    assert "60.00 [50.20, 69.06] n=100" in to_text(made(scores_of(60, 40, 0)))
