"""Several judges of one run: each alone, their mean, their agreement."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mmconv.benchmarks.base.judges import _tabulate_judges, combine_judges
from mmconv.cli.shared.options import read_spec
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.types import Axis, Cell, Score, Table
from mmconv.report.comparison.differences import compare
from mmconv.run_folder.saved_run import read_lines
from tests.drawn_data import write_scenes
from tests.mmconv.processes import typed
from tests.mmconv.report.runs import evaluate

CANDIDATE = {"provider": "simulated", "model": "candidate", "options": {"perception": 0.4}}
FAIR = {"provider": "simulated", "model": "judge", "name": "fair", "options": {"seed": 1}}
HARSH = {
    "provider": "simulated",
    "model": "judge",
    "name": "harsh",
    "options": {"seed": 2, "errors": {"fails_right": 0.4}},
}


def spec(folder: Path, judge: Any, candidate: Any = CANDIDATE, **fields: Any) -> RunSpec:
    data, images = write_scenes(folder, 12)
    options = {"data": str(data), "images": str(images), "grading": ["direct"]}
    models = {"candidate": candidate, "judge": judge}
    return RunSpec(benchmark="convbench", options=options, models=models, **fields)


def values(file: Path, **where: str) -> dict[tuple[Any, ...], float | None]:
    """The ratings of a file of scores."""
    return {
        (record["sample"], record["condition"], record["turn"]): record["value"]
        for _, _, record in read_lines(file)
        if record["metric"] == "rating"
        and all({"name": name, "value": text} in record["tags"] for name, text in where.items())
    }


async def test_two_judges_rate_as_each_alone_and_the_run_has_their_mean(
    tmp_path: Path,
) -> None:
    out = tmp_path / "runs"
    fair, harsh = [(await evaluate(spec(tmp_path, each), out)).folder for each in (FAIR, HARSH)]
    result = await evaluate(spec(tmp_path, [FAIR, HARSH]), out)
    assert result.stats.requested == 0  # each judge's replies are those of its own run
    own = [values(folder / "scores.jsonl") for folder in (fair, harsh)]
    assert own[0] and own[0] != own[1]
    for ratings, name in zip(own, ("fair", "harsh"), strict=True):
        assert values(result.folder / "judges.jsonl", judge=name) == ratings
    means = {place: (rating + own[1][place]) / 2 for place, rating in own[0].items()}  # type: ignore[operator]
    assert values(result.folder / "scores.jsonl") == pytest.approx(means)
    assert not (fair / "judges.jsonl").exists()


async def test_tables_have_each_judge_and_how_far_they_agree(tmp_path: Path) -> None:
    run = await evaluate(spec(tmp_path, [FAIR, HARSH]), tmp_path / "runs")
    tables = {table.name: table for table in run.tables}
    assert tables["scores"].title.endswith("judged by fair and harsh")
    assert "direct (1-10)" in tables["scores"].columns
    alone = tables["scores_by_judge"].rows["S1"]
    ratings = [alone[f"direct (1-10), {name}"].value for name in ("fair", "harsh")]
    mean = tables["scores"].rows["S1"]["direct (1-10)"].value
    assert mean == pytest.approx(sum(ratings) / 2)  # type: ignore[arg-type]
    agreement = tables["judges"].rows["direct rating: fair and harsh"]
    assert agreement["second less first"].value < 0  # type: ignore[operator]
    assert agreement["kappa"].low is not None


async def test_runs_of_the_same_judges_are_compared_by_each(tmp_path: Path) -> None:
    better = {**CANDIDATE, "name": "better", "options": {"perception": 0.0}}
    judges = [FAIR, HARSH]
    folders = [
        (await evaluate(spec(tmp_path, judges, each), tmp_path / "runs")).folder
        for each in (CANDIDATE, better)
    ]
    tables = {table.name: table for table in compare(folders).tables}
    assert tables["runs"].rows["better"]["judge"].value == "fair and harsh"
    row = tables["differences_by_judge"].rows["S1"]
    each = [row[f"direct (1-10), {name}"].value for name in ("fair", "harsh")]
    both = tables["differences"].rows["S1"]["direct (1-10)"].value
    assert both == pytest.approx(sum(each) / 2)  # type: ignore[arg-type]


def test_a_score_that_a_judge_lacks_is_missing_for_its_reason() -> None:
    def score(value: float | None) -> Score:
        why = "unparsed" if value is None else None
        return Score(sample="1", condition="free", metric="fit", value=value, why=why)

    mean, *alone = combine_judges({"a": [score(8)], "b": [score(None)]}, None)
    assert (mean.value, mean.why, mean.tags) == (None, "unparsed", {})
    assert [each.tags["judge"] for each in alone] == ["a", "b"]


def test_by_vote_two_of_three_judges_decide() -> None:
    def win(value: float) -> Score:
        return Score(sample="1", condition="free", metric="win", value=value)

    judged = {"a": [win(1.0)], "b": [win(0.0)], "c": [win(1.0)]}
    common = [next(combine_judges(judged, None, how)).value for how in ("mean", "vote")]
    assert common == [pytest.approx(2 / 3), 1.0]


def test_the_command_line_lists_judges(tmp_path: Path) -> None:
    data, images = write_scenes(tmp_path, 2)
    command = ["check", "convbench", "--data", str(data), "--images", str(images)]
    command += ["--out", str(tmp_path / "runs"), "--candidate", "fake/echo"]
    checked = typed(*command, "--judge", "fake/judge,fake/echo")
    assert "judge: judge (fake)" in checked.output
    assert "judge_2: echo (fake)" in checked.output


def test_the_command_line_replaces_all_judges_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "benchmark: convbench\n"
        "models: {candidate: fake/echo, judge: fake/judge, judge_2: fake/echo, "
        "judge_3: fake/noise}\n"
        "sampling: {judge: {max_tokens: 9}, judge_2: {max_tokens: 8}}\n"
    )
    assert list(read_spec(str(file), {"judge": "fake/judge"}).models) == ["candidate", "judge"]
    several = read_spec(str(file), {"judge": "fake/judge,fake/echo"})
    assert {*several.models} == {"candidate", "judge", "judge_2"}
    assert several.sampling["judge_2"].max_tokens == 9


def test_a_list_of_judges_and_a_further_judge_are_refused(tmp_path: Path) -> None:
    problem = "models.judge_2: set twice, since models.judge is a list; use one of them"
    values = {"judge": "fake/judge,fake/echo", "overrides": ["models.judge_2.seed=3"]}
    with pytest.raises(ConfigError, match=problem):
        read_spec("convbench", values)
    models = {"candidate": CANDIDATE, "judge": [FAIR, HARSH], "judge_2": FAIR}
    with pytest.raises(ValueError, match=problem):
        RunSpec.model_validate({"benchmark": "convbench", "models": models})


def test_tables_by_judge_draw_no_curve() -> None:
    table = Table(
        name="levels",
        title="Levels",
        columns=("1", "2"),
        rows={"S1": {"1": Cell(value=5.0), "2": Cell(value=4.0)}},
        axis=Axis(title="level", mark="breaks"),
    )
    other = replace(table, rows={"S1": {"1": Cell(value=6.0), "2": Cell(value=4.0)}})
    [each] = _tabulate_judges([table], {"fair": [table], "harsh": [other]})
    assert each.columns == ("1, fair", "1, harsh", "2, fair", "2, harsh")
    assert each.axis is None


async def test_judges_with_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two judges are called fair: set `name`"):
        await evaluate(spec(tmp_path, [FAIR, FAIR]), tmp_path / "runs")


async def test_judges_with_other_prompts_cannot_judge_together(tmp_path: Path) -> None:
    offline = ModelSpec(provider="reference", model="chrf").model_dump()
    with pytest.raises(ConfigError, match="cannot judge with one that is"):
        await evaluate(spec(tmp_path, [FAIR, offline]), tmp_path / "runs")
