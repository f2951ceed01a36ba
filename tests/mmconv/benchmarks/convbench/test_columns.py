"""How columns and cells may be written, and what is not taken for what it may not be."""

from dataclasses import replace

import openpyxl
import pytest

from mmconv.benchmarks.convbench.data import CATEGORIES, LISTS
from tests.mmconv.benchmarks.convbench.data_files import (
    Source,
    dataset,
    load,
    record,
    refusal,
    write_lines,
)


def test_categories_are_spelt_as_in_the_papers_lists(source: Source) -> None:
    """In two spellings one category would be two rows of a table."""
    names = dict(zip(CATEGORIES, ("ocr  math", "age\u00a0reasoning", "my own"), strict=True))
    write_lines(source.data, [record(1, **names)])
    (row,) = load(source)
    assert row.categories == ("OCR Math", "Age Reasoning", "my own")


@pytest.mark.parametrize("written", ["2.0", 2.0, "02"])
def test_an_id_may_be_written_as_a_fraction(source: Source, written: object) -> None:
    write_lines(source.data, [record(1) | {"ID": written}])
    (row,) = load(source)
    assert row.id == "2"


def test_a_spreadsheet_may_show_ids_as_it_likes(source: Source) -> None:
    path = source.data.with_suffix(".xlsx")
    book = openpyxl.Workbook()
    assert book.active is not None
    row = record(1)
    book.active.append(list(row))
    book.active.append(list(row.values()))
    book.active.cell(2, [*row].index("ID") + 1).number_format = "000"
    book.save(path)
    assert [row.id for row in load(replace(source, data=path))] == ["1"]


@pytest.mark.parametrize("name", ["Status", "first_turn_answr", "third turn demands"])
def test_a_column_that_looks_like_a_missing_one_is_no_stray(source: Source, name: str) -> None:
    """Drafts would pass as verified, and categories or focus points be left out in silence."""
    write_lines(source.data, [record(n, **{name: "draft"}) for n in (1, 2, 3)])
    meant = name.lower().replace(" ", "_").replace("answr", "answer")
    assert refusal(source).problems == (
        f"rows.jsonl: nothing reads the column {name!r}; rename it to {meant!r}",
    )
    rows = dataset(replace(source, skip_bad=True))
    assert len(rows.samples) == 3
    assert [*rows.other_problems] == ["rows.jsonl"]


def test_a_stray_column_is_passed_over(source: Source) -> None:
    write_lines(source.data, [record(n, notes="fine") for n in (1, 2, 3)])
    assert len(load(source)) == 3


@pytest.mark.parametrize("mark", ["nan", "None", " NaN "])
def test_the_mark_of_an_empty_cell_is_no_text(source: Source, mark: str) -> None:
    write_lines(source.data, [record(1, first_turn_answer=mark)])
    [fault] = refusal(source).problems
    assert fault.endswith(
        f"first_turn_answer holds {mark!r}, as programs write an empty cell: empty it"
    )


def test_counts_are_those_of_the_figure_without_its_repeat() -> None:
    assert [len(names) for names in LISTS.values()] == [71, 63, 79]
    assert len({name.strip() for names in LISTS.values() for name in names}) == 213
