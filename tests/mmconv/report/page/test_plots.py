"""What plots show truly: points without intervals, names to the letter, one axis with zero."""

from __future__ import annotations

import re

from mmconv.report.page.plots import HOLLOW, Plot, Point, Series, bars, dots, span

SPAN = (1.0, 3.0)


def series(*points: Point | None, name: str = "free", colour: str = "series-2") -> Series:
    return Series(name=name, colour=colour, points=points)


def texts(plot: Plot, anchor: str) -> list[str]:
    return re.findall(rf'text-anchor="{anchor}">([^<]*)<', plot.svg)


def test_a_point_without_an_interval_is_hollow_and_the_caption_says_so() -> None:
    sure, bare = Point(value=2.0, low=1.0, high=3.0), Point(value=2.0)
    both = dots("both", ["a", "b"], [series(sure, bare)], SPAN)
    alone = dots("alone", ["a"], [series(sure)], SPAN)
    assert (both.note, alone.note) == (HOLLOW, "")
    assert re.findall(r"<circle [^>]*style=\"fill:([^;\"]*)", both.svg) == [
        "var(--series-2)",
        "none",
    ]
    assert both.words == "free, a: 2.00 (1.00 to 3.00); free, b: 2.00"


def test_a_dot_is_at_its_value_between_the_ticks() -> None:
    plot = dots("one", ["a"], [series(Point(value=2.0, low=1.0, high=3.0))], SPAN)
    x = {text: float(at) for at, text in re.findall(r'<text x="([\d.]+)"[^>]*>([^<]*)<', plot.svg)}
    [centre] = re.findall(r'cx="([\d.]+)"', plot.svg)
    [ends] = re.findall(r'class="interval-line" x1="([\d.]+)" x2="([\d.]+)"', plot.svg)
    assert [float(centre), *map(float, ends)] == [x["2.0"], x["1.0"], x["3.0"]]


def test_differences_show_where_zero_is() -> None:
    plot = dots("two", ["a"], [series(Point(value=2, low=1, high=3))], SPAN, zero=True)
    assert "0" in texts(plot, "middle")
    assert 'class="zero"' in plot.svg
    minus = dots("three", ["a"], [series(Point(value=-2, low=-3, high=-1))], (-3, -1))
    assert "\N{MINUS SIGN}2.0" in texts(minus, "middle")


def test_a_long_name_is_in_lines_beside_the_plot() -> None:
    name = "Llama-3.2-11B-Vision-Instruct, " + "\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 20
    plot = dots("long", [name], [series(Point(value=2.0))], SPAN)
    assert texts(plot, "end") == [
        "Llama-3.2-11B-Vision-",
        "Instruct,",
        "\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 13,
        "\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 7,
    ]


def test_names_are_never_markup() -> None:
    plot = dots("evil", ["<script> & $x$"], [series(Point(value=2.0))], SPAN)
    assert texts(plot, "end") == ["&lt;script&gt; &amp; $x$"]


def test_equal_values_and_single_ones_are_drawn() -> None:
    for points in ((Point(value=5.0),), (Point(value=0.0), Point(value=0.0))):
        plot = dots("flat", ["a", "b"][: len(points)], [series(*points)], span(points))
        assert len(re.findall("<circle", plot.svg)) == len(points)
        assert texts(plot, "middle")


def test_plots_take_their_colours_from_the_page_and_load_nothing() -> None:
    point = Point(value=2, low=1, high=3)
    plots = [
        dots("one", ["a", "b"], [series(point, None)], (1, 10)),
        bars("two", ["a", "b"], [series(point, None)], 3.0),
    ]
    for plot in plots:
        assert "var(--series-2)" in plot.svg
        assert not re.search(r"#[0-9a-f]{6}\b|https?:|<style| id=", plot.svg)
        assert "free, a: 2.00 (1.00 to 3.00)" in plot.words
