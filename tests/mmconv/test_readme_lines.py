"""The pages' commands of the text benchmarks run over the authors' complete files.

Only the models are replaced by fakes, and the paths by those of the authors' files.
"""

import re
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from mmconv.cli import commands
from tests.doc_pages import commands_of

HERE = Path(__file__).parents[2]
AUTHORS = HERE.parent / "shared" / "data"

needs_data = pytest.mark.skipif(not AUTHORS.is_dir(), reason="the authors' data are not there")

CALLS = {
    "botchat": (547 * 14, 547 + 444),
    "cmteval": (4431, 596),
    "fbbench": (591, 591),
    "mtbench101": (3615, 3615),
}
"""Benchmark -> answers and judgements that it takes, as its authors count them."""


def readme_line(benchmark: str) -> list[str]:
    """The command after `mmconv` in the benchmarks' page, with fakes and the authors' paths."""
    page = HERE / "mmconv" / "benchmarks" / "README.md"
    [words] = [words for words in commands_of(page) if words[:2] == ["run", benchmark]]
    for option, value in (("--candidate", "fake/echo"), ("--judge", "fake/judge")):
        words[words.index(option) + 1] = value
    place = words.index("--data") + 1
    [words[place]] = map(str, AUTHORS.rglob(Path(words[place]).name))
    return words


@needs_data
@pytest.mark.parametrize("benchmark", CALLS)
def test_the_line_runs_over_the_whole_file(tmp_path: Path, benchmark: str) -> None:
    typed = [*readme_line(benchmark), "--out", str(tmp_path)]
    result = CliRunner().invoke(commands, typed)
    assert result.exit_code == 0, result.output
    [folder] = tmp_path.glob(f"{benchmark}-echo-*")
    roles = orjson.loads((folder / "summary.json").read_bytes())["models"]
    answers, judgements = (
        roles[role]["requested"] + roles[role]["cached"] for role in ("candidate", "judge")
    )
    assert (answers, judgements) == CALLS[benchmark]
    assert "could not be read" not in result.output
    assert (folder / "report.md").stat().st_size > 1000
    reasons = {score["why"] for score in map(orjson.loads, scores(folder))}
    assert reasons <= {None}


@needs_data
@pytest.mark.parametrize("benchmark", CALLS)
def test_its_calls_are_counted_beforehand(tmp_path: Path, benchmark: str) -> None:
    typed = [*readme_line(benchmark), "--out", str(tmp_path), "--dry-run"]
    result = CliRunner().invoke(commands, typed)
    assert result.exit_code == 0, result.output
    counted = dict(re.findall(r"^(candidate|judge) +\w+ +([\d,]+)", result.output, re.MULTILINE))
    calls = tuple(int(counted[role].replace(",", "")) for role in ("candidate", "judge"))
    assert calls == CALLS[benchmark]


def scores(folder: Path) -> list[bytes]:
    return (folder / "scores.jsonl").read_bytes().splitlines()
