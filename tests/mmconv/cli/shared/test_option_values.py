"""Values of options: what no run could note down is refused before anything is done."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from mmconv.cli import commands
from mmconv.cli.shared.run_folders import place
from mmconv.core.errors import ConfigError

LATIN = os.fsdecode(b"\xe4rger")


def test_a_path_that_is_not_utf8_is_refused_and_named() -> None:
    result = CliRunner().invoke(commands, ["run", "convbench", "--data", f"{LATIN}/data.jsonl"])
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception).startswith(r"'\udce4rger/data.jsonl' holds bytes that are not UTF")


def test_a_run_in_a_folder_that_is_not_utf8_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / LATIN).mkdir()
    monkeypatch.chdir(tmp_path / LATIN)
    for out in (Path("runs"), tmp_path / "runs"):
        with pytest.raises(ConfigError, match=r"udce4rger' holds bytes that are not UTF-8"):
            place(out, "")
