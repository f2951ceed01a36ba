"""Runs beside each other: their own numbers, merged tables, differences, and refusals."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from scipy.special import stdtr, stdtrit

from mmconv.benchmarks.base.compare import find_quantities
from mmconv.benchmarks.options import display_of
from mmconv.benchmarks.registry import TITLES
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.types import Cell, Score, Table
from mmconv.report.comparison.differences import (
    DIFFERS,
    ONCE,
    Comparison,
    compare,
    merge_tables,
)
from mmconv.report.findings import comparison_findings
from mmconv.run_folder.saved_run import read_finished, read_scores, read_tables
from mmconv.stats import INTERVALS, ScoreFrame, holm, paired_difference
from mmconv.stats.estimates import CAUTIOUS
from tests.mmconv.report.runs import ALPHA, BETA, FAILING, SIZE, Pair, make_run


def by_name(made: Comparison) -> dict[str, Table]:
    return {table.name: table for table in made.tables}


def numbers(cell: Cell) -> list[float]:
    found = [cell.value, cell.low, cell.high]
    return [value for value in found if isinstance(value, float)]


@pytest.mark.parametrize("benchmark", TITLES)
def test_all_benchmarks_are_laid_side_by_side(benchmark: str, pair: Pair) -> None:
    first, second = pair(benchmark)
    tables = by_name(compare([first, second]))
    assert tables["differences"].rows
    for run, label in ((first, "alpha"), (second, "beta")):
        for own in read_tables(run / "tables"):
            merged = tables[own.name]
            rows = [row for name, row in merged.rows.items() if label in name]
            assert sorted(map(_values, rows)) == sorted(map(_values, own.rows.values()))
    differing = [
        cell for row in tables["differences"].rows.values() for cell in row.values() if cell.value
    ]
    # no fake model answers about a drawing right
    assert differing or benchmark == "scenes"


async def test_differences_are_paired_and_say_what_made_no_pair(tmp_path: Path) -> None:
    first = await make_run("convbench", tmp_path)
    second = await make_run("convbench", tmp_path, FAILING, limit=8)
    made = compare([first, second])
    cell = by_name(made)["differences"].rows["S2_hat"]["direct (1-10)"]
    left, right = (
        ScoreFrame(read_scores(run / "scores.jsonl")).select(
            metric="rating", condition="perception", turn=2
        )
        for run in (first, second)
    )
    plain = paired_difference(left, right)
    assert (cell.value, cell.low, cell.high, cell.n) == (plain.mean, plain.low, plain.high, plain.n)
    assert cell.missing["unpaired: only in alpha"] == SIZE - 8
    assert cell.n is not None
    assert 0 < cell.n < 8
    failed = {why: n for why, n in cell.missing.items() if why.startswith("unpaired: gamma: ")}
    assert cell.n + sum(failed.values()) == 8
    runs = by_name(made)["runs"]
    assert runs.rows["gamma"]["common"].value == 8.0
    assert any("over the 8 that both have" in note for note in by_name(made)["differences"].notes)
    assert "limit: not set in alpha; 8 in gamma." in runs.notes


def test_a_run_against_another_turns_its_sign(pair: Pair) -> None:
    first, second = pair("convbench")
    there, back = (by_name(compare(runs)) for runs in ([first, second], [second, first]))
    turned = 0
    for name in ("differences", "delta_differences"):
        assert there[name].rows.keys() == back[name].rows.keys()
        for row, cells in there[name].rows.items():
            assert cells.get(DIFFERS) == back[name].rows[row].get(DIFFERS)
            for column in cells.keys() - {DIFFERS}:
                cell, other = cells[column], back[name].rows[row][column]
                assert numbers(cell)[:1] == pytest.approx([-numbers(other)[0]])
                ends = [end for end in (cell.low, cell.high) if end is not None]
                mirrored = [-end for end in (other.high, other.low) if end is not None]
                assert ends == pytest.approx(mirrored)
                turned += bool(ends)
    # seven ratings and seven wins differ, and five deltas of each
    assert turned > 20


def test_delta_differences_are_the_difference_of_the_deltas(pair: Pair) -> None:
    tables = by_name(compare(pair("convbench")))
    for delta in ("S2_hat - S2", "S3_tilde - S3_hat"):
        own = [
            numbers(tables["deltas"].rows[f"{delta}, {label}"]["direct (1-10)"])[0]
            for label in ("alpha", "beta")
        ]
        found = numbers(tables["delta_differences"].rows[delta]["direct (1-10)"])[0]
        assert found == pytest.approx(own[1] - own[0])


def test_a_mean_is_not_compared_without_a_part_of_it(copies: tuple[Path, Path]) -> None:
    """R1 was the difference of R2 where no conversation has a score S0 in both runs."""
    planted = {0: 2.0, 1: 4.0, 2: 6.0, 3: 8.0}
    for place, run in enumerate(copies):
        records = [orjson.loads(line) for line in (run / "scores.jsonl").read_bytes().splitlines()]
        for record in records:
            if record["metric"] == "rating" and record["condition"] == "free":
                lost = record["turn"] == 0 and int(record["sample"]) % 2 == place
                value = None if lost else planted[record["turn"]] + place
                record |= {"value": value, "why": "unparsed" if lost else None}
        (run / "scores.jsonl").write_bytes(b"\n".join([*map(orjson.dumps, records), b""]))
    rows = by_name(compare(copies))["differences"].rows
    found = {name: rows[name]["direct (1-10)"] for name in ("R1", "R2", "S0", "S1")}
    assert (found["R2"].value, found["S1"].value) == pytest.approx((1.0, 1.0))
    assert found["R2"].n == SIZE
    missing = {f"unpaired: {label}: unparsed": SIZE // 2 for label in ("alpha", "beta")}
    for name in ("R1", "S0"):
        assert (found[name].value, found[name].n, found[name].missing) == (None, 0, missing)


async def test_several_runs_are_corrected_and_runs_of_one_model_told_apart(tmp_path: Path) -> None:
    runs = [
        await make_run("convbench", tmp_path),
        await make_run("convbench", tmp_path, BETA),
        await make_run("convbench", tmp_path, ALPHA, seed=1),
    ]
    made = compare(runs)
    assert [run.label for run in made.runs] == ["alpha (seed 0)", "beta", "alpha (seed 1)"]
    differences = by_name(made)["differences"]
    assert "S1, alpha (seed 1)" in differences.rows
    # of all pairs and all tables at once, and not of each quantity's alone
    sizes = [
        sum(cell.low is not None for row in table.rows.values() for cell in row.values())
        for table in made.tables
        if table.name.endswith("differences")
    ]
    [counted] = re.findall(r"over the (\d+) differences of all tables", " ".join(differences.notes))
    assert sizes[0] < int(counted) <= sum(sizes)
    found = [note for note in differences.notes if note.startswith("True differences that ")]
    assert len(found) == 1


def rate(run: Path, values: Callable[[int, int], float]) -> None:
    """Rate each turn of every sample in the free setting; what else there is goes."""
    records = [orjson.loads(line) for line in (run / "scores.jsonl").read_bytes().splitlines()]
    kept = [
        record | {"value": values(record["turn"], int(record["sample"])), "why": None}
        for record in records
        if (record["metric"], record["condition"]) == ("rating", "free")
    ]
    (run / "scores.jsonl").write_bytes(b"\n".join([*map(orjson.dumps, kept), b""]))


def p_value(cell: Cell) -> float:
    """Of a mean of twelve samples, from the interval by Student's t."""
    assert isinstance(cell.value, float)
    assert cell.low is not None
    half = (cell.value - cell.low) / float(stdtrit(SIZE - 1, 0.975))
    return float(2 * stdtr(SIZE - 1, -abs(cell.value) / half))


def test_differences_significant_in_their_table_are_marked(
    copies: tuple[Path, Path],
) -> None:
    first, second = copies

    # perception differs beyond doubt, reasoning just so, creation by chance, S0 by the same
    clear = {1: (3, 3, 4, 2), 2: (2, 1, -1, 1), 3: (1, -1, 0, 0), 0: (2, 2, 2, 2)}
    rate(first, lambda turn, sample: 5.0)
    rate(second, lambda turn, sample: 5.0 + clear[turn][sample % 4])
    made = compare([first, second])
    table = by_name(made)["differences"]
    column = "direct (1-10)"
    assert table.columns == (column, DIFFERS)
    cells = {name: row[column] for name, row in table.rows.items()}
    p_values = {name: p_value(cell) for name, cell in cells.items() if cell.low is not None}
    assert p_values.keys() == {"R1", "R2", "S1", "S2", "S3"}
    alone = {name for name, p in p_values.items() if p < 0.05}
    kept = {name for name, p in holm(p_values).items() if p < 0.05}
    marked = {name for name, row in table.rows.items() if DIFFERS in row}
    assert marked == kept
    assert "S2" in alone - kept
    assert all(table.rows[name][DIFFERS] == Cell(value=column) for name in marked)
    assert {each.row for each in made.differences if each.is_significant} == marked
    findings = comparison_findings(made, display_of("convbench"))
    assert len(findings) == min(3, len(marked))
    assert not any("reasoning" in finding for finding in findings)
    [perception] = [each for each in findings if "perception" in each]
    assert perception == "beta is better than alpha in perception: +3.00 [2.53, 3.47]."
    assert any(
        note.startswith("differs: significant") and "the 5 differences" in note
        for note in table.notes
    )


async def test_runs_that_score_dialogues_otherwise_share_what_is_the_same(
    tmp_path: Path,
) -> None:
    first = await make_run("mtbench101", tmp_path)
    second = await make_run("mtbench101", tmp_path, BETA, options={"minimum": False})
    tables = by_name(compare([first, second]))
    assert tables["differences"].columns == ("mean of turns",)
    lacking = "Not compared, since beta does not have it: minimum of turns (all of it)."
    assert lacking in tables["differences"].notes


def test_differences_of_the_same_numbers_count_once(copies: tuple[Path, Path]) -> None:
    first, second = copies
    rate(first, lambda turn, sample: 5.0)
    rate(second, lambda turn, sample: 5.0 + (sample % 4) * (turn % 2))
    table = by_name(compare([first, second]))["differences"]
    names = {name for name, row in table.rows.items() if row["direct (1-10)"].low is not None}
    assert names == {"R1", "R2", "S1", "S3"}
    assert any(note.startswith("differs: ") and "the 3 differences" in note for note in table.notes)
    assert ONCE in table.notes


def test_all_rules_for_intervals_are_told_beside_differences(pair: Pair) -> None:
    notes = by_name(compare(pair("fbbench")))["differences"].notes
    assert [*notes].count(INTERVALS) == [*notes].count(CAUTIOUS) == 1


def test_a_benchmark_without_contrasts_of_its_own_is_compared_by_its_means() -> None:
    spec = RunSpec(benchmark="mine.riddles:Riddles", models={"candidate": ALPHA})
    means = find_quantities(ScoreFrame(_riddles()), spec)
    found = {(each.name, each.group): each for each in means}
    assert found.keys() == {("fit", "free"), ("length, turn 1", "free"), ("length", "free")}
    [column] = found["fit", "free"].columns.values()
    assert column.values == [1.0, 2.0]


async def test_differences_of_a_benchmark_of_ones_own_end_with_its_scale(tmp_path: Path) -> None:
    runs = [await _riddle_run(tmp_path, each) for each in (ALPHA, BETA)]
    for run, values in zip(runs, ([1.0] * 8, [9.0, *[10.0] * 7]), strict=True):
        records = [orjson.loads(line) for line in (run / "scores.jsonl").read_bytes().splitlines()]
        kept = [each for each in records if each["metric"] == "fit"]
        for record, value in zip(kept, values, strict=True):
            record["value"] = value
        (run / "scores.jsonl").write_bytes(b"\n".join([*map(orjson.dumps, kept), b""]))
    cell = by_name(compare(runs))["differences"].rows["fit"]["free"]
    assert (cell.value, cell.high) == (8.875, 9.0)


async def _riddle_run(folder: Path, candidate: ModelSpec) -> Path:
    data = folder / "riddles.jsonl"
    data.write_bytes(b"\n".join(orjson.dumps({"id": n, "riddle": f"{n}?"}) for n in range(8)))
    name = "tests.example_benchmark:Riddles"
    return await make_run(name, folder, candidate, options={"data": str(data)})


def _riddles() -> Iterator[Score]:
    for sample in ("1", "2"):
        yield Score(sample=sample, condition="free", metric="fit", value=float(sample))
        yield Score(sample=sample, condition="free", metric="length", turn=1, value=3.0)


def _values(row: Mapping[str, Cell]) -> list[str]:
    return [str(cell.value) for cell in row.values()]


def _merged(run: Path, titles: Mapping[tuple[str, str], str], rows: Sequence[str]) -> Table:
    """One table of runs by (candidate, label), each with its title and `{}` as its candidate."""
    read = read_finished(run)
    runs = []
    for (candidate, label), title in titles.items():
        named = {row.format(candidate): {"mean": Cell(value=1.0)} for row in rows}
        spec = read.spec.model_copy(
            update={"models": {"candidate": ALPHA.model_copy(update={"name": candidate})}}
        )
        tables = (Table.of("scores", title, named),)
        runs.append(replace(read, spec=spec, label=label, tables=tables))
    [merged] = merge_tables(runs)
    return merged


def test_rows_that_begin_with_the_candidate_get_the_label_of_the_run(pair: Pair) -> None:
    own = ("{}", "{}, all", "{} - gpt, N=8", "{} (long)", "Wins: {}, all")
    rows = (*own, "gpt-{}, all", "{}-next", "S1 ({})")
    titles = {("gpt", "gpt (1)"): "Scores", ("gpt", "gpt (2)"): "Scores"}
    merged = _merged(pair("convbench")[0], titles, rows)
    assert merged.title == "Scores"
    others = ("gpt-gpt, all, {}", "gpt-next, {}", "S1 (gpt), {}")
    assert [*merged.rows] == [
        row.format(label) for row in (*own, *others) for label in ("gpt (1)", "gpt (2)")
    ]


def test_a_merged_title_names_the_other_runs(pair: Pair) -> None:
    titles = {
        ("echo", "echo"): "Scores of echo, judged by gpt",
        ("gpt", "gpt"): "Scores of gpt, judged by gpt",
        ("free", "free"): "Scores of free, judged by gpt",
    }
    merged = _merged(pair("convbench")[0], titles, ["free, turn 1"])
    assert merged.title == "Scores of echo, judged by gpt; also gpt, free"
    assert len(merged.rows) == len(titles)
