"""`mmconv leaderboard` as it is typed; what it is made of is tested in report."""

import asyncio
import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mmconv.cli.comparing import leaderboard_command as command
from mmconv.core.errors import ConfigError
from tests.mmconv.report.page_runs import simulated_run
from tests.mmconv.report.runs import ALPHA, FAILING, SIZE, make_run


def typed(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(each) for each in arguments])


@pytest.fixture(name="runs", scope="module")
def _runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Made once: tests only read them."""
    folder = tmp_path_factory.mktemp("runs")
    rates = {"bad": 0.95, "good": 0.05}
    return [asyncio.run(simulated_run(folder, name, rate)) for name, rate in rates.items()]


def test_a_table_is_short_and_has_each_count_once(runs: list[Path]) -> None:
    output = typed(*runs).stdout
    lines = output.splitlines()
    assert lines[0] == "ConvBench, direct (1-10)"
    assert lines[2].split() == ["rank", "R1", "R2", "S1", "S2", "S3", "S0", "missing", "(%)"]
    assert [line.split()[0] for line in lines[4:6]] == ["good", "bad"]
    assert lines[4].count(f"n={SIZE}") == 1
    assert "Columns without n have the n and the missing values of R1" in output


def test_it_fits_a_narrow_terminal(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mmconv.cli.shared.table_output.terminal_width", lambda: 80)
    output = typed(*runs).stdout
    assert "S0" in output
    assert max(map(len, output.splitlines())) <= 80


def test_columns_and_their_order_can_be_chosen(runs: list[Path]) -> None:
    lines = typed(*runs, "--sort", "S1", "--columns", "S1, rank").stdout.splitlines()
    assert lines[2].split() == ["S1", "rank"]
    assert "perfect earlier turns" not in "\n".join(lines)
    result = typed(*runs, "--columns", " , ")
    assert isinstance(result.exception, ConfigError)
    assert "--columns is empty" in str(result.exception)


def test_other_formats_keep_all_counts(runs: list[Path]) -> None:
    document = json.loads(typed(*runs, "--format", "json").stdout)
    cell = document["leaderboard_direct"]["good"]["S1"]
    assert cell["n"] == SIZE
    assert cell["low"] is not None
    table = typed(*runs, "--format", "csv").stdout.split("# ")[1]
    name, *rows = table.splitlines()
    assert name == "leaderboard_direct"
    first = next(csv.DictReader(rows))
    assert (first["row"], first["S1.n"], first["S1.missing"]) == ("good", str(SIZE), "0")
    markdown = typed(*runs, "--format", "md").stdout
    assert "**ConvBench, direct (1-10)**" in markdown
    assert markdown.count("Brackets hold") == 1
    assert f"n={SIZE}" in markdown


async def test_what_is_amiss_is_told_first_and_once(tmp_path: Path) -> None:
    runs = [await make_run("convbench", tmp_path, each) for each in (ALPHA, FAILING)]
    output = typed(*runs).stdout
    # one line for the run, however much is amiss with it
    warning, where, blank = output.splitlines()[:3]
    assert warning.startswith("WARNING: gamma: ")
    assert "have no reply: 17 failed, " in warning and "; R1, direct (1-10): " in warning
    assert where == "All of it: --format json, or the pages of these runs."
    assert not blank
    assert output.count("WARNING") == 1
    result = typed(*runs, "--format", "csv")
    assert "WARNING" not in result.stdout
    calls, _, headline = result.stderr.splitlines()[:3]
    assert calls.startswith("WARNING: gamma: ")
    assert "were not requested" in calls
    assert headline.startswith("WARNING: gamma: R1, direct (1-10): ")
