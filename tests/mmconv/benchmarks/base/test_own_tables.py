"""Tables of a benchmark of one's own: what is missing, intervals, and tables that it adds."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from mmconv.benchmarks.base.file_benchmark import SHARED_PICTURES

from mmconv.benchmarks.base import FileBenchmark, Scores
from mmconv.benchmarks.shared.compared import plain_means
from mmconv.core.errors import UserCodeError
from mmconv.core.types import Cell, Score, Table
from mmconv.stats import (
    ScoreFrame,
    as_cell,
    contrast,
    measure,
    paired_share_difference,
    summarise,
    summarise_share,
)
from tests.example_benchmark import Riddles
from tests.mmconv.benchmarks.base.own import build


def scores(metric: str, values: Iterable[float], condition: str = "free") -> Iterator[Score]:
    for number, value in enumerate(values):
        yield Score(sample=str(number), condition=condition, metric=metric, value=value)


SHARE = [1.0] * 25 + [0.0] * 15
"""25 of 40; Wilson's interval of their share is the textbook's, 0.47 to 0.76."""


class Scaled(Riddles):
    conditions = ("free", "hinted")
    scale = MappingProxyType(  # type: ignore[assignment]
        {"fit": (1, 10), "rating": (1, 10), "correct": (0, 1), "win": (0, 1), "errors": None}
    )


def test_a_sample_without_a_metric_that_others_have_is_missing(tmp_path: Path) -> None:
    given = [*scores("errors", [1, 2, 5]), *scores("rating", [4, 4])]
    [table] = build(tmp_path, Scaled).tables(given)
    assert table.rows["rating"]["free"].missing == {"not scored": 1}
    assert table.rows["errors"]["free"].missing == {}
    assert table.rows["errors"]["hinted"] == Cell(value=None, n=0)


def test_zeros_and_ones_have_the_interval_of_a_share_unless_the_scale_is_another(
    tmp_path: Path,
) -> None:
    ones = [1.0] * 18
    given = [
        *scores("correct", SHARE),
        *scores("errors", SHARE),
        *scores("rating", ones),
        *scores("win", [*SHARE, 0.5]),
    ]
    [table] = build(tmp_path, Scaled).tables(given)
    cells = {metric: row["free"] for metric, row in table.rows.items()}
    share = summarise_share(ScoreFrame(given).select(metric="correct"))
    assert (f"{share.low:.2f}", f"{share.high:.2f}") == ("0.47", "0.76")
    for metric in ("correct", "errors"):
        assert (cells[metric].low, cells[metric].high) == (share.low, share.high)
    assert (cells["rating"].value, cells["rating"].low) == (1.0, None)
    plain = summarise(ScoreFrame(given).select(metric="win"))
    assert (cells["win"].low, cells["win"].high) == (plain.low, plain.high)


def test_each_metric_ends_where_its_own_scale_does(tmp_path: Path) -> None:
    values = [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]
    [table] = build(tmp_path, Scaled).tables([*scores("win", values), *scores("errors", values)])
    assert table.rows["win"]["free"].high == 1
    assert (table.rows["errors"]["free"].high or 0) > 1


def test_zeros_and_ones_are_compared_as_shares_where_both_runs_have_nothing_else() -> None:
    flipped = [*SHARE[8:], *SHARE[:8]]
    runs = [ScoreFrame(scores("correct", values)) for values in (SHARE, flipped, [2.0] * 40)]
    spec: Any = None  # means are made of any run's scores
    first, other, more = (next(plain_means(run, spec)) for run in runs)
    found = contrast(first, other, ("a", "b")).summary
    lefts, rights = (run.select(metric="correct") for run in runs[:2])
    assert (found.low, found.high) == tuple(
        getattr(paired_share_difference(lefts, rights), end) for end in ("low", "high")
    )
    assert contrast(first, more, ("a", "c")).summary.mean == pytest.approx(2 - 25 / 40)


def rounds(of_long: float | None, of_short: float) -> Iterator[Score]:
    """30 samples of one turn, but every third of 6; a None is the last of these alone."""
    for number in range(30):
        values = [of_short] if number % 3 else [*[of_long or 0.0] * 5, of_long]
        for turn, value in enumerate(values, start=1):
            why = "no answer" if value is None else None
            given: dict[str, Any] = {"sample": str(number), "turn": turn, "value": value}
            yield Score(condition="free", metric="correct", why=why, **given)


def test_the_mean_that_is_shown_is_the_one_that_runs_are_compared_and_ranked_by(
    tmp_path: Path,
) -> None:
    given = [[*rounds(1.0, 0.0)], [*rounds(0.0, 1.0)]]
    shown = [build(tmp_path, Scaled).tables(each)[0].rows["correct"]["free"] for each in given]
    spec: Any = None
    first, other = (next(plain_means(ScoreFrame(each), spec, Scaled.scale)) for each in given)
    assert shown == [as_cell(measure(each)) for each in (first, other)]
    assert [cell.value for cell in shown] == pytest.approx([1 / 3, 2 / 3])
    found = contrast(first, other, ("a", "b")).summary
    assert found.mean == pytest.approx(1 / 3)
    assert found.n == 30
    [table] = build(tmp_path, Scaled).tables([*rounds(None, 1.0)])
    cell = table.rows["correct"]["free"]
    assert (cell.value, cell.n, cell.missing) == (1.0, 20, {"no answer": 10})


@pytest.mark.parametrize(
    ("scale", "values", "end", "cut"),
    [
        ((1, 10), [9.0, *[10.0] * 9], 9.0, True),
        ([1, None], [9.0, *[10.0] * 9], 9.0, False),
        (None, [9.0, *[10.0] * 9], 9.0, False),
        (None, [1.0] * 10, 1.0, True),
        (None, [*[2.0] * 4, *[0.0] * 6], 1.0, False),
    ],
)
def test_differences_end_where_the_scale_does(
    scale: Any, values: list[float], end: float, cut: bool
) -> None:
    """Without a scale shares end at 0 and 1, but not where they are none in the other run."""
    spec: Any = None
    least = 1.0 if end > 1 else 0.0
    runs = [ScoreFrame(scores("rating", each)) for each in ([least] * 10, values)]
    first, other = (next(plain_means(run, spec, scale)) for run in runs)
    high = contrast(first, other, ("a", "b")).summary.high
    assert high is not None
    assert high == end if cut else high > end


def test_what_pictures_have_to_do_with_clusters_is_told_where_samples_show_several(
    tmp_path: Path,
) -> None:
    riddles = build(tmp_path, Riddles)
    riddles.image_fields = ("picture",)
    given = [*scores("fit", [1, 2])]
    assert SHARED_PICTURES not in riddles.tables(given)[0].notes
    tagged = [
        Score(sample="a", condition="free", metric="fit", value=1.0, tags={"cluster": "1+2"}),
        *given,
    ]
    assert SHARED_PICTURES in riddles.tables(tagged)[0].notes


class Counted(Riddles):
    """Reads the scores once for a table of its own, and once more for that of the base class."""

    def tables(self, scores: Scores) -> Sequence[Table]:
        count = Cell(value=float(len([*scores])))
        own = Table(name="counts", title="", columns=("n",), rows={"scores": {"n": count}})
        return [*super().tables(scores), own]


def test_scores_can_be_read_again_by_a_class_that_adds_a_table(tmp_path: Path) -> None:
    means, counts = build(tmp_path, Counted).tables(scores("fit", [1, 2, 3]))
    assert counts.rows["scores"]["n"].value == means.rows["fit"]["free"].n == 3


class Added(Riddles):
    """Adds what it is told to."""

    added: Sequence[Table] = ()

    def tables(self, scores: Scores) -> Sequence[Table]:
        return [*super().tables(scores), *self.added]


def table(name: str, cell: Any, column: str = "n") -> Table:
    return Table(name=name, title="", columns=("n",), rows={"r": {column: cell}})


@pytest.mark.parametrize(
    ("added", "told"),
    [
        ([table("riddles", Cell(value=1.0))], "names 2 tables 'riddles'"),
        ([table("by/turn", Cell(value=1.0))], "names a table 'by/turn': files are named after"),
        ([table("t", 0.5)], "table 't', row 'r', column 'n' gives 0.5, which is no Cell"),
        ([table("t", Cell(value=float("nan")))], "row 'r', column 'n' holds nan: give None"),
        ([table("t", Cell(value=1.0), "m")], "column 'm': the table has no such column"),
    ],
)
def test_tables_that_could_not_be_written_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, added: list[Table], told: str
) -> None:
    monkeypatch.setattr(Added, "added", added)
    with pytest.raises(UserCodeError) as caught:
        build(tmp_path, Added).tables(scores("fit", [1, 2]))
    assert str(caught.value).startswith("Added.tables")
    assert told in str(caught.value)


def test_the_example_in_the_docstring_is_true(tmp_path: Path) -> None:
    written = FileBenchmark.tables.__doc__ or ""
    code = written.partition("::\n\n")[2].partition("\n\n")[0]
    given = (*scores("correct", [0, 0, 1]), *scores("correct", [1, 1, 1], "hinted"))
    names: dict[str, Any] = {
        "ScoreFrame": ScoreFrame,
        "as_cell": as_cell,
        "paired_share_difference": paired_share_difference,
        "scores": given,
    }
    exec(textwrap.dedent(code), names)
    assert names["change"].value == pytest.approx(2 / 3)
