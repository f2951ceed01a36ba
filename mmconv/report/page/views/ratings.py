"""How often each rating was given: a judge that always says 8 is seen here, and in no mean."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle

from mmconv.report.page.content import Section
from mmconv.report.page.plots import VARIABLES, Plot, Point, Series, bars
from mmconv.stats import Column, ScoreFrame

_COLOURS = [name for name in VARIABLES if name.startswith("series")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A metric whose values are ratings from `lowest` to `highest`.

    With `turns`, which names them, each turn has a plot of its own; `titles` names conditions.
    """

    metric: str
    lowest: int
    highest: int
    turns: Mapping[int, str] | None = None
    titles: Mapping[str, str] | None = None


def rating_sections(frame: ScoreFrame, *scales: Scale) -> Iterator[Section]:
    """One section with the plots of all scales, if anything was rated."""
    plots: list[Plot] = []
    told: list[str] = []
    for scale in scales:
        ratings = _ratings(frame.select(metric=scale.metric))
        if not ratings:
            continue
        plots += _plots(frame, scale)
        [(most, count)] = Counter(map(math.floor, ratings)).most_common(1)
        of = f"{scale.metric}: " if len(scales) > 1 else ""
        told.append(
            f"{of}The rating given most often is {most}: {100 * count / len(ratings):.1f} % of "
            f"{len(ratings):,}."
        )
        if not all(map(float.is_integer, ratings)):
            told.append("What lies between two ratings counts for the lower one.")
    if plots:
        yield Section(
            id="ratings",
            title="How often each rating was given",
            sentences=(" ".join(told),),
            plots=tuple(plots),
        )


def _plots(frame: ScoreFrame, scale: Scale) -> Iterator[Plot]:
    conditions = frame.distinct("condition")
    places = [str(rating) for rating in range(scale.lowest, scale.highest + 1)]
    turns: list[tuple[int | None, str]] = [*(scale.turns or {}).items()]
    shown: dict[str, list[Series]] = {}
    for turn, name in turns or [(None, scale.metric)]:
        series = []
        for condition, colour in zip(conditions, cycle(_COLOURS), strict=False):
            column = frame.select(metric=scale.metric, condition=condition, turn=turn)
            if ratings := _ratings(column):
                title = (scale.titles or {}).get(condition, condition)
                shares = tuple(_shares(ratings, scale))
                missing = len(column.values) - len(ratings)
                label = f"{title}, n = {len(ratings):,}" + f" ({missing:,} missing)" * bool(missing)
                series.append(Series(name=label, colour=colour, points=shares))
        if series:
            shown[name] = series
    drawn = (
        point.value for each in shown.values() for one in each for point in one.points if point
    )
    highest = max(drawn, default=0.0)
    for name, series in shown.items():
        # a plot of one series has no legend
        of = f"{name}: {series[0].name}" if len(series) == 1 else name
        yield bars(f"Share of each rating (%), {of}", places, series, highest)


def _shares(ratings: list[float], scale: Scale) -> Iterator[Point]:
    counts = Counter(map(math.floor, ratings))
    for rating in range(scale.lowest, scale.highest + 1):
        yield Point(value=100 * counts[rating] / len(ratings))


def _ratings(column: Column) -> list[float]:
    return [value for value in column.values if value is not None]
