"""Plots as SVG inside the page, with colours and fonts from the page's style sheet.

A plot computes no estimate. It draws values with their intervals (`dots`) or shares (`bars`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from rich.cells import cell_len

from mmconv.core.types import Cell
from mmconv.report.tables.text import fold_anywhere

COLOURS = ("series-1", "series-2", "series-3", "series-4", "series-5")
"""Names of the style sheet's colours for series."""

WIDTH = 360.0
"""Units of a plot's width; the page scales it."""

LETTER = 5.7
"""Units that a letter of a label is wide, at most."""

LINE = 12.0
"""Units from one line of a label to the next."""

LABEL = 26
"""Columns of a label in one line; a Chinese sign takes two."""

HOLLOW = "hollow: no interval"

Ends = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A value with its interval, if it has one."""

    value: float
    low: float | None = None
    high: float | None = None


def point_of(cell: Cell | None) -> Point | None:
    """A cell as a point; None for one without a number."""
    if cell is None or not isinstance(cell.value, float):
        return None
    return Point(value=cell.value, low=cell.low, high=cell.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points of one colour, one for each place of the plot, or None."""

    name: str
    colour: str
    points: tuple[Point | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """SVG, its title, and what it shows in words for screen readers; `note` explains a sign."""

    title: str
    svg: str
    words: str
    note: str = ""
    legend: tuple[tuple[str, str], ...] = ()


def span(points: Iterable[Point | None]) -> Ends:
    """The range of the points with their intervals; plots that share it can be compared."""
    ends = [end for point in points if point for end in (point.value, point.low, point.high)]
    known = [end for end in ends if end is not None]
    return min(known), max(known)


def dots(
    title: str, places: Sequence[str], series: Sequence[Series], ends: Ends, *, zero: bool = False
) -> Plot:
    """Each value as a dot with its interval, one row per place; `zero` marks no difference."""
    series = [each for each in series if any(each.points)]
    labels = [fold_anywhere(place, LABEL) for place in places]
    left = 10 + LETTER * max((cell_len(line) for lines in labels for line in lines), default=0)
    low, high = (min(*ends, 0.0), max(*ends, 0.0)) if zero else ends
    margin = 0.03 * ((high - low) or 1.0)
    low, high = low - margin, high + margin
    step = 9.0 if len(series) > 1 else 0.0

    def x(value: float) -> float:
        return left + (WIDTH - left - 8) * (value - low) / (high - low)

    heights = [max(LINE * len(lines) + 6, step * len(series) + 8, 20) for lines in labels]
    height = sum(heights)
    drawn = []
    for tick, text in _ticks(low, high):
        kind = "zero" if zero and tick == 0 else "grid"
        drawn.append(f'<line class="{kind}" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y2="{height}"/>')
        drawn.append(_text(x(tick), height + 13, text, "middle"))
    top = 0.0
    for place, (lines, tall) in enumerate(zip(labels, heights, strict=True)):
        middle = top + tall / 2
        for number, line in enumerate(lines):
            y = middle + (number - (len(lines) - 1) / 2) * LINE + 3.5
            drawn.append(_text(left - 8, y, line, "end"))
        there = [(point, each.colour) for each in series if (point := each.points[place])]
        for number, (point, colour) in enumerate(there):
            y = middle + (number - (len(there) - 1) / 2) * step
            drawn.append(_dot(point, x, y, colour))
        top += tall
    return Plot(
        title=title,
        svg=_svg(drawn, height + 18),
        words=_in_words(places, series),
        note=HOLLOW if any(p and p.low is None for s in series for p in s.points) else "",
        legend=tuple((each.name, each.colour) for each in series),
    )


def bars(title: str, places: Sequence[str], series: Sequence[Series], highest: float) -> Plot:
    """Columns over named places, the series next to each other, on a scale from 0."""
    height, left = 120.0, 28.0
    wide = (WIDTH - left) / max(1, len(places))
    bar = 0.8 * wide / max(1, len(series))
    drawn = []
    for tick, text in _ticks(0.0, highest or 1.0):
        y = height - height * tick / (1.05 * (highest or 1.0))
        drawn.append(f'<line class="grid" x1="{left}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        drawn.append(_text(left - 5, y + 3.5, text, "end"))
    for at, place in enumerate(places):
        drawn.append(_text(left + (at + 0.5) * wide, height + 13, place, "middle"))
        for number, each in enumerate(series):
            if point := each.points[at]:
                tall = height * point.value / (1.05 * (highest or 1.0))
                start = left + (at + 0.1) * wide + number * bar
                drawn.append(
                    f'<rect x="{start:.1f}" y="{height - tall:.1f}" width="{0.9 * bar:.1f}" '
                    f'height="{tall:.1f}" style="fill:var(--{each.colour})"/>'
                )
    return Plot(
        title=title,
        svg=_svg(drawn, height + 18),
        words=_in_words(places, series),
        legend=tuple((each.name, each.colour) for each in series),
    )


def _dot(point: Point, x: Callable[[float], float], y: float, colour: str) -> str:
    paint = f"var(--{colour})"
    centre = f'cx="{x(point.value):.1f}" cy="{y:.1f}" r="3.2"'
    if point.low is None or point.high is None:
        return f'<circle {centre} style="fill:none;stroke:{paint};stroke-width:1.4"/>'
    ends = f'x1="{x(point.low):.1f}" x2="{x(point.high):.1f}" y1="{y:.1f}" y2="{y:.1f}"'
    return (
        f'<line class="interval-line" {ends} style="stroke:{paint}"/>'
        f'<circle {centre} style="fill:{paint}"/>'
    )


def _ticks(low: float, high: float) -> Iterator[tuple[float, str]]:
    """Round numbers in a range, at most six, with their texts."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough)
    digits = max(0, -math.floor(math.log10(step)) + (step / power == 2.5))
    for number in range(math.ceil(low / step), math.floor(high / step) + 1):
        yield number * step, f"{number * step:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(drawn: Sequence[str], height: float) -> str:
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH:.0f} {height:.0f}" aria-hidden="true" '
        f'focusable="false">{"".join(drawn)}</svg>'
    )


def _in_words(places: Sequence[str], series: Sequence[Series]) -> str:
    return "; ".join(
        f"{each.name}, {place}: {point.value:.2f}"
        + ("" if point.low is None else f" ({point.low:.2f} to {point.high:.2f})")
        for each in series
        for place, point in zip(places, each.points, strict=True)
        if point is not None
    )
