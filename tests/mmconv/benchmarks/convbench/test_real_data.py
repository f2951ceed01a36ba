from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from mmconv.benchmarks.convbench.data import CAPTION, CATEGORIES, LISTS, REFERENCES, read_sides
from tests.mmconv.benchmarks.convbench.data_files import Source, dataset, load, refusal

REAL = Path(__file__).parents[5] / "shared" / "data" / "convbench"
pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason="the authors' data are not here")

SOURCE = Source(
    data=REAL / "ConvBench.xlsx",
    images=REAL / "visit_bench_images",
    annotations=REAL / "annotations_sample.jsonl",
    positions=REAL / "pairwise.npy",
)


def test_missing_columns_and_images_are_listed() -> None:
    error = refusal(replace(SOURCE, needs=(CAPTION, *REFERENCES)))
    assert sum(problem.endswith(f"no {CAPTION}") for problem in error.problems) == 570
    assert len(str(error).splitlines()) < 50
    assert sum("is not in visit_bench_images" in problem for problem in error.problems) == 518
    assert "--skip-bad-records continues with the 8 good records." in str(error)


def test_rows_with_an_image_are_loaded() -> None:
    found = dataset(replace(SOURCE, skip_bad=True))
    rows = found.samples
    assert (len({row.id for row in rows}), len(rows), len(found.bad)) == (60, 60, 518)
    assert {row.position for row in rows} == {"A", "B"}


def test_annotated_rows_are_complete() -> None:
    source = replace(SOURCE, skip_bad=True, needs=(CAPTION, *REFERENCES, *CATEGORIES))
    rows = load(source)
    assert [row.id for row in rows] == ["3", "14", "71", "127", "128", "132", "167", "173"]
    assert [row.id for row in rows if row.focus_points] == ["14", "128", "132"]
    lists = LISTS.values()
    for row in rows:
        assert all(name in known for name, known in zip(row.categories, lists, strict=True))


def test_older_focus_points_that_differ_from_the_sample_clash() -> None:
    older = replace(SOURCE, data=REAL / "ConvBench_with_demands.xlsx", skip_bad=True)
    found = dataset(older)
    assert len(found.samples) == 58
    clash = [place for place, problems in found.bad.items() if "third_turn_demands" in problems[0]]
    assert clash == [
        "ConvBench_with_demands.xlsx row 129 (ID 128)",
        "ConvBench_with_demands.xlsx row 133 (ID 132)",
    ]


def test_positions_are_the_authors() -> None:
    assert Counter(read_sides(REAL / "pairwise.npy").values()) == {"A": 301, "B": 277}
