"""`mmconv calibrate botchat`: the threshold that it prints leaves what it says."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from mmconv.benchmarks.botchat.commands import calibrate_command as command
from mmconv.benchmarks.botchat.dialogues import DupDetect, first_repeat, stored_dialogues
from mmconv.core.errors import ConfigError, DataError
from tests.mmconv.benchmarks.botchat.samples import dialogue, opponents


def calibrated(path: Path, *arguments: str) -> str:
    result = CliRunner().invoke(
        command, ["botchat", "--dialogues", str(path), *arguments], catch_exceptions=True
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def near(count: int) -> list[str]:
    """A dialogue whose fourth utterance differs from the third in `count` of 20 characters."""
    said = dialogue("x", 16)
    said[2], said[3] = "0123456789abcdefghij", "#" * count + "0123456789abcdefghij"[count:]
    return said


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return opponents(
        tmp_path / "convs.tsv",
        {
            "gpt": [near(count) for count in range(10)],
            "vic": [near(0)] * 10,
            "GT": [dialogue("h", 5)] * 10,
        },
    )


def test_the_threshold_gives_the_wanted_rate(path: Path) -> None:
    output = calibrated(path, "--non-loop-rate", "0.8", "--model", "gpt")
    match = re.search(r"^threshold (\S+): 80\.0% of 10 without a loop$", output, re.MULTILINE)
    assert match is not None, output
    settings = DupDetect(threshold=float(match[1]))
    own = [each.utterances for each in stored_dialogues(path) if each.model == "gpt"]
    assert sum(first_repeat(each, settings) is None for each in own) == 8
    assert f"options.dup_detect={{similarity: characters, threshold: {match[1]}}}" in output
    assert re.search(r"^next below, \S+: 70\.0%$", output, re.MULTILINE)


def test_all_models_but_the_human_are_taken(path: Path) -> None:
    assert "of 20 without a loop" in calibrated(path, "--non-loop-rate", "0.45")
    assert "of 10 without a loop" in calibrated(path, "--non-loop-rate", "1", "--model", "GT")


def test_what_cannot_be_calibrated(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="of claude; it has those of: gpt, vic, GT"):
        calibrated(path, "--non-loop-rate", "0.9", "--model", "claude")
    with pytest.raises(DataError, match="file does not exist"):
        calibrated(tmp_path / "none.tsv", "--non-loop-rate", "0.9")
    assert "0<x<=1" in calibrated(path, "--non-loop-rate", "0")


def test_the_benchmark_is_a_choice_of_one_command() -> None:
    output = CliRunner().invoke(command, ["--help"]).output
    assert "Usage: calibrate [OPTIONS] {botchat}" in output
    assert "--non-loop-rate" in output
    refused = CliRunner().invoke(command, ["convbench"])
    assert refused.exit_code == 2
    assert "'convbench' is not 'botchat'" in refused.output
