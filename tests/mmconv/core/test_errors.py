"""Messages of errors in data files, and errors in other processes."""

import pickle

import pytest

from mmconv.core.errors import ConfigError, DataError, MmconvError, Refused, Transient


def missing(number: int) -> str:
    word = chr(ord("a") + number % 26)  # of which a name may have several
    return f"a.jsonl row {number} (ID {number}): image {word} {number}_'s copy.png is not in images"


def test_of_many_problems_a_few_of_each_kind_are_shown_and_rare_kinds_first() -> None:
    problems = [missing(number) for number in range(1, 101)]
    cut_off = "a.jsonl row 77 (ID 77): images/77.png: the image does not decode (no end); mend it"
    problems.insert(76, cut_off)
    error = DataError("a.jsonl", problems, "Mend it.")
    assert str(error).splitlines() == [
        "a.jsonl: 101 problems",
        f"  {cut_off}",
        *(f"  {missing(number)}" for number in range(1, 6)),
        "  ... and 95 more of this kind",
        "Mend it.",
    ]
    assert error.problems == tuple(problems)
    assert error.is_cut
    lines = [f"  {problem}" for problem in problems]
    assert error.in_full.splitlines() == ["a.jsonl: 101 problems", *lines, "Mend it."]


def test_few_problems_are_shown_as_they_come() -> None:
    problems = [*(missing(number) for number in range(39)), "a.jsonl line 40: no id"]
    error = DataError("a.jsonl", problems)
    assert str(error) == error.in_full
    assert str(error).splitlines()[1:] == [f"  {problem}" for problem in problems]
    assert not error.is_cut


def test_of_too_many_kinds_the_rest_is_counted() -> None:
    kinds = [
        chr(ord("a") + first) + chr(ord("a") + second) for first in range(8) for second in range(8)
    ]
    problems = [f"row {place}: {kind}" for kind in kinds for place in range(3)]
    lines = str(DataError("a.jsonl", problems)).splitlines()
    shown = [line.strip() for line in lines[1:-1]]
    assert shown == problems[: len(shown)]
    assert DataError.SHOWN <= len(shown) < DataError.SHOWN + DataError.ALIKE
    assert lines[-1] == f"  ... and {len(problems) - len(shown)} more"


@pytest.mark.parametrize(
    "error",
    [
        Transient("rate_limit", "too many", retry_after=2.5, input_tokens=3),
        Refused("context", "too long", output_tokens=0),
        DataError("a.jsonl", ["line 1: no", "line 2: no"], "Look at it."),
        ConfigError("no such option"),
    ],
)
def test_errors_cross_between_processes(error: MmconvError) -> None:
    error.add_note("in a replica")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))
