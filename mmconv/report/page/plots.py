"""Plots as SVG that stands inside the page and takes its colours from the page's style sheet.

Matplotlib draws them, and is imported only then. It knows no style sheet: each variable is drawn
in a colour of its own that is replaced afterwards. No number is computed here.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmconv.values import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VARIABLES = ("ink", "muted", "line", "series-1", "series-2", "series-3", "series-4", "series-5")
"""Names of the style sheet's colours."""

WIDTH = 5.0
"""Inches of 72 units; the page scales a plot to the room that it has."""

_STAND_INS = {name: f"#0100{place:02x}" for place, name in enumerate(VARIABLES, start=16)}
_FONT = re.compile(r"font-family: [^;\"]*;? ?")
_ALONE = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>", re.DOTALL)
_UNUSED_ID = re.compile(r' id="[A-Za-z][\w.]*?_\d+"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A value with its interval, where it has one."""

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
    """Points of one colour, one for each place of the plot, None where there is none."""

    name: str
    colour: str
    points: tuple[Point | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A drawn plot: SVG to stand in HTML, and its title for the page to print.

    `told` says in words what is drawn, for those who do not see it.
    """

    title: str
    svg: str
    told: str
    legend: tuple[tuple[str, str], ...] = ()


def upright(title: str, places: Sequence[str], series: Sequence[Series], ends: Ends) -> Plot:
    """Points over named places, the series side by side, on a scale with the given ends."""
    figure, axes = _empty(WIDTH, 3.0, left=0.35)
    width = 0.62 / max(1, len(series))
    for number, each in enumerate(series):
        for place, point in enumerate(each.points):
            if point is not None:
                offset = (number - (len(series) - 1) / 2) * width
                _draw(axes, place + offset, point, each.colour, upright=True)
    axes.set_xticks(range(len(places)), places)
    axes.set_xlim(-0.6, len(places) - 0.4)
    axes.set_ylim(*ends)
    axes.grid(axis="y", color=_STAND_INS["line"], linewidth=0.8)
    legend = tuple((each.name, each.colour) for each in series)
    return Plot(
        title=title, svg=_svg(figure, title), told=_description(places, series), legend=legend
    )


def sideways(title: str, places: Sequence[str], series: Series, *, zero: bool) -> Plot:
    """Points beside named places, from above; with `zero` a line marks no difference."""
    longest = max(map(len, places), default=0)
    figure, axes = _empty(WIDTH, 0.5 + 0.36 * len(places), left=min(2.2, 0.25 + 0.075 * longest))
    for place, point in enumerate(series.points):
        if point is not None:
            _draw(axes, place, point, series.colour, upright=False)
    if zero:
        axes.axvline(0, color=_STAND_INS["muted"], linewidth=1)
    axes.set_yticks(range(len(places)), places)
    axes.set_ylim(len(places) - 0.4, -0.6)
    axes.margins(x=0.08)
    axes.grid(axis="x", color=_STAND_INS["line"], linewidth=0.8)
    return Plot(title=title, svg=_svg(figure, title), told=_description(places, [series]))


Ends = tuple[float, float]


def _empty(width: float, height: float, *, left: float) -> tuple[Figure, Axes]:
    """A figure of so many inches without a frame, with room for labels on the left and below.

    Matplotlib could find out how much room they need, in as long as all the rest takes.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    below, above = 0.35, 0.08
    axes = figure.add_axes(
        (left / width, below / height, (width - left - above) / width, 1 - (below + above) / height)
    )
    figure.patch.set_visible(False)
    axes.patch.set_visible(False)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, pad=6, colors=_STAND_INS["muted"], labelsize=10)
    return figure, axes


def _draw(axes: Axes, place: float, point: Point, colour: str, *, upright: bool) -> None:
    paint = _STAND_INS[colour]
    if point.low is not None and point.high is not None:
        ends, twice = (point.low, point.high), (place, place)
        line = (twice, ends) if upright else (ends, twice)
        axes.plot(*line, color=paint, linewidth=2.2, solid_capstyle="round", alpha=0.55)
    spot = (place, point.value) if upright else (point.value, place)
    axes.plot(*spot, "o", color=paint, markersize=6.5)


def _description(places: Sequence[str], series: Sequence[Series]) -> str:
    return "; ".join(
        f"{each.name}, {place}: {point.value:.2f}"
        + (f" ({point.low:.2f} to {point.high:.2f})" if point.low is not None else "")
        for each in series
        for place, point in zip(places, each.points, strict=True)
        if point is not None
    )


def _svg(figure: Figure, title: str) -> str:
    """The figure as SVG without what only a file of its own needs."""
    from matplotlib import rc_context

    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    file = io.StringIO()
    # ids within a figure come from the salt, and all figures stand in one page
    with rc_context({"svg.fonttype": "none", "font.family": "DejaVu Sans", "svg.hashsalt": title}):
        figure.savefig(file, format="svg", metadata=nothing)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r' (xmlns(:xlink)?|version|width|height)="[^"]*"', "", text, count=5)
    text = _UNUSED_ID.sub("", text.replace("xlink:href", "href"))
    text = _FONT.sub("", _ALONE.sub("", text))
    for name, stand_in in _STAND_INS.items():
        text = text.replace(stand_in, f"var(--{name})")
    return text.replace("<svg", '<svg aria-hidden="true" focusable="false"', 1)
