"""A run's specification from its file, with the options of the command line on top."""

from __future__ import annotations

from pathlib import Path

from mmconv.cli.shared.run_options import read_spec


def test_a_run_file_is_read_with_options_and_overrides_on_top(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("benchmark: convbench\nseats: {candidate: fake/echo}\nseed: 3\nlimit: 2\n")
    chosen = {"limit": 5, "trials": None, "grading": "direct", "overrides": ["seed=4"]}
    spec = read_spec(str(file), chosen)
    assert (spec.seed, spec.limit, spec.trials) == (4, 5, 1)
    assert spec.options == {"grading": ["direct"]}
    assert spec.seats["candidate"].model == "echo"
