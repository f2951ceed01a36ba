"""What models and data say is shown on a terminal, and never obeyed by it."""

from __future__ import annotations

import pytest

from mmconv.cli.shared.visible_text import visible


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
