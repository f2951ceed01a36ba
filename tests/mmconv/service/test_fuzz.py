"""A bounded run of Schemathesis against a real server; `make fuzz` runs longer and at random."""

from __future__ import annotations

import re
from pathlib import Path

from tests.mmconv.service.fuzz import fuzz

SECONDS = (15, 120)
"""A machine that is slow, or has other work, gets more time."""

ENOUGH = 300
"""Requests: all operations several times over."""


def test_nothing_is_answered_that_is_not_documented(tmp_path: Path) -> None:
    assert any(sent(tmp_path, seconds) > ENOUGH for seconds in SECONDS)


def sent(folder: Path, seconds: int) -> int:
    """How many requests were sent in so many seconds; fails for one that was answered wrongly."""
    status, words, log = fuzz(folder, seconds, "--seed", "1")
    assert status == 0, words
    assert "Traceback" not in log, log
    tested = re.search(r"Tested: (\d+)", words)
    generated = re.search(r"(\d+) generated", words)
    assert tested and generated, words
    assert f"Selected: {tested[1]}/{tested[1]}" in words
    return int(generated[1])
