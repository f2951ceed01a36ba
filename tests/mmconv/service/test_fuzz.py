"""A bounded run of Schemathesis against a real server; `make fuzz` runs longer and at random."""

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
    """How many requests were sent in so many seconds; 0 if they did not reach every operation.

    Fails for a request that was answered wrongly.
    """
    own = folder / str(seconds)  # The log of a server before would name another address.
    own.mkdir()
    status, words, log = fuzz(own, seconds, "--seed", "1")
    assert status == 0, words
    assert "Traceback" not in log, log
    tested = re.search(r"Tested: (\d+)", words)
    generated = re.search(r"(\d+) generated", words)
    assert tested and generated, words
    return int(generated[1]) if f"Selected: {tested[1]}/{tested[1]}" in words else 0
