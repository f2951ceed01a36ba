"""Leaderboards: numbers of the runs' own tables, order, ranks, gaps, and what is refused."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from random import Random

import orjson
import pytest

from mmconv.core.config import ModelSpec, PriceSpec
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.types import Cell, Table
from mmconv.report.comparison.differences import LEVEL
from mmconv.report.comparison.leaderboard import (
    MISSING,
    RANK,
    WARNED,
    Leaderboard,
    make_leaderboard,
    pair_contrasts,
    rank_ranges,
)
from mmconv.run_folder.layout import WARNINGS
from mmconv.run_folder.saved_run import read_tables
from mmconv.stats import Column, Quantity, contrast
from tests.example_benchmark import Riddles
from tests.mmconv.benchmarks.botchat.samples import dialogue, opponents, record, write
from tests.mmconv.report.page_runs import simulated_run
from tests.mmconv.report.runs import ALPHA, BETA, FAILING, SIZE, Pair, make_run

HEADLINES = {
    "convbench": ("leaderboard_direct", "R1", ("scores", "R1", "direct (1-10)")),
    "fbbench": ("leaderboard", "overall", ("scores", "{}", "overall")),
    "mtbench101": ("leaderboard", "average", ("scores", "average", "minimum of turns")),
    "cmteval": ("leaderboard_overall", "DLS", ("scores", "{}, overall", "DLS")),
    "botchat": ("leaderboard_uncon", "N=16", ("unieval", "{}", "N=16")),
}
"""Benchmark -> its first table, the headline, and where a run's own tables have that."""

FAULTS = {"bad": 0.95, "good": 0.05, "fair": 0.5}
"""Candidate -> how often it perceives wrongly."""


def by_name(board: Leaderboard) -> dict[str, Table]:
    return {table.name: table for table in board.tables}


def own_table(run: Path, name: str) -> Table:
    return next(table for table in read_tables(run / "tables") if table.name == name)


@pytest.fixture(name="runs", scope="module")
def _runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [asyncio.run(simulated_run(folder, name, rate)) for name, rate in FAULTS.items()]


@pytest.mark.parametrize("benchmark", HEADLINES)
def test_every_benchmark_has_the_numbers_of_its_own_tables(benchmark: str, pair: Pair) -> None:
    runs = dict(zip(("alpha", "beta"), pair(benchmark), strict=True))
    name, headline, (table, row, column) = HEADLINES[benchmark]
    board = make_leaderboard([*runs.values()])
    first = board.tables[0]
    assert (first.name, board.tables[-1].name) == (name, "leaderboard_runs")
    for label, run in runs.items():
        assert first.rows[label][headline] == own_table(run, table).rows[row.format(label)][column]
    values = [row[headline].value for row in first.rows.values()]
    assert values == sorted(values, reverse=True)  # type: ignore[type-var]
    # every column that is announced has numbers
    assert first.columns[0] == RANK
    assert MISSING in first.columns
    assert not board.warnings


async def test_of_convbench_each_grading_has_its_scores_deltas_and_shares(runs: list[Path]) -> None:
    tables = by_name(make_leaderboard(runs))
    assert list(tables) == [
        "leaderboard_direct",
        "leaderboard_direct_given",
        "leaderboard_direct_deltas",
        "leaderboard_direct_attribution",
        "leaderboard_pairwise",
        "leaderboard_pairwise_given",
        "leaderboard_pairwise_deltas",
        "leaderboard_pairwise_attribution",
        "leaderboard_runs",
    ]
    for run, label in zip(runs, FAULTS, strict=True):
        for grading, column in (("direct", "direct (1-10)"), ("pairwise", "pairwise win rate (%)")):
            found = tables[f"leaderboard_{grading}"].rows[label]
            scores = own_table(run, "scores").rows
            for name in ("R1", "R2", "S1", "S2", "S3", "S0"):
                assert found[name] == scores[name][column]
            given = tables[f"leaderboard_{grading}_given"]
            assert not given.signed
            assert given.rows[label] == {
                name: scores[name][column]
                for name in ("S2_hat", "S3_hat", "S0_hat", "S3_tilde", "S0_tilde")
            }
            deltas = tables[f"leaderboard_{grading}_deltas"]
            assert deltas.signed
            assert deltas.rows[label] == {
                name: row[column] for name, row in own_table(run, "deltas").rows.items()
            }
            shares = tables[f"leaderboard_{grading}_attribution"].rows.get(label, {})
            rows = own_table(run, "attribution_net").rows
            for level in ("perception", "reasoning"):
                own = rows[f"creation failed: due to {level}"]
                assert shares.get(level) == own.get(f"{grading}: of fixed failures")


async def test_of_botchat_it_has_what_opponents_lost_and_the_arenas_ratings(tmp_path: Path) -> None:
    pytest.importorskip("evalica")
    stored = {
        name: [dialogue(f"{name} {n}", 16) for n in range(SIZE)] for name in ("gpt - 4", "vic")
    }
    records = [record(number, count=16, text="A document.") for number in range(1, SIZE + 1)]
    options = {
        "data": str(write(tmp_path / "documented.jsonl", records)),
        "opponents": [str(opponents(tmp_path / "convs.tsv", stored))],
    }
    runs = {
        label: await make_run("botchat", tmp_path, model, options=options, conditions=conditions)
        for label, model, conditions in (
            ("alpha", ALPHA, ("uncon", "con")),
            ("beta", BETA, ("uncon",)),
        )
    }
    board = make_leaderboard([*runs.values()], sort="win against vic, N=16")
    tables = by_name(board)
    for condition, suffix, labels in (("uncon", "", [*runs]), ("con", " (con)", ["alpha"])):
        wins, arena = (tables[f"leaderboard_{condition}_{part}"] for part in ("paireval", "arena"))
        assert wins.columns == ("win against gpt - 4, N=16", "win against vic, N=16")
        assert {"Elo, N=16", "Bradley-Terry, N=16"}.issuperset(arena.columns)
        assert "Elo, N=16" in arena.columns
        assert any(
            note.startswith("Ratings are those of each run's own arena") for note in arena.notes
        )
        for label in labels:
            own = own_table(runs[label], "paireval").rows[f"{label} - gpt - 4, N=16{suffix}"]
            assert wins.rows[label]["win against gpt - 4, N=16"] == own["win"]
            rated = own_table(runs[label], "arena").rows[label]
            assert arena.rows[label]["Elo, N=16"] == rated[f"Elo, N=16{suffix}"]
    assert RANK in tables["leaderboard_uncon"].columns


async def test_the_best_stands_first_with_ranks_as_far_as_they_are_known(runs: list[Path]) -> None:
    tables = by_name(make_leaderboard(runs, sort="S1"))
    for name in ("direct", "direct_deltas", "direct_attribution", "pairwise", "runs"):
        assert [*tables[f"leaderboard_{name}"].rows] == ["good", "fair", "bad"], name
    scores = tables["leaderboard_direct"]
    ranks = {label: row[RANK].value for label, row in scores.rows.items()}
    assert ranks == {"good": "1", "fair": "2–3", "bad": "2–3"}
    assert scores.notes[0] == "Sorted by S1, the largest first."
    assert scores.notes[1].startswith("A rank a–b: by paired differences in S1, with Holm's")
    assert "a - 1 of the 3 runs are better" in scores.notes[1]


async def test_a_table_can_be_sorted_by_any_number(runs: list[Path]) -> None:
    delta = make_leaderboard(runs, sort="S0_hat - S0")
    tables = by_name(delta)
    for grading in ("direct", "pairwise"):
        deltas = tables[f"leaderboard_{grading}_deltas"]
        values = [row["S0_hat - S0"].value for row in deltas.rows.values()]
        assert values == sorted(values, reverse=True)  # type: ignore[type-var]
        assert [*tables[f"leaderboard_{grading}"].rows] == [*deltas.rows]
        # who is helped most is not the best
        scores = tables[f"leaderboard_{grading}"]
        assert RANK not in scores.columns
        assert scores.notes[1].startswith("No ranks by S0_hat - S0: ")
    tables = by_name(make_leaderboard(runs, sort="S0_hat", columns=["S0_hat", "R1", RANK]))
    assert tables["leaderboard_direct_given"].columns == ("S0_hat",)
    values = [row["S0_hat"].value for row in tables["leaderboard_direct_given"].rows.values()]
    assert values == sorted(values, reverse=True)  # type: ignore[type-var]
    assert RANK in tables["leaderboard_direct"].columns
    tables = by_name(make_leaderboard(runs, sort="candidate: thousand tokens out"))
    spent = tables["leaderboard_runs"]
    values = [row["candidate: thousand tokens out"].value for row in spent.rows.values()]
    assert values == sorted(values)  # type: ignore[type-var]
    assert [*tables["leaderboard_direct"].rows] == [*spent.rows]
    assert tables["leaderboard_direct"].notes[0].endswith("the least first.")


async def test_chosen_columns_stand_in_the_order_in_which_they_are_named(runs: list[Path]) -> None:
    tables = by_name(make_leaderboard(runs, columns=["S0", "R1", "perception", RANK]))
    assert {name: table.columns for name, table in tables.items()} == {
        "leaderboard_direct": ("S0", "R1", RANK),
        "leaderboard_direct_attribution": ("perception",),
        "leaderboard_pairwise": ("S0", "R1", RANK),
        "leaderboard_pairwise_attribution": ("perception",),
    }
    boards = by_name(make_leaderboard(runs, columns=["R1"])).values()
    assert not any(note.startswith("A rank ") for board in boards for note in board.notes)
    with pytest.raises(ConfigError, match="no column 'S9'; there are: rank, R1, R2, S1"):
        make_leaderboard(runs, columns=["S9"])
    for text in (RANK, "run"):
        with pytest.raises(ConfigError, match=f"no column '{text}'; there are: R1"):
            make_leaderboard(runs, sort=text)


async def test_what_a_run_lacks_is_counted(tmp_path: Path, copies: tuple[Path, Path]) -> None:
    runs = [*copies, await make_run("convbench", tmp_path, FAILING)]
    board = make_leaderboard(runs)
    assert board.warnings
    assert all(each.startswith("WARNING: gamma: ") for each in board.warnings)
    for table in board.tables:
        assert table.notes[: len(board.warnings)] == board.warnings
    scores = by_name(board)["leaderboard_direct"]
    assert {label: row.get(WARNED) for label, row in scores.rows.items()} == {
        "alpha": None,
        "beta": None,
        "gamma": Cell(value="yes"),
    }
    whole, part = (scores.rows[label] for label in ("alpha", "gamma"))
    assert whole[MISSING].value == 0.0
    lost = sum(part["R1"].missing.values())
    assert part["R1"].n == SIZE - lost
    assert part[MISSING].value == pytest.approx(100 * lost / SIZE)
    ends = by_name(board)["leaderboard_runs"].rows["gamma"]["cut off (%)"]
    assert ends.n is not None
    # six answers of each sample
    assert ends.n + sum(ends.missing.values()) == 6 * SIZE
    # runs from before the file read their calls
    (runs[-1] / WARNINGS).unlink()
    assert make_leaderboard(runs).warnings == board.warnings
    (runs[-1] / WARNINGS).write_text('[{"sentence": "cut off"}]')
    with pytest.raises(DataError, match="not a list of warnings"):
        make_leaderboard(runs)


async def test_a_run_without_the_headline_stands_last_and_has_no_rank(
    tmp_path: Path, copies: tuple[Path, Path]
) -> None:
    mute = ModelSpec(provider="fake", model="unreadable", name="mute")
    gamma = ALPHA.model_copy(update={"name": "gamma"})
    runs = [await make_run("convbench", tmp_path, gamma, mute), *copies]
    scores = by_name(make_leaderboard(runs, despite=["judge"]))["leaderboard_direct"]
    assert [*scores.rows][-1] == "gamma"
    assert scores.rows["gamma"][MISSING].value == 100.0
    assert RANK not in scores.rows["gamma"]
    assert any("of the 2 runs are better" in note for note in scores.notes)


async def test_runs_without_a_grading_are_named(tmp_path: Path, copies: tuple[Path, Path]) -> None:
    both, _ = copies
    direct = await make_run("convbench", tmp_path, BETA, options={"grading": ["direct"]})
    tables = by_name(make_leaderboard([both, direct]))
    assert [*tables["leaderboard_pairwise"].rows] == ["alpha"]
    assert "Without these numbers: beta." in tables["leaderboard_pairwise"].notes
    assert {*tables["leaderboard_direct"].rows} == {"alpha", "beta"}


def test_a_run_that_was_only_scored_has_no_tokens(copies: tuple[Path, Path]) -> None:
    (copies[1] / "summary.json").unlink()
    spent = by_name(make_leaderboard(copies))["leaderboard_runs"]
    assert "candidate: thousand tokens in" in spent.rows["alpha"]
    assert "candidate: thousand tokens in" not in spent.rows["beta"]
    assert any("nothing was counted: beta." in note for note in spent.notes)


async def test_what_a_run_cost_is_told_where_its_models_have_prices(tmp_path: Path) -> None:
    priced = ALPHA.model_copy(update={"price": PriceSpec(input=1000.0, output=2000.0)})
    runs = [await make_run("convbench", tmp_path, each) for each in (priced, BETA)]
    rows = by_name(make_leaderboard(runs))["leaderboard_runs"].rows
    role = orjson.loads((runs[0] / "summary.json").read_bytes())["models"]["candidate"]
    assert role["total_cost_usd"] > 0
    assert rows["alpha"]["candidate: US dollars"].value == role["total_cost_usd"]
    tokens = rows["alpha"]["candidate: thousand tokens out"].value
    assert tokens == role["total_output_tokens"] / 1000
    assert "candidate: US dollars" not in rows["beta"]


async def test_a_benchmark_of_ones_own_has_a_column_for_each_of_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "riddles.jsonl"
    data.write_bytes(
        b"\n".join(orjson.dumps({"id": str(n), "riddle": f"What is {n}?"}) for n in range(8))
    )
    name, options = "tests.example_benchmark:Riddles", {"data": str(data)}
    runs = [await make_run(name, tmp_path, each, options=options) for each in (ALPHA, BETA)]
    first = make_leaderboard(runs).tables[0]
    [own] = [column for column in first.columns if column not in {RANK, MISSING}]
    for run, label in zip(runs, ("alpha", "beta"), strict=True):
        table = own_table(run, "riddles")
        assert first.rows[label][own] == table.rows["fit"]["free"]
        assert RANK in first.rows[label]
    monkeypatch.setattr(Riddles, "least", ("fit",))
    runs = [await make_run(name, tmp_path, each, options=options) for each in (ALPHA, BETA)]
    turned = make_leaderboard(runs).tables[0]
    assert first.notes[0] == f"Sorted by {own}, the largest first."
    assert turned.notes[0] == f"Sorted by {own}, the least first."
    assert [*turned.rows] == [*first.rows][::-1]


async def test_runs_of_other_samples_are_refused(tmp_path: Path, copies: tuple[Path, Path]) -> None:
    first, _ = copies
    part = await make_run("convbench", tmp_path, BETA, limit=6)
    with pytest.raises(ConfigError, match="alpha has 12 samples, beta 6, and 6 are in both"):
        make_leaderboard([first, part])
    assert make_leaderboard([first, part], despite=["data"]).tables


SAMPLES = [str(number) for number in range(40)]


def ranges(runs: Mapping[str, Quantity], *, least: bool = False) -> dict[str, tuple[int, int]]:
    return rank_ranges(runs, pair_contrasts(runs), least=least)


def scored(mean: float, seed: int, size: int = len(SAMPLES)) -> Quantity:
    """A run with the same hard and easy samples as all others, and some noise of its own."""
    noise = Random(seed)
    values = [mean + place % 5 + noise.uniform(-0.5, 0.5) for place in range(size)]
    return Quantity(name="S", columns={"S": Column.of(values, samples=SAMPLES[:size])})


def shifted(quantity: Quantity, p_wanted: float) -> Quantity:
    """A run whose difference to the other has about this p-value."""
    column = quantity.columns["S"]
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        noise = Random(9)
        values = [value + middle + noise.uniform(-0.5, 0.5) for value in column.numbers]
        moved = Quantity(name="S", columns={"S": Column.of(values, samples=column.samples)})
        p = contrast(quantity, moved, ("a", "b")).p
        assert p is not None
        low, high = (middle, high) if p > p_wanted else (low, middle)
    return moved


def test_runs_that_paired_differences_tell_apart_have_ranks_of_their_own() -> None:
    runs = {"low": scored(2.0, 1), "high": scored(4.0, 2), "mid": scored(3.0, 3)}
    assert ranges(runs) == {"high": (1, 1), "mid": (2, 2), "low": (3, 3)}
    assert ranges(runs, least=True) == {"high": (3, 3), "mid": (2, 2), "low": (1, 1)}


def test_all_pairs_are_corrected_for() -> None:
    first = scored(3.0, 1)
    second = shifted(first, 0.02)
    p = contrast(first, second, ("a", "b")).p
    assert p is not None
    assert p == pytest.approx(0.02, rel=0.1)
    assert ranges({"a": first, "b": second}) == {"a": (2, 2), "b": (1, 1)}
    # one of three comparisons, of which it has the least p-value
    third = Quantity(
        name="S",
        columns={
            "S": Column.of(
                [
                    (left + right) / 2 + (1 if place % 2 else -1)
                    for place, (left, right) in enumerate(
                        zip(first.columns["S"].values, second.columns["S"].values, strict=True)
                    )
                    if left is not None and right is not None
                ],
                samples=SAMPLES,
            )
        },
    )
    assert 3 * p > LEVEL
    assert set(ranges({"a": first, "b": second, "c": third}).values()) == {(1, 3)}


def test_a_difference_without_a_p_value_tells_nothing_apart() -> None:
    few = {"a": scored(1.0, 1, size=4), "b": scored(9.0, 2, size=4)}
    assert ranges(few) == {"a": (1, 2), "b": (1, 2)}
