"""What became of a judgement: the call for it, and the rescues that were asked after it.

A rescue is told by its id, see `judges.judging`: what stands behind the ~ says how it was asked.
Calls are the records of `transcripts.jsonl`. What a verdict says is not looked at here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from mmconv.core.config import CANDIDATE
from mmconv.core.types import SAME_TEXT
from mmconv.run_folder.transcripts import INCOMPLETE, PARSED

Tries: TypeAlias = list[dict[str, Any]]
"""Records of the calls for one verdict, as they were asked."""

AT_ONCE = "read at once"
AGAIN = "read when asked again"
EXTRACTED = "read by the extraction prompt"
LACKING = "incomplete"
UNREADABLE = "unreadable"
FAILED = "failed"
NOT_ASKED = "not asked"
NEEDLESS = "of the same text"
FATES = (AT_ONCE, AGAIN, EXTRACTED, LACKING, UNREADABLE, FAILED, NOT_ASKED, NEEDLESS)
"""What can become of a verdict; nothing is lost with one that would have compared equal texts."""

_EXTRACTION = "extract"


def is_judgement(call: Mapping[str, Any]) -> bool:
    """Whether a call asks for a verdict: it was filled from a prompt file, by another seat."""
    return call["seat"] != CANDIDATE and call["prompt"] is not None


def group_tries(calls: Iterable[dict[str, Any]]) -> dict[tuple[str, str], Tries]:
    """(condition, id without a rescue's mark) -> the calls for it, as they were asked."""
    groups: dict[tuple[str, str], Tries] = {}
    for call in calls:
        name, _ = _parted(call)
        groups.setdefault((call["condition"], name), []).append(call)
    for tries in groups.values():
        if len(tries) > 1:
            tries.sort(key=_order)
    return groups


def deciding_try(tries: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The first of the tries whose verdict lacks least, or None where no reply could be read."""
    read = [each for each in tries if _lacks(each) is not None]
    return min(read, key=lambda each: _lacks(each) or 0, default=None)


def fate_of(tries: Sequence[Mapping[str, Any]]) -> str:
    """Which of `FATES` the verdict met that these calls asked for."""
    read = deciding_try(tries)
    if read is not None:
        if _lacks(read):
            return LACKING
        _, rescue = _parted(read)
        return EXTRACTED if rescue == _EXTRACTION else AGAIN if rescue else AT_ONCE
    if any(each["problem"] == SAME_TEXT for each in tries):
        return NEEDLESS
    states = {each["state"] for each in tries}
    if "reply" in states:
        return UNREADABLE
    return FAILED if "failure" in states else NOT_ASKED


def _lacks(call: Mapping[str, Any]) -> int | None:
    """How many things the verdict lacks; None where the reply could not be read."""
    parse = call["parse"] or ""
    if parse.startswith(INCOMPLETE):
        return int(parse.removeprefix(INCOMPLETE))
    return 0 if parse == PARSED else None


def _parted(call: Mapping[str, Any]) -> tuple[str, str]:
    """The id of the call that was asked first, and what marks a rescue of it."""
    name, _, rescue = call["call"].partition("~")
    return name, rescue


def _order(call: Mapping[str, Any]) -> tuple[bool, int]:
    """First the call, then its repeats by number, the extraction at last."""
    _, rescue = _parted(call)
    number = rescue.rpartition("_")[2]
    return rescue == _EXTRACTION, int(number) if number.isdigit() else 0
