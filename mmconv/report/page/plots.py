"""Plots as SVG that stands inside the page and takes its colours from the page's style sheet.

Matplotlib draws them, and is imported only then. It knows no style sheet: each variable is drawn
in a colour of its own that is replaced afterwards. No number is computed here.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from warnings import catch_warnings, filterwarnings

from rich.cells import cell_len

from mmconv.core.types import Cell
from mmconv.report.tables.text import fold_anywhere

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VARIABLES = ("ink", "muted", "line", "series-1", "series-2", "series-3", "series-4", "series-5")
"""Names of the style sheet's colours."""

WIDTH = 5.0
"""Inches of 72 units; the page scales a plot to the room that it has."""

LABEL = 26
"""Signs of a place's name in one line beside a plot, of which Chinese ones count twice."""

LINE = 12
"""Units from one line of a name to the next."""

HOLLOW = "hollow: no interval"
"""What the caption says of points without an interval, which are not the surest of all."""

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

    `told` says in words what is drawn, for those who do not see it; `note` explains a sign.
    """

    title: str
    svg: str
    told: str
    note: str = ""
    legend: tuple[tuple[str, str], ...] = ()


Ends = tuple[float, float]


def span(points: Iterable[Point | None]) -> Ends:
    """From where to where the points with their intervals lie; plots that share it compare."""
    there = [point for point in points if point is not None]
    ends = [end for point in there for end in (point.value, point.low, point.high)]
    known = [end for end in ends if end is not None]
    return min(known), max(known)


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
    return _plot(title, figure, places, series)


def bars(title: str, places: Sequence[str], series: Sequence[Series], highest: float) -> Plot:
    """Columns over named places, the series side by side, on a scale from 0 to the highest."""
    figure, axes = _empty(WIDTH, 2.2, left=0.45)
    width = 0.8 / max(1, len(series))
    for number, each in enumerate(series):
        middle = (number - (len(series) - 1) / 2) * width
        for place, point in enumerate(each.points):
            if point is not None:
                axes.bar(place + middle, point.value, 0.9 * width, color=_STAND_INS[each.colour])
    axes.set_xticks(range(len(places)), places)
    axes.set_xlim(-0.6, len(places) - 0.4)
    axes.set_ylim(0, 1.04 * highest)
    axes.grid(axis="y", color=_STAND_INS["line"], linewidth=0.8)
    return Plot(
        title=title,
        svg=_svg(figure, title),
        told="; ".join(
            f"{each.name}, {place}: {point.value:.1f}"
            for each in series
            for place, point in zip(places, each.points, strict=True)
            if point is not None
        ),
        legend=tuple((each.name, each.colour) for each in series),
    )


def sideways(
    title: str, places: Sequence[str], series: Series, ends: Ends, *, zero: bool = False
) -> Plot:
    """Points beside named places, from above, on a scale that spans the ends and a little more.

    With `zero` it spans 0 too, where a line marks no difference.
    """
    labels = [fold_anywhere(place, LABEL) for place in places]
    rows = max((len(lines) for lines in labels), default=1)
    longest = max((cell_len(line) for lines in labels for line in lines), default=0)
    figure, axes = _empty(
        WIDTH, 0.5 + (0.2 + 0.16 * rows) * len(places), left=0.25 + 0.075 * longest
    )
    for place, point in enumerate(series.points):
        if point is not None:
            _draw(axes, place, point, series.colour, upright=False)
    low, high = ends
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
        axes.axvline(0, color=_STAND_INS["muted"], linewidth=1)
    margin = 0.08 * (high - low) or 0.5
    axes.set_xlim(low - margin, high + margin)
    for place, lines in enumerate(labels):
        _name(axes, place, lines)
    axes.set_yticks([])
    axes.set_ylim(len(places) - 0.4, -0.6)
    axes.grid(axis="x", color=_STAND_INS["line"], linewidth=0.8)
    return _plot(title, figure, places, [series])


def _plot(title: str, figure: Figure, places: Sequence[str], series: Sequence[Series]) -> Plot:
    bare = any(point is not None and point.low is None for each in series for point in each.points)
    return Plot(
        title=title,
        svg=_svg(figure, title),
        told=_description(places, series),
        note=HOLLOW if bare else "",
        legend=tuple((each.name, each.colour) for each in series),
    )


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
    filled = paint if point.low is not None else "none"
    axes.plot(*spot, "o", color=paint, markerfacecolor=filled, markeredgewidth=1.5, markersize=6)


def _name(axes: Axes, place: float, lines: Sequence[str]) -> None:
    """The name of a place, left of the plot: to the letter, though between $ may stand a formula.

    Each line is a text of its own that ends there; Matplotlib would place those of one text by the
    widths that they have in its own font.
    """
    for number, line in enumerate(lines):
        axes.annotate(
            line,
            xy=(0, place),
            xycoords=axes.get_yaxis_transform(),
            xytext=(-6, ((len(lines) - 1) / 2 - number) * LINE),
            textcoords="offset points",
            ha="right",
            va="center_baseline",
            annotation_clip=False,
            parse_math=False,
            color=_STAND_INS["muted"],
            fontsize=10,
        )


def _description(places: Sequence[str], series: Sequence[Series]) -> str:
    return "; ".join(
        f"{each.name}, {place}: {point.value:.2f}"
        + (" (no interval)" if point.low is None else f" ({point.low:.2f} to {point.high:.2f})")
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
    fonts = rc_context(
        {"svg.fonttype": "none", "font.family": "DejaVu Sans", "svg.hashsalt": title}
    )
    with fonts, catch_warnings():
        # the page sets names in fonts of its own
        filterwarnings("ignore", r"Glyph \d+ .* missing from font")
        figure.savefig(file, format="svg", metadata=nothing)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r' (xmlns(:xlink)?|version|width|height)="[^"]*"', "", text, count=5)
    text = _UNUSED_ID.sub("", text.replace("xlink:href", "href"))
    text = _FONT.sub("", _ALONE.sub("", text))
    for name, stand_in in _STAND_INS.items():
        text = text.replace(stand_in, f"var(--{name})")
    return text.replace("<svg", '<svg aria-hidden="true" focusable="false"', 1)
