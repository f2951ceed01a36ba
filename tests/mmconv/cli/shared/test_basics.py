"""Paths that a run cannot record, texts that a terminal must not obey, and a run's options."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from mmconv.cli import commands
from mmconv.cli.shared.basics import visible
from mmconv.cli.shared.options import read_spec
from mmconv.cli.shared.run_folders import place
from mmconv.core.errors import ConfigError

LATIN = os.fsdecode(b"\xe4rger")


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x1b]0;title\a", r"\x1b]0;title\x07"),
        ("\0\r\x7f\x9b1m\x85", r"\x00\x0d\x7f\x9b1m\x85"),
        ("\u202egnp.exe\u2066", r"\u202egnp.exe\u2066"),
        ("\ttabs,\nlines, 中文, \u2028 and \\x1b", "\ttabs,\nlines, 中文, \u2028 and \\x1b"),
    ],
)
def test_control_characters_are_shown_and_all_else_stays(sent: str, shown: str) -> None:
    assert visible(sent) == shown


def test_a_path_that_is_not_utf8_is_refused_and_named() -> None:
    result = CliRunner().invoke(commands, ["run", "convbench", "--data", f"{LATIN}/data.jsonl"])
    assert isinstance(result.exception, ConfigError)
    message = str(result.exception)
    assert message.startswith(r"'\udce4rger/data.jsonl' contains bytes that are not UTF-8")


def test_a_run_in_a_folder_that_is_not_utf8_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / LATIN).mkdir()
    monkeypatch.chdir(tmp_path / LATIN)
    for out in (Path("runs"), tmp_path / "runs"):
        with pytest.raises(ConfigError, match=r"udce4rger' contains bytes that are not UTF-8"):
            place(out, "")


def test_a_run_file_is_read_with_options_and_overrides_on_top(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("benchmark: convbench\nseats: {candidate: fake/echo}\nseed: 3\nlimit: 2\n")
    values = {
        "limit": 5,
        "trials": None,
        "grading": "direct",
        "no_judge": True,
        "overrides": ["seed=4"],
    }
    spec = read_spec(str(file), values)
    assert (spec.seed, spec.limit, spec.trials) == (4, 5, 1)
    assert spec.options == {"grading": ["direct"], "generate_only": True}
    assert spec.models["candidate"].model == "echo"
    named = {"candidate": "fake/echo", "sample_id": "3, 1"}
    assert list(read_spec("convbench", named).samples or ()) == ["1", "3"]
