"""A bounded run of Schemathesis against a real server; `make fuzz` runs longer and at random."""

from __future__ import annotations

import re
from pathlib import Path

from tests.mmconv.service.fuzz import fuzz

SECONDS = 15


def test_nothing_is_answered_that_is_not_documented(tmp_path: Path) -> None:
    status, words, log = fuzz(tmp_path, SECONDS, "--seed", "1")
    assert status == 0, words
    assert "Traceback" not in log, log
    tested = re.search(r"Tested: (\d+)", words)
    generated = re.search(r"(\d+) generated", words)
    assert tested and generated, words
    assert f"Selected: {tested[1]}/{tested[1]}" in words
    assert int(generated[1]) > 300
