"""What the page prints of a table: texts of cells, what is said once, what is left out."""

from __future__ import annotations

from mmconv.core.types import Cell, Table
from mmconv.report.page.content import cost_table
from mmconv.report.page.grids import grid
from mmconv.run_folder.layout import ModelSummary


def test_cells_are_rounded_as_elsewhere_and_tell_what_is_missing() -> None:
    table = Table(
        name="t",
        title="",
        columns=("a", "b"),
        rows={
            "x": {"a": Cell(value=0.125, low=-0.5, high=0.5, n=3), "b": Cell(value="word")},
            "y": {"a": Cell(value=None, n=0, missing={"unparsed": 2})},
        },
        signed=True,
    )
    made = grid(table)
    first, words = made.lines[0].cells
    assert first is not None
    assert words is not None
    assert (first.value, first.interval, first.counts) == ("+0.13", "−0.50 to +0.50", "n = 3")
    assert words.words
    missing, nothing = made.lines[1].cells
    assert missing is not None
    assert (missing.value, missing.why) == ("–", "2 with an unreadable verdict")
    assert made.notes[-1].endswith(": 2 with an unreadable verdict")
    assert nothing is None


def test_one_number_of_samples_is_said_once() -> None:
    cell = Cell(value=1.0, n=12)
    table = Table(name="t", title="", columns=("a",), rows={"x": {"a": cell}, "y": {"a": cell}})
    made = grid(table)
    assert made.notes == ("n = 12 throughout.",)
    assert {each.counts for line in made.lines for each in line.cells if each} == {""}


def test_a_long_table_says_how_much_it_leaves_out() -> None:
    rows = {str(number): {"a": Cell(value=1.0)} for number in range(30)}
    made = grid(Table(name="t", title="", columns=("a",), rows=rows), most=10)
    assert (len(made.lines), made.more) == (10, 20)


def test_numbers_of_tokens_have_separators_and_a_price_is_not_made_up() -> None:
    role = ModelSummary.model_validate(
        dict.fromkeys(ModelSummary.model_fields, 0)
        | {"model": "m", "failures": {}, "cost_usd": None, "total_cost_usd": None}
        | {"total_input_tokens": 5723795}
    )
    [line] = grid(cost_table({"judge": role})).lines
    assert "5,723,795" in [cell.value for cell in line.cells if cell]
    untold = role.model_copy(update={"requested": 3, "cached": 2, "total_unmetered": 4})
    for each, told in (
        (role, "price not set"),
        (untold, "price unknown: 4 of 5 calls without token counts"),
    ):
        [line] = grid(cost_table({"judge": each})).lines
        assert told in [cell.value for cell in line.cells if cell]
