"""What the page says of a run: sentences, plots of the attribution, categories, losses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mmconv.benchmarks.convbench.quantities import DIRECT, PAIRWISE
from mmconv.core.types import SAME_TEXT, Cell, Table
from mmconv.report.page.common_sections import closing_sections
from mmconv.report.page.content import Content, View
from mmconv.report.page.losses import Losses
from mmconv.report.page.views.convbench import verdict_words, view
from mmconv.report.page.views.convbench_sentences import (
    attribution_sentences,
    comparison_sentences,
    delta_sentences,
)
from mmconv.report.tables.convbench_names import typeset_name
from tests.mmconv.report.call_records import asked, judged, said


def deltas(**cells: Cell) -> Table:
    names = {"reasoning": "S2_hat - S2", "creation": "S3_hat - S3"}
    return Table(
        name="deltas",
        title="",
        columns=(DIRECT.title, PAIRWISE.title),
        rows={names[name]: {DIRECT.title: cell} for name, cell in cells.items()},
        signed=True,
    )


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (
            Cell(value=0.83, low=0.41, high=1.25, n=90),
            "reasoning gains 0.83 points of 10 (95 % interval +0.41 to +1.25)",
        ),
        (Cell(value=-0.83, low=-1.25, high=-0.41, n=90), "reasoning loses 0.83 points of 10"),
        (
            Cell(value=0.1, low=-0.2, high=0.4, n=90),
            "with n = 90, this cannot be told from chance",
        ),
        (
            Cell(value=0.1, low=-0.2, high=0.4, n=25, missing={"unpaired: unparsed": 35}),
            "with n = 25 of 60, this cannot be told from chance",
        ),
        (Cell(value=0.0, n=12), "reasoning stays as it is on average (n = 12; no interval"),
        (Cell(value=2.0, n=12), "reasoning gains 2.00 points of 10 (n = 12; no interval"),
    ],
)
def test_a_delta_s_sentence_says_no_more_than_its_interval(cell: Cell, expected: str) -> None:
    [sentence] = delta_sentences([deltas(reasoning=cell)])
    assert expected in sentence


def test_a_delta_s_sentence_tells_why_there_is_no_interval() -> None:
    table = deltas(reasoning=Cell(value=0.0, n=53), creation=Cell(value=2.0, n=12))
    reasoning, creation = delta_sentences([table], {("S2_hat - S2", DIRECT.title)})
    assert reasoning.endswith("(n = 53; no interval: every sample differs by the same).")
    assert creation.endswith("(n = 12; no interval: fewer than 5 images).")
    for sentence in delta_sentences([table]):
        assert sentence.endswith("; no interval).")


def test_a_delta_without_a_value_has_no_sentence() -> None:
    assert delta_sentences([deltas(reasoning=Cell(value=None, n=0, missing={"unparsed": 3}))]) == ()
    assert delta_sentences([]) == ()


def attributed(perception: Cell, creation: Cell) -> str:
    """What is said of failed creations whose shares these are."""
    table = Table(
        name="attribution_net",
        title="",
        columns=("direct failures",),
        rows={
            "creation failed: due to perception": {"direct failures": perception},
            "creation failed: due to creation": {"direct failures": creation},
        },
    )
    [sentence] = attribution_sentences(table, "direct failures")
    return sentence


@pytest.mark.parametrize(
    ("creation", "expected"),
    [
        (
            Cell(value=102.5, low=88.0, high=111.0, n=20),
            "Most failures in creation come from creation itself: perfect earlier turns take none "
            "of them away on balance, and with them there are 3 % more (95 % interval 12 % fewer "
            "to 11 % more; 20 failures).",
        ),
        (
            Cell(value=72.0, low=49.0, high=95.0, n=20),
            "Some failures in creation come from creation itself: 72 % net (95 % interval 49 to "
            "95 %; 20 failures).",
        ),
        (
            Cell(value=100.4, low=-0.4, high=100.4, n=20),
            "Where failures in creation come from cannot be told from chance; the largest share is "
            "that of creation itself: 100 % net (95 % interval 0 to 100 %; 20 failures).",
        ),
        (
            Cell(value=80.0, low=60.0, high=130.0, n=20),
            "Most failures in creation come from creation itself: 80 % net (95 % interval 60 to "
            "over 100 %; 20 failures; over 100 % stands for failures that perfect turns add).",
        ),
        (
            Cell(value=100.0, low=-11.0, high=182.0, n=12),
            "Where failures in creation come from cannot be told from chance; the largest share is "
            "that of creation itself: 100 % net (95 % interval below 0 to over 100 %; 12 failures; "
            "below 0 and over 100 % stand for failures that perfect turns add).",
        ),
        (
            Cell(value=67.0, n=3),
            "3 failures in creation: too few to attribute.",
        ),
        (
            Cell(value=267.0, n=3, missing={"no score with perfect perception": 18}),
            "Of 21 failures in creation, 3 could be followed: too few to attribute.",
        ),
        (
            Cell(value=None, n=0, missing={"no score with perfect perception": 4}),
            "Of 4 failures in creation, none could be followed: too few to attribute.",
        ),
        (
            Cell(value=72.0, low=49.0, high=95.0, n=20, missing={"no score": 5}),
            "Some failures in creation come from creation itself: 72 % net (95 % interval 49 to "
            "95 %; 20 of 25 failures followed).",
        ),
    ],
)
def test_what_most_failures_come_from_is_claimed_as_far_as_the_interval_bears(
    creation: Cell, expected: str
) -> None:
    perception = replace(creation, value=-2.0)
    if creation.low is not None:
        perception = replace(perception, low=-30.0, high=30.0)
    assert attributed(perception, creation) == expected


def test_a_sure_share_goes_before_a_larger_one_that_may_be_chance() -> None:
    unsure = Cell(value=80.0, low=-20.0, high=180.0, n=12)
    sure = Cell(value=55.0, low=51.0, high=60.0, n=12)
    assert attributed(unsure, sure).startswith("Some failures in creation come from creation")


@pytest.mark.parametrize(("high", "amount"), [(50.0, "Most"), (60.0, "Some")])
def test_most_is_said_only_where_the_intervals_lie_apart(high: float, amount: str) -> None:
    largest = Cell(value=70.0, low=55.0, high=95.0, n=30)
    other = Cell(value=30.0, low=5.0, high=high, n=30)
    assert attributed(largest, other).startswith(f"{amount} failures in creation come from perc")


def test_a_share_of_more_than_all_failures_is_told_as_what_it_means() -> None:
    cells = {
        "perception": Cell(value=-30.0, low=-60.0, high=-5.0, n=30),
        "reasoning": Cell(value=120.0, low=90.0, high=150.0, n=30),
        "creation": Cell(value=10.0, low=0.0, high=30.0, n=30),
    }
    [sentence] = attribution_sentences(failures(**cells), "direct failures")
    assert sentence == (
        "Most failures in creation come from reasoning: perfect reasoning takes away more than all "
        "of them, since the perfect turn before it adds some (30 failures)."
    )


def test_the_headline_tells_what_caused_the_failures_before_what_changes() -> None:
    gain = deltas(reasoning=Cell(value=0.83, low=0.41, high=1.25, n=90))
    scores = Table(name="scores", title="", columns=(), rows={})
    share = Cell(value=72.0, low=55.0, high=95.0, n=20)
    shown = view([scores, gain, failures(creation=share)])
    assert shown.lead == attribution_sentences(failures(creation=share), "direct failures")
    assert shown.sections[0].sentences == delta_sentences([gain])
    few = failures(creation=Cell(value=67.0, n=3))
    unknown = view([scores, gain, few])
    assert unknown.lead == view([scores, gain]).lead == delta_sentences([gain])
    assert unknown.sections[1].sentences == ("3 failures in creation: too few to attribute.",)


def test_a_plot_of_the_attribution_tells_how_many_failures_it_is_of() -> None:
    followed = Cell(value=26.0, low=-12.0, high=54.0, n=19, missing={"no score": 5})
    [section] = view([failures(perception=followed)]).sections
    [plot] = section.plots
    assert plot.title == "Source of direct failures (%), n = 19 of 24 in creation"


@pytest.mark.parametrize("title", ["laid to", "attributed to"])
def test_the_samples_of_runs_of_before_are_marked_too(title: str) -> None:
    row = {title: Cell(value="perception"), "in the shares": Cell(value="yes")}
    table = Table(
        name="attribution_samples", title="", columns=(*row,), rows={"direct/creation/7": row}
    )
    marks = {"7": ("creation failed, attributed to perception (direct)",)}
    assert view([table]).marks == marks


def test_a_failure_that_does_not_count_in_the_shares_is_marked_as_such() -> None:
    why = "no: no score with perfect reasoning"
    row = {"attributed to": Cell(value="perception"), "in the shares": Cell(value=why)}
    table = Table(
        name="attribution_samples", title="", columns=(*row,), rows={"direct/creation/7": row}
    )
    mark = "creation failed, attributed to perception (direct, not in the shares)"
    assert view([table]).marks == {"7": (mark,)}


def test_a_comparison_says_what_differs_and_what_cannot_be_told() -> None:
    cells = {
        "S1": Cell(value=-2.5, low=-3.7, high=-1.3, n=12),
        "S2": Cell(value=-0.25, low=-0.97, high=0.47, n=12),
        "S3": Cell(value=0.3, low=-0.6, high=1.2, n=12),
        "S0": Cell(value=0.0, n=12),
    }
    table = Table(
        name="differences",
        title="",
        columns=(DIRECT.title,),
        rows={f"{name}, blurred": {DIRECT.title: cell} for name, cell in cells.items()},
        signed=True,
    )
    minus = "\N{MINUS SIGN}"
    told = (
        f"blurred against pocket, with nothing given: perception is 2.50 points of 10 lower (95 % "
        f"interval {minus}3.70 to {minus}1.30); with n = 12, no difference in reasoning or "
        "creation can be told from chance; for the whole conversation there is no interval: "
    )
    for equal, why in (
        ({("S0, blurred", DIRECT.title)}, "every sample differs by the same."),
        ({("S1, blurred", DIRECT.title), ("S0", DIRECT.title)}, "fewer than 5 images."),
    ):
        labels = ("pocket", "blurred", "other")
        sure = {("S1, blurred", DIRECT.title), ("S2, other", DIRECT.title)}
        assert comparison_sentences(table, labels, sure, equal) == (told + why,)


def test_a_comparison_s_sentence_is_as_sure_as_the_column_of_what_differs() -> None:
    """Two intervals are apart from 0; corrected for all differences, one of them is not."""
    apart = Cell(value=-2.5, low=-3.7, high=-1.3, n=12)
    rows = {"S1": apart, "S2": replace(apart, value=-0.9, low=-1.7, high=-0.1), "S3": apart}
    table = Table(
        name="differences",
        title="",
        columns=(DIRECT.title,),
        rows={name: {DIRECT.title: cell} for name, cell in rows.items()},
        signed=True,
    )
    sure = {("S1", DIRECT.title), ("S2", PAIRWISE.title), ("S3", DIRECT.title)}
    [sentence] = comparison_sentences(table, ("pocket", "blurred"), sure, ())
    perception, creation, reasoning = sentence.removesuffix(".").split("; ")
    assert perception.endswith("perception is 2.50 points of 10 lower " + _INTERVAL)
    assert creation == f"creation is 2.50 points of 10 lower {_INTERVAL}"
    assert reasoning.startswith("reasoning is 0.90 points of 10 lower (95 % interval ")
    assert reasoning.endswith("), which may be chance among so many differences")


_INTERVAL = "(95 % interval \N{MINUS SIGN}3.70 to \N{MINUS SIGN}1.30)"


def test_a_level_is_not_said_to_cause_most_failures_beside_one_that_is_unknown() -> None:
    """Old runs tell shares without an interval, and new ones nothing in their place."""
    most = Cell(value=72.0, low=55.0, high=95.0, n=20)
    [known] = attribution_sentences(
        failures(perception=most, creation=Cell(value=28.0, low=5.0, high=45.0, n=20)),
        "direct failures",
    )
    [unknown] = attribution_sentences(
        failures(perception=most, creation=Cell(value=None, n=20)), "direct failures"
    )
    assert known.startswith("Most failures in creation come from perception: ")
    assert unknown.startswith("Some failures in creation come from perception: ")


def test_names_of_quantities_are_typeset() -> None:
    assert typeset_name("S3_tilde - S3_hat") == "S\u03033 \u2212 S\u03023"


def test_losses_are_counted_where_they_happened() -> None:
    losses = Losses()
    losses.add(
        "1",
        [
            asked("turn_1", [said("user", "one?")], "first", finish="length"),
            asked("turn_2", None, None, state="failure", problem="timeout", finish=None),
            judged("direct/turn_1", "?", parse="unparsed: no", condition="free"),
            judged("direct/turn_1~retry_1", "6"),
            judged("direct/turn_2", "?", state="skipped", parse=None, problem="turn_2"),
        ],
    )
    answers, verdicts, problems = losses.tables()
    assert answers.rows["free, turn_1"]["cut off"].value == 1
    assert answers.rows["free, turn_2"]["failed"].value == 1
    assert verdicts.rows["free, direct/turn_1"]["read when asked again"].value == 1
    assert verdicts.rows["free, direct/turn_2"]["not asked"].value == 1
    assert problems.rows["candidate: timeout"]["for instance sample"].value == "1"
    assert losses.any
    assert losses.sentence() == ("Of 2 answers, 1 cut off, 1 failed; of 2 verdicts, 1 not asked.")


def test_rows_of_losses_stand_in_the_order_of_turns_however_calls_ended() -> None:
    losses = Losses()
    ended = ("pairwise_B/turn_1", "direct/turn_1", "direct/overall", "direct/turn_2")
    losses.add("1", [judged(call, "?") for call in ended])
    later = ("direct/overall", "pairwise_A/turn_1", "direct/turn_10")
    losses.add("2", [judged(call, "?", condition="perception") for call in later])
    [verdicts] = losses.tables()
    assert list(verdicts.rows) == [
        "free, direct/turn_1",
        "free, direct/turn_2",
        "free, direct/overall",
        "free, pairwise_B/turn_1",
        "perception, direct/turn_10",
        "perception, direct/overall",
        "perception, pairwise_A/turn_1",
    ]


def test_a_comparison_of_equal_texts_is_no_loss() -> None:
    losses = Losses()
    losses.add("1", [judged("duel", "", state="skipped", parse=None, problem=SAME_TEXT)])
    [verdicts] = losses.tables()
    assert verdicts.rows["free, duel"]["of the same text"].value == 1
    assert not losses.any


def failures(**cells: Cell) -> Table:
    """A table of net shares, whose only column is of direct failures."""
    rows = {f"creation failed: due to {name}": {"direct failures": cells[name]} for name in cells}
    return Table(name="attribution_net", title="", columns=("direct failures",), rows=rows)


def test_a_share_of_very_few_failures_is_in_no_plot() -> None:
    few, enough = Cell(value=-333.0, n=3), Cell(value=26.0, low=-12.0, high=54.0, n=19)
    [section] = view([failures(perception=few, reasoning=enough)]).sections
    [plot] = section.plots
    assert "reasoning: 26.00" in plot.told
    assert "333" not in plot.told + plot.svg
    [section] = view([failures(perception=few)]).sections
    assert section.plots == ()


def test_what_has_no_value_at_all_is_in_no_plot_and_no_map() -> None:
    lost = Cell(value=None, n=0, missing={"unparsed": 3})
    columns = {DIRECT.title: lost, PAIRWISE.title: Cell(value=50.0, low=40.0, high=60.0, n=3)}
    scores = Table(name="scores", title="", columns=tuple(columns), rows={"S1": columns})
    lacking = deltas(reasoning=lost)
    cells = {"direct, free": lost}
    categories = Table(
        name="categories_perception", title="", columns=tuple(cells), rows={"Count": cells}
    )
    [section] = view([scores, lacking, categories]).sections
    assert [plot.title for plot in section.plots] == [f"Scores, {PAIRWISE.title}"]
    # the reason is told to those who have no pointer too
    assert f"missing in S1: {DIRECT.title}: 3 with an unreadable verdict" in section.notes
    assert any(note.startswith("missing in S\u03022 \u2212 S2: ") for note in section.notes)


def test_a_view_says_which_tables_it_sets_in_its_own_way() -> None:
    rows = {"S1": {"a": Cell(value=1.0)}}
    tables = [Table(name=name, title="", columns=("a",), rows=rows) for name in ("scores", "mine")]
    plain = View(lead=(), sections=(), words=verdict_words, levels={1: "perception"})
    left = []
    for shown in (plain, replace(plain, used=frozenset({"mine"})), view(())):
        content = Content(title="", runs=(), view=shown, tables=tables, about={})
        *_, last = closing_sections(content, Losses())
        left.append([grid.id for grid in last.folded])
    assert left == [["scores", "mine"], ["scores"], ["mine"]]


def test_a_category_s_cell_tells_its_size_and_whether_that_is_small() -> None:
    cells = {"direct, free": Cell(value=5.5, n=5), "pairwise, free": Cell(value=100.0, n=1)}
    table = Table(
        name="categories_perception", title="", columns=tuple(cells), rows={"Count": cells}
    )
    [section] = view([table]).sections
    [line] = section.maps[0].lines
    assert [(cell.value, cell.size, cell.few) for cell in line.cells if cell] == [
        ("5.50", "5", False),
        ("100.00", "1", True),
    ]
