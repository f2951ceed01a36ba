"""Messages of errors in data files."""

from __future__ import annotations

from mmconv.errors import DataError


def test_all_problems_of_a_file_are_kept_and_the_first_are_shown() -> None:
    problems = [f"line {number}: no id" for number in range(1, 101)]
    error = DataError("a.jsonl", problems, "Mend it.")
    lines = str(error).splitlines()
    assert lines[0] == "a.jsonl: 100 problems"
    assert lines[1:41] == [f"  {problem}" for problem in problems[:40]]
    assert lines[41:] == ["  ... and 60 more", "Mend it."]
    assert error.problems == tuple(problems)
