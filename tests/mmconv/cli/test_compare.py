"""`mmconv compare` and `mmconv export` as they are typed; what they make is tested in report."""

import csv
import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mmconv.cli.comparing import compare_command as command
from mmconv.cli.results import export_command as export
from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, DataError
from mmconv.run_folder.saved_run import read_tables
from tests.mmconv.benchmarks.botchat import samples as botchat
from tests.mmconv.benchmarks.mtbench101 import dialogues as mtbench101
from tests.mmconv.report.runs import BETA, FAILING, JUDGE, make_run

RATED = mtbench101.records()
"""The dialogues of the runs of MT-Bench-101."""


def typed(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(each) for each in arguments])


@pytest.fixture(name="runs")
async def _runs(tmp_path: Path) -> list[Path]:
    return [
        await make_run("convbench", tmp_path),
        await make_run("convbench", tmp_path, BETA, limit=6),
    ]


@pytest.fixture(name="milder")
async def _milder(tmp_path: Path) -> Path:
    """A run with another judge."""
    judge = JUDGE.model_copy(update={"name": "b", "options": {"lowest": 4}})
    return await make_run("convbench", tmp_path, BETA, judge, limit=6)


def test_tables_are_printed_and_written(runs: list[Path], tmp_path: Path) -> None:
    result = typed(*runs, "--out", tmp_path / "compared")
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == [
        f"The tables are in {tmp_path / 'compared' / 'tables'}",
        f"The page is {tmp_path / 'compared' / 'comparison.html'}",
    ]
    assert "Scores: beta minus alpha" in result.output
    assert "S2_hat - S2, beta" in result.output
    # tables of details are for the files
    assert "Turn 1 (perception) by category" not in result.output
    names = [table.name for table in read_tables(tmp_path / "compared" / "tables")]
    differences = ["differences", "delta_differences", "failure_differences"]
    assert names[:5] == ["runs", *differences, "scores"]
    assert "categories_perception" in names
    latex = (tmp_path / "compared" / "tables" / "differences.tex").read_text("utf-8")
    assert latex.count("\n$\\hat{S}_2$ & ") == 1
    page = (tmp_path / "compared" / "comparison.html").read_text("utf-8")
    assert "alpha" in page
    assert "beta" in page


def test_other_formats_are_for_programs(runs: list[Path]) -> None:
    document = json.loads(typed(*runs, "--format", "json").stdout)
    assert document["differences"]["S1"]["direct (1-10)"]["n"] == 6
    assert document["differences"]["S1"]["direct (1-10)"]["low"] is not None
    table = typed(*runs, "--format", "csv").stdout.split("# ")[2]
    name, *rows = table.splitlines()
    assert name == "differences"
    assert [row["row"] for row in csv.DictReader(rows)][:3] == ["R1", "R2", "S1"]


async def test_scores_of_many_runs_are_in_the_order_named(runs: list[Path], tmp_path: Path) -> None:
    gamma = await make_run("convbench", tmp_path, FAILING)
    tables = json.loads(typed(gamma, runs[1], runs[0], "--format", "json").stdout)
    differences = ["differences", "delta_differences", "failure_differences"]
    assert [*tables][:6] == ["runs", "scores", *differences, "deltas"]
    assert [*tables["runs"]] == ["gamma", "beta", "alpha"]
    assert [*tables["scores"]][:3] == ["R1, gamma", "R1, beta", "R1, alpha"]
    assert [*tables["differences"]][:2] == ["R1, beta", "R1, alpha"]
    assert "Scores: each run minus gamma" in typed(gamma, runs[1], runs[0]).stdout


def test_the_baseline_can_be_named(runs: list[Path]) -> None:
    result = typed(*runs, "--baseline", runs[1])
    assert "Scores: alpha minus beta" in result.output


async def test_unfinished_runs_of_many_are_left_out_named(runs: list[Path], tmp_path: Path) -> None:
    killed = await make_run("convbench", tmp_path, FAILING)
    for name in ("manifest.json", "summary.json"):
        (killed / name).unlink()
    result = typed(*runs, killed, "--format", "json")
    assert result.exit_code == 0, result.output
    [line] = result.stderr.splitlines()
    assert line.startswith(f"{killed} is left out: the run is not finished")
    assert [*json.loads(result.stdout)["runs"]] == ["alpha", "beta"]
    # no run of two, and no baseline
    for refused in ((runs[0], killed), (killed, *runs), (*runs, "--baseline", killed)):
        result = typed(*refused)
        assert isinstance(result.exception, DataError)
        assert "the run is not finished: it has no manifest.json" in str(result.exception)
        assert not result.stderr


def test_other_differences_come_first(runs: list[Path], milder: Path, tmp_path: Path) -> None:
    arguments = (runs[0], milder, "--allow-mismatch", "judge")
    warning = (
        "WARNING: the judge differs: arbiter in alpha, b in beta; options.lowest is not set and 4."
    )
    result = typed(*arguments, "--out", tmp_path / "compared")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{warning}\n\n")
    assert result.stdout.count(warning) == 1
    page = (tmp_path / "compared" / "comparison.html").read_text("utf-8")
    banner = page.split('<ul class="warnings"', 1)[1].split("</ul>", 1)[0]
    assert f"<li>{warning}</li>" in banner
    # what stands above all is not repeated below
    assert page.count(warning) == 1
    result = typed(*arguments, "--format", "json")
    assert json.loads(result.stdout)["differences"]
    assert result.stderr.startswith(warning)


async def test_a_runs_warnings_come_before_the_tables(runs: list[Path], tmp_path: Path) -> None:
    judge = ModelSpec(provider="fake", model="unreadable", name="b")
    bad = await make_run("convbench", tmp_path, BETA, judge, limit=6)
    arguments = (runs[0], bad, "--allow-mismatch", "judge")
    warnings = [
        "WARNING: beta: 162 of 162 verdicts (100.0 %) could not be read: "
        "scores that need them are missing.",
        "WARNING: beta: R1, direct (1-10): 6 of 6 scores (100.0 %) are missing.",
    ]
    before, _ = typed(*arguments).stdout.split("Runs of convbench", 1)
    assert before.splitlines()[2::2] == warnings
    result = typed(*arguments, "--format", "json")
    assert json.loads(result.stdout)["differences"]
    assert result.stderr.splitlines()[2::2] == warnings
    assert "WARNING" not in typed(*runs).output


async def test_a_history_of_both_runs_is_compared_whatever_else_one_has(
    tmp_path: Path,
) -> None:
    """The golden one was named in the run of both only, so that nothing was compared."""
    both = await make_run("mtbench101", tmp_path, conditions=("golden", "self"))
    golden = await make_run("mtbench101", tmp_path, BETA)
    for runs in ((both, golden), (golden, both)):
        result = typed(*runs, "--format", "json")
        assert result.exit_code == 0, result.output
        tables = json.loads(result.stdout)
        average = tables["differences"]["average"]
        assert average.keys() == {"minimum of turns", "mean of turns"}
        assert average["minimum of turns"]["n"] == len(RATED)
        # and in the runs' own tables beside each other
        scores = tables["scores"]
        for label in ("alpha", "beta"):
            assert scores[f"average, {label}"]["minimum of turns"]["n"] == len(RATED)
        assert "minimum of turns, self history" in scores["average, alpha"]
        assert tables["paper"].keys() == {"alpha", "beta"}
        assert tables["paper_self"].keys() == {"alpha"}
    output = typed(both, golden).output
    assert (
        "Not compared, since beta does not have it: minimum of turns, self history (all" in output
    )
    assert "since alpha does not have it" not in output


async def test_a_condition_that_both_runs_of_botchat_have_is_compared(tmp_path: Path) -> None:
    records = [
        botchat.record(number, count=16, title="Tea", text="About tea.") for number in range(1, 7)
    ]
    options = {"data": str(botchat.write(tmp_path / "documented.jsonl", records))}
    both = await make_run("botchat", tmp_path, options=options, conditions=("uncon", "con"))
    alone = await make_run("botchat", tmp_path, BETA, options=options, conditions=("uncon",))
    result = typed(both, alone, "--format", "json")
    assert result.exit_code == 0, result.output
    tables = json.loads(result.stdout)
    assert tables["differences"]["UniEval, N=16"]["%"]["n"] == 6
    assert tables["differences"]["GTEval, DupDetect before the judge: win"]["%"]["n"] > 0
    assert not any("con)" in name for name in tables["differences"])
    assert tables["unieval"].keys() == {"alpha", "alpha (con)", "beta"}
    documented = await make_run("botchat", tmp_path, BETA, options=options, conditions=("con",))
    tables = json.loads(typed(both, documented, "--format", "json").stdout)
    assert "UniEval, N=16 (con)" in tables["differences"]
    assert "UniEval, N=16" not in tables["differences"]


def test_of_a_folder_of_runs_the_store_is_passed_over(runs: list[Path], tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite-wal"
    store.touch()
    assert typed(*runs, store).stdout == typed(*runs).stdout


@pytest.mark.skipif(find_spec("inspect_ai") is not None, reason="inspect-ai is installed")
def test_export_without_its_package_says_what_to_install(runs: list[Path]) -> None:
    arguments = [str(runs[0]), "--to", "inspect", "--out", "run.eval"]
    result = CliRunner().invoke(export, arguments)
    assert isinstance(result.exception, ConfigError)
    assert "pip install inspect-ai" in str(result.exception)


def test_a_margin_names_the_differences_below_it(runs: list[Path]) -> None:
    notes = "Equivalent within 50 (two one-sided tests, each alone at the 5 % level;"
    assert notes not in typed(*runs).output
    output = " ".join(typed(*runs, "--margin", 50).output.split())
    assert f"{notes} the 90 % interval is within the margin): direct (1-10): R1" in output
