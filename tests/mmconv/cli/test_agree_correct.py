"""`mmconv agree --correct`: numbers that people's ratings correct, wherever a run is shown."""

import csv
import shutil
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from mmconv.cli.comparing import compare_command, leaderboard_command
from mmconv.cli.judging import agree_command
from mmconv.core.config import RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.types import Table
from mmconv.run_folder.layout import LABELS, SCORES, TABLES
from mmconv.run_folder.saved_run import read_scores, read_tables
from tests.mmconv.report.runs import BETA, evaluate, make_run

FIELDS = ("sample", "value", "rater", "metric", "condition", "turn", "cluster", "run")
LABELLED = 10
"""Samples of 12 that people rate."""


def typed(command: object, *arguments: object) -> Result:
    result = CliRunner().invoke(command, [str(each) for each in arguments])  # type: ignore[arg-type]
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def rate(runs: list[Path], file: Path, samples: int, *, higher: float = 1.0) -> Path:
    """People rate the first samples of each run, a point above the judge."""
    with file.open("w", newline="") as target:
        writer = csv.DictWriter(target, FIELDS)
        writer.writeheader()
        for run in runs:
            scores = [s for s in read_scores(run / SCORES) if s.metric == "rating"]
            chosen = [*dict.fromkeys(score.sample for score in scores)][:samples]
            for score in scores:
                if score.sample in chosen:
                    writer.writerow(
                        {
                            "sample": score.sample,
                            "value": min(10.0, (score.value or 0.0) + higher),
                            "rater": "ann",
                            "metric": score.metric,
                            "condition": score.condition,
                            "turn": score.turn,
                            "run": run.name,
                        }
                    )
    return file


def table(run: Path, name: str) -> Table:
    return next(each for each in read_tables(run / TABLES) if each.name == name)


@pytest.fixture(name="runs")
async def _runs(tmp_path: Path) -> list[Path]:
    options = {"grading": ["direct"]}
    return [
        await make_run("convbench", tmp_path, options=options),
        await make_run("convbench", tmp_path, BETA, options=options),
    ]


def test_corrected_numbers_stand_next_to_the_judges(runs: list[Path], tmp_path: Path) -> None:
    before = table(runs[0], "scores")
    result = typed(
        agree_command, *runs, "--human", rate(runs, tmp_path / "l.csv", LABELLED), "--correct"
    )
    assert "Errors of the judge on rating, by people; below 6 is a failure" in result.output
    assert "direct (1-10), corrected" in result.output
    after = table(runs[0], "scores")
    assert after.columns == ("meaning", "direct (1-10)", "direct (1-10), corrected")
    for name, row in before.rows.items():
        cells = after.rows[name]
        assert cells["direct (1-10)"] == row["direct (1-10)"]
        raw, better = cells["direct (1-10)"].value, cells["direct (1-10), corrected"]
        assert isinstance(raw, float)
        assert better.value == pytest.approx(min(10.0, raw + 1), abs=0.6), name
        assert better.n == LABELLED
    # controls are chosen by the judge's scores
    deltas = table(runs[0], "deltas")
    assert "control, direct (1-10), corrected" not in deltas.columns
    assert deltas.rows["S2_hat - S2"]["direct (1-10), corrected"].n == LABELLED

    shown_by_comparisons(runs)


def shown_by_comparisons(runs: list[Path]) -> None:
    document = orjson.loads(typed(compare_command, *runs, "--format", "json").stdout)
    row = document["differences"]["S1"]
    assert row["direct (1-10), corrected"]["n"] == LABELLED
    board = orjson.loads(typed(leaderboard_command, *runs, "--format", "json").stdout)
    names = {column for rows in board.values() for row in rows.values() for column in row}
    assert {"S1", "S1, corrected"} <= names


async def test_labels_stay_with_the_run_and_are_replaced(runs: list[Path], tmp_path: Path) -> None:
    typed(agree_command, runs[0], "--human", rate(runs, tmp_path / "few.csv", 3), "--correct")
    cell = table(runs[0], "scores").rows["S1"]["direct (1-10), corrected"]
    assert (cell.n, cell.low, dict(cell.missing)) == (3, None, {"labels wanted for an interval": 2})
    labels = rate(runs, tmp_path / "l.csv", 8)
    typed(agree_command, runs[0], "--human", labels, "--correct")
    first = table(runs[0], "scores")
    spec = orjson.loads((runs[0] / "spec.json").read_bytes())["spec"]
    await evaluate(RunSpec.model_validate(spec), tmp_path / "runs")
    assert table(runs[0], "scores").rows == first.rows
    written = read_tables(runs[0] / TABLES)
    typed(agree_command, runs[0], "--human", labels, "--correct")
    assert read_tables(runs[0] / TABLES) == written
    assert sum(1 for _ in read_scores(runs[0] / LABELS)) == sum(
        1 for line in labels.read_text().splitlines() if line.endswith(runs[0].name)
    )


def test_what_cannot_be_corrected_is_refused(runs: list[Path], tmp_path: Path) -> None:
    labels = rate(runs[:1], tmp_path / "l.csv", 3)
    with pytest.raises(ConfigError, match="--correct needs folders of runs"):
        typed(agree_command, "--judge", labels, "--human", labels, "--correct")
    with pytest.raises(ConfigError, match=f"no rating is of the run {runs[1].name}"):
        typed(agree_command, runs[1], "--human", labels, "--correct")
    with pytest.raises(ConfigError, match="name the folders of runs"):
        typed(agree_command, "--human", labels)


async def test_runs_whose_notes_count_data_are_corrected_without_them(tmp_path: Path) -> None:
    run = await make_run("botchat", tmp_path)
    shutil.rmtree(tmp_path / "data")
    scores = [score for score in read_scores(run / SCORES) if score.metric == "human"]
    labels = tmp_path / "labels.csv"
    rows = (f"{score.sample},3,human" for score in scores[:6])
    labels.write_text("\n".join(["sample,value,metric", *rows]))
    typed(agree_command, run, "--human", labels, "--metric", "human", "--correct")
    assert len([*read_scores(run / LABELS)]) == 6
