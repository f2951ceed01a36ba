"""run, score, show, check and models on drawn pictures with fakes, as a user types them."""

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from click.testing import Result

from mmconv.core.errors import ConfigError, DataError, StoreError
from tests.drawn_data import write_scenes
from tests.mmconv.benchmarks.mtbench101 import dialogues as mtbench101
from tests.mmconv.processes import succeed, typed

ROWS = 3
FAKES = ("--candidate", "fake/echo", "--judge", "fake/judge")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own as the working directory."""
    write_scenes(tmp_path / "data", ROWS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*more: str) -> Result:
    data = ("--data", "data/data.jsonl", "--images", "data/images")
    return typed("run", "convbench", *data, *FAKES, *more)


def run_folder(here: Path) -> Path:
    [folder] = (here / "runs").glob("convbench-*")
    return folder


def test_a_run_writes_its_folder_and_prints_its_tables(here: Path) -> None:
    result = run()
    assert result.exit_code == 0, result.output
    assert "ConvBench scores of " in result.output
    assert " tables, with notes: " in result.output
    names = {path.name for path in run_folder(here).iterdir()}
    assert names == {
        "manifest.json",
        "report.html",
        "report.md",
        "scores.jsonl",
        "scores.parquet",
        "spec.json",
        "summary.json",
        "tables",
        "transcripts.jsonl",
        "transcripts.parquet",
        "warnings.json",
    }
    report = (run_folder(here) / "report.md").read_text()
    assert "- **candidate**: echo" in report
    # so few rows have none
    assert "95 % intervals" not in report


def test_a_run_starts_without_what_only_its_end_needs() -> None:
    late = {"pyarrow", "scipy", "sqlalchemy.dialects.postgresql", "aiohttp", "jinja2"}
    code = (
        "import sys, mmconv.cli.evaluating, mmconv.benchmarks.convbench.benchmark\n"
        "import model_zoo.openai_api\n"
        f"print(sorted({late} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert found == "[]\n"


def test_a_finished_run_is_shown_and_scored_from_elsewhere(here: Path, tmp_path: Path) -> None:
    run("--conditions", "free,perception")
    folder = run_folder(here)
    before = {name: (folder / name).read_bytes() for name in ("scores.jsonl", "summary.json")}
    (tmp_path / "elsewhere").mkdir()
    os.chdir(tmp_path / "elsewhere")
    succeed("score", str(folder))
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert not list((tmp_path / "elsewhere").iterdir())
    shown = typed("show", str(folder), "2", "--condition", "perception").output
    assert "[assistant, reference turn]" in shown
    assert "[assistant, the model's own turn]" in shown
    assert "<image " in shown
    assert "read as: rating " in shown
    free = typed("show", str(folder), "2", "--condition", "free", "--judge").output
    assert "[assistant, from the prompt file]" in free
    assert "reference turn" not in free
    listed = typed("show", str(folder)).output
    assert "2  perception: 11 of 11 calls answered" in listed
    refused = {
        ("nobody",): "has no sample 'nobody'; `mmconv show",
        ("--condition", "perceptoin"): " has no condition 'perceptoin'; did you mean perception?",
    }
    for more, message in refused.items():
        wrong = typed("show", str(folder), *more)
        assert isinstance(wrong.exception, ConfigError)
        assert message in str(wrong.exception)
    for store in (here / "runs").glob("store.sqlite*"):
        store.unlink()
    result = typed("score", str(folder))
    assert isinstance(result.exception, StoreError)
    assert "no cache found" in str(result.exception)
    assert (folder / "scores.jsonl").read_bytes() == before["scores.jsonl"]


def test_calls_are_counted_once_however_often_they_are_asked(here: Path) -> None:
    unreadable = ("--set", "models.judge=fake/unreadable", "--conditions", "perception")
    run(*unreadable, "--limit", "1")
    folder = str(run_folder(here))
    assert typed("show", folder).output == "1  perception: 11 of 11 calls answered\n"
    assert "~retry_1" in typed("show", folder, "1").output


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("run", "gone.yaml"), ConfigError, "gone.yaml: No such file"),
        (("run", "convbensh"), ConfigError, "nor MODULE:CLASS; did you mean convbench?"),
        (("run", "convbench", *FAKES), ConfigError, "data is needed and not set"),
        (("run", "convbench"), ConfigError, "nothing to evaluate: name the model (--candidate"),
        (("check", "convbench", "--judge", "fake/judge"), ConfigError, "nothing to evaluate"),
        (("score", "nowhere"), ConfigError, "no run found"),
    ],
)
def test_what_is_wrong_is_told(
    here: Path, arguments: tuple[str, ...], error: type[Exception], message: str
) -> None:
    result = typed(*arguments)
    assert isinstance(result.exception, error)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        (("--conditions", ""), ConfigError, "--conditions is empty: give at least one name"),
        (("--conditions", "fre"), ConfigError, "no condition 'fre'"),
        (("--set", "options.ordr=both"), ConfigError, "did you mean order?"),
        (("--set", "nonsense"), ConfigError, "expected field.field=value"),
        (("--order", "authors"), ConfigError, "positions"),
        (("--shard", "4/3"), ConfigError, "expected i/n"),
        (("--prompts", "gone"), Exception, "gone"),
        (("--set", "options.images=gone"), DataError, "folder does not exist"),
        (("--set", "models.candidate=hf"), ConfigError, "provider/model"),
        (("--set", "models.candidate=nobody/x"), ConfigError, "provider 'nobody' is not known"),
        (("--set", f"seed={2**63}"), ConfigError, "seed: Input should be less than"),
        (("--set", f"sampling.judge.seed={-(2**64)}"), ConfigError, "greater than or equal"),
    ],
)
def test_a_wrong_option_is_told(
    here: Path, more: tuple[str, ...], error: type[Exception], message: str
) -> None:
    result = run(*more)
    assert isinstance(result.exception, error)
    assert message in str(result.exception)


def test_trials_repeat_every_sample(here: Path) -> None:
    run("--trials", "2", "--conditions", "reasoning")
    lines = (run_folder(here) / "scores.jsonl").read_bytes().splitlines()
    assert {orjson.loads(line)["sample"] for line in lines} == {"1", "1#2", "2", "2#2", "3", "3#2"}


def test_generating_only_needs_no_judge(here: Path) -> None:
    data = ("--data", "data/data.jsonl", "--images", "data/images")
    result = succeed("run", "convbench", *data, "--candidate", "fake/echo", "--no-judge")
    assert "How the answers of echo ended" in result.output
    judged = ("--set", "sampling.judge.max_tokens=9", "--no-judge")
    succeed("run", "convbench", *data, *FAKES, *judged)
    [folder] = (here / "runs").glob("convbench-*")
    assert "judge" not in orjson.loads((folder / "manifest.json").read_bytes())["models"]


def test_verdicts_that_cannot_be_read_are_counted_by_verdict(here: Path) -> None:
    """MT-Bench-101 has four scores for a turn, and a rating above 10 is none."""
    mtbench101.write(here / "dialogues.jsonl", mtbench101.records())
    data = ("--data", "dialogues.jsonl", "--set", "options.judge_retries=0")
    arguments = ("run", "mtbench101", *data, "--candidate", "fake/echo")
    high = ("--set", "models.judge={provider: fake, model: judge, options: {highest: 20}}")
    result = typed(*arguments, *high)
    [folder] = (here / "runs").glob("mtbench101-*")
    lines = map(orjson.loads, (folder / "transcripts.jsonl").read_bytes().splitlines())
    parses = [line["parse"] for line in lines if line["model"] == "judge"]
    unread = sum(parse != "parsed" for parse in parses)
    assert 0 < unread < len(parses)
    assert result.exit_code == 1
    share = f"{unread} of {len(parses)} verdicts ({100 * unread / len(parses):.1f} %)"
    assert f"WARNING: {share} could not be read" in result.output
    message = (
        f"{unread / len(parses):.1%} of the verdicts could not be read, or not in full (allowed"
    )
    assert f"{message}: 1.0%)" in result.output
    just_enough = str(unread / len(parses))
    succeed(*arguments, *high, "--max-failures", just_enough)
