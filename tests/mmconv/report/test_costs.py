"""What is told of costs that are not known; more of it is in the tests of what reports them."""

from __future__ import annotations

from mmconv.report.costs import unknown_price


def test_no_more_calls_are_told_to_be_without_tokens_than_there_are() -> None:
    told = [unknown_price(*counts) for counts in ((2, 9), (4, 0))]
    assert told == [
        f"price unknown: {part} calls without token counts" for part in ("2 of 9", "4 of 4")
    ]
