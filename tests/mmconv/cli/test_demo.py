"""The demo's own sentence, and the whole demo on a few scenes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mmconv.cli.demo import command, sentence
from mmconv.values import Summary


def summary(mean: float | None, low: float | None = None, high: float | None = None) -> Summary:
    return Summary(mean=mean, stderr=None, low=low, high=high, n=80)


BEFORE = summary(7.04, 6.0, 8.0)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (summary(1.52, 0.81, 2.23), "to a good part what it has not seen"),
        (summary(0.1, -0.3, 0.5), "so many scenes show no difference"),
        (summary(-1.0, -1.5, -0.5), "makes it worse"),
        (summary(1.0), "one scene is too few"),
        (summary(None), "can't be told"),
    ],
)
def test_the_sentence_says_what_the_interval_allows(change: Summary, told: str) -> None:
    assert told in sentence(BEFORE, change)


def test_the_sentence_gives_the_figures() -> None:
    told = sentence(BEFORE, summary(1.52, 0.81, 2.23))
    assert "7.0 of 10 on its own and +1.5" in told
    assert "95 % interval +0.8 to +2.2, 80 scenes" in told


def test_the_demo_ends_with_tables_sentence_and_report(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the extra hf")
    result = CliRunner().invoke(command, ["--out", str(tmp_path / "demo"), "--samples", "6"])
    assert result.exit_code == 0, result.output
    assert "Reasoning rates " in result.output
    report = Path(result.output.split("The report: ")[1].splitlines()[0])
    assert report.is_file()
    assert "What perfect earlier turns change" in result.output
