"""What became of a judgement, told from its tries in whatever order they stand."""

from __future__ import annotations

import pytest

from mmconv.core.types import SAME_TEXT
from mmconv.report.data_quality import FATES, Shortfall, Tries, deciding_try, fate_of, group_tries
from mmconv.report.page.losses import Losses
from tests.mmconv.report.call_records import judged

NAME = "direct/turn_1"


def tries(**parses: str) -> Tries:
    """A first reply that cannot be read, and rescues by their marks."""
    fallbacks = [judged(f"{NAME}~{mark}", mark, parse=parse) for mark, parse in parses.items()]
    return [judged(NAME, "?", parse="unparsed: no"), *fallbacks]


def lost(state: str, problem: str) -> Tries:
    return [judged(NAME, "", state=state, problem=problem, parse=None)]


MET: dict[str, Tries] = {
    "read at once": [judged(NAME, "6")],
    "read when asked again": tries(retry_1="unparsed: no", retry_2="parsed"),
    "read by the extraction prompt": tries(retry_1="unparsed: no", extract="parsed"),
    "incomplete": tries(retry_1="incomplete: lacks 2", retry_2="incomplete: lacks 12"),
    "unreadable": [*tries(), judged(f"{NAME}~retry_1", "", state="failure", parse=None)],
    "failed": lost("failure", "timeout"),
    "not asked": lost("skipped", "turn_1"),
    "of the same text": lost("skipped", SAME_TEXT),
}
"""A fate and the calls that met it."""


def test_every_fate_is_told_here() -> None:
    assert [*MET] == [*FATES]


@pytest.mark.parametrize("fate", MET)
def test_a_verdict_has_one_fate_that_all_counts_tell(fate: str) -> None:
    [(place, found)] = group_tries(MET[fate]).items()
    assert place == ("free", NAME)
    assert fate_of(found) == fate
    losses = Losses()
    losses.add("1", MET[fate])
    [*_, verdicts] = [table for table in losses.tables() if table.name == "verdicts_by_call"]
    assert verdicts.columns == (fate,)
    shortfall = Shortfall()
    shortfall.add(MET[fate])
    counts = {
        "read when asked again": shortfall.again,
        "read by the extraction prompt": shortfall.extracted,
        "incomplete": shortfall.incomplete,
        "unreadable": shortfall.unread,
    }
    assert counts == {told: int(told == fate) for told in counts}
    assert shortfall.verdicts == (fate not in ("failed", "not asked", "of the same text"))


def test_tries_stand_as_they_were_asked_and_the_first_that_was_read_decides() -> None:
    marks = [f"retry_{number}" for number in range(1, 12)]
    made = tries(**dict.fromkeys([*marks, "extract"], "parsed"))
    [(_, found)] = group_tries(made[::-1]).items()
    assert [call["call"] for call in found] == [
        NAME,
        *(f"{NAME}~{mark}" for mark in marks),
        f"{NAME}~extract",
    ]
    decided = deciding_try(found)
    assert decided is not None
    assert decided["text"] == "retry_1"
    assert deciding_try(tries()) is None


def test_conditions_are_apart() -> None:
    calls = [judged(NAME, "6"), judged(NAME, "7", condition="perception")]
    assert [*group_tries(calls)] == [("free", NAME), ("perception", NAME)]


def test_of_verdicts_that_lack_something_the_first_that_lacks_least_decides() -> None:
    parses = {"retry_1": "incomplete: lacks 12", "retry_2": "incomplete: lacks 2"}
    read = deciding_try(tries(**parses, retry_3="incomplete: lacks 2"))
    assert read is not None
    assert read["text"] == "retry_2"
    whole = tries(**parses, retry_3="parsed")
    assert fate_of(whole) == "read when asked again"
