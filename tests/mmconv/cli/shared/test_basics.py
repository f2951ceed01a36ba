"""Paths that a run cannot record, texts that a terminal must not obey, and a run's options."""

from pathlib import Path

import pytest

from mmconv.cli.shared.basics import visible
from mmconv.cli.shared.options import read_spec


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
