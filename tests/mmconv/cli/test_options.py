"""`mmconv options`: what is printed of a benchmark's options, and in what form."""

import re
from pathlib import Path

import pytest

from mmconv.benchmarks.options import describe
from mmconv.benchmarks.registry import TITLES
from tests.mmconv.processes import succeed, typed


def message(benchmark: str) -> str:
    result = succeed("options", benchmark)
    return result.output


def entry(text: str, name: str) -> str:
    """What stands beside a name, in one line."""
    match = re.search(rf"^  {re.escape(name)} +(.*(?:\n {{6,}}.*)*)$", text, re.MULTILINE)
    assert match is not None, name
    return " ".join(match[1].split())


@pytest.mark.parametrize("benchmark", TITLES)
def test_every_role_condition_and_option_is_listed(benchmark: str) -> None:
    described, text = describe(benchmark), message(benchmark)
    for meanings in (described.roles, described.conditions):
        assert all(entry(text, name) == meaning for name, meaning in meanings.items())
    for name, field in described.options.model_fields.items():
        if name != "dup_detect":
            assert entry(text, name).startswith(str(field.description))


@pytest.mark.parametrize(
    ("benchmark", "name", "facts"),
    [
        ("convbench", "data", "--data; a path; required"),
        (
            "convbench",
            "grading",
            "--grading; a list, each direct|pairwise; default: direct, pairwise",
        ),
        ("convbench", "denominator", "an integer above 0; default: not set"),
        ("convbench", "failure_rating", "a number from 1 to 10; default: 6.0"),
        ("convbench", "skip_bad_records", "--skip-bad-records; true or false; default: false"),
        ("botchat", "dup_detect.threshold", "a number from 0 to 1; default: 0.9"),
        ("botchat", "opponents", "a list, each a path; default: none"),
        ("botchat", "judge_retries", "an integer from 0 to 5; default: 1"),
        ("cmteval", "subsets", "a list, each standard|hard|long-text; default: not set"),
        (
            "cmteval",
            "data",
            "--data; a path or a mapping from standard|hard|long-text to a path; required",
        ),
        ("mtbench101", "candidate_system", "a text; default: not set"),
    ],
)
def test_facts_stand_behind_the_meaning(benchmark: str, name: str, facts: str) -> None:
    assert entry(message(benchmark), name).endswith(f" [{facts}]")


def test_what_is_needed_comes_first() -> None:
    names = re.findall(r"^  (\w+) ", message("convbench").partition("Options")[2], re.MULTILINE)
    assert names[0] == "data"


def test_a_benchmark_of_ones_own_is_listed(tmp_path: Path) -> None:
    name = "tests.example_benchmark:Riddles"
    text = message(name)
    assert entry(text, "data").endswith("[--data; a path; required]")
    assert entry(text, "free")
    assert "records need id, riddle" in entry(text, "NAME")
    run = tmp_path / "riddles.yaml"
    run.write_text(f"benchmark: {name}\n", encoding="utf-8")
    assert message(str(run)) == text
    run.write_text("benchmark: fbbench\n", encoding="utf-8")
    assert message(str(run)) == message("fbbench")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("riddles", "no options of 'riddles' are known; there are: botchat"),
        ("tests.gone:Riddles", "module 'tests.gone' is not on Python's path"),
        (
            "mmconv.benchmarks.base.layouts:Layout",
            "is not a subclass of mmconv.benchmarks.base.Benchmark",
        ),
        ("gone.yaml", "gone.yaml: No such file"),
        ("models.yaml", "models.yaml: benchmark is required and not set"),
    ],
)
def test_what_has_no_options_to_list_is_told(
    target: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("models.yaml").write_text("models: {candidate: fake/echo}\n")
    result = typed("options", target)
    assert result.exit_code != 0
    assert message in str(result.exception) + result.output
