"""Data quality: what became of answers and verdicts, call by call, and what a reader must know.

A fallback prompt is recognised by its id, see `judges.judging`: the part after ~ is its kind. Calls
are the records of `transcripts.jsonl`. What a verdict says is not looked at here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from mmconv.benchmarks.shared.endings import EMPTY, FILTERED, HELD_BACK, TRUNCATED, how_ended
from mmconv.core.config import CANDIDATE
from mmconv.core.types import SAME_TEXT, Table
from mmconv.run_folder.layout import TRANSCRIPTS
from mmconv.run_folder.saved_run import read_by_sample
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
    """Whether a call asks for a verdict: it was filled from a prompt file, by another role."""
    return call["model"] != CANDIDATE and call["prompt"] is not None


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
        _, fallback = _parted(read)
        return EXTRACTED if fallback == _EXTRACTION else AGAIN if fallback else AT_ONCE
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
    name, _, fallback = call["call"].partition("~")
    return name, fallback


def _order(call: Mapping[str, Any]) -> tuple[bool, int]:
    """First the call, then its repeats by number, the extraction at last."""
    _, fallback = _parted(call)
    number = fallback.rpartition("_")[2]
    return fallback == _EXTRACTION, int(number) if number.isdigit() else 0


NOTABLE = 0.01
"""A larger share that is lost is reported before the numbers."""

NOTABLE_LATER = 0.05
"""The same of verdicts that were read in the end, though not from the judge's first reply."""

NOTABLE_ENDINGS = 0.05
"""The same of a turn's answers that were cut off or filtered; of empty ones it is `NOTABLE`."""

MOST_TURNS = 6
"""So many turns are named in a sentence, those with the largest share first."""

UNTOLD = "untold"
"""Answers that ended for an unknown reason."""

_Turn: TypeAlias = tuple[str, str]
"""A condition and the call for the answer."""


class Notable(NamedTuple):
    """What must be reported: in short, and the rest of the sentence."""

    short: str
    more: str = ""

    @property
    def sentence(self) -> str:
        """All of it."""
        return f"{self.short}{self.more}."


@dataclass(slots=True, kw_only=True)
class Shortfall:
    """Counts of a run: calls, verdicts that were given, and what went amiss.

    `skipped` calls were not asked. `unread` verdicts are those of which no reply could be read; of
    those read, `again` took a later reply of the judge, `extracted` that to the extraction prompt;
    `incomplete` ones lack scores that the judge was asked for. `cut_off` counts verdicts of these
    kinds, by kind, of which the judge's first reply was cut off.
    The candidate's replies, and what a filter left nothing of, are in `answers` by turn, and in
    `ended` by the metrics of `mmconv.benchmarks.shared.endings` and `UNTOLD` too; `limits` has how
    many tokens those that were cut off have.
    """

    calls: int = 0
    failed: int = 0
    skipped: int = 0
    verdicts: int = 0
    unread: int = 0
    again: int = 0
    extracted: int = 0
    incomplete: int = 0
    cut_off: Counter[str] = field(default_factory=Counter)
    answers: Counter[_Turn] = field(default_factory=Counter)
    ended: dict[str, Counter[_Turn]] = field(default_factory=dict)
    limits: set[int | None] = field(default_factory=set)

    def add(self, calls: Iterable[dict[str, Any]]) -> None:
        """Count records of one sample in `transcripts.jsonl`, all calls of each plan or none.

        Calls that would have compared equal texts are left out: nothing is lost with them.
        """
        asked = [call for call in calls if call["problem"] != SAME_TEXT]
        self.calls += len(asked)
        self.failed += sum(call["state"] == "failure" for call in asked)
        self.skipped += sum(call["state"] == "skipped" for call in asked)
        for call in asked:
            if call["model"] == CANDIDATE and (call["state"] == "reply" or _is_held_back(call)):
                self._add_answer(call)
        for tries in group_tries(asked).values():
            if any(call["parse"] for call in tries):
                fate = fate_of(tries)
                self.verdicts += 1
                self.unread += fate == UNREADABLE
                self.again += fate == AGAIN
                self.extracted += fate == EXTRACTED
                self.incomplete += fate == LACKING
                self.cut_off[fate] += tries[0]["finish"] == "length"

    def _add_answer(self, call: dict[str, Any]) -> None:
        turn = call["condition"], call["call"]
        self.answers[turn] += 1
        ends = {FILTERED: True}
        if call["state"] == "reply":
            ends = how_ended(call["finish"], call["text"]) | {UNTOLD: call["finish"] == "unknown"}
        for metric, is_so in ends.items():
            self.ended.setdefault(metric, Counter())[turn] += is_so
        if ends.get(TRUNCATED):
            self.limits.add(call["output_tokens"])

    def endings(self) -> Iterator[Notable]:
        """Which turns' scores measure something else than the model, and what."""
        [limit] = self.limits if len(self.limits) == 1 else [None]
        of_tokens = "on tokens" if limit is None else f"of {limit:,} tokens"
        scores = "so that scores of these turns measure"
        for metric, ends, what in (
            (TRUNCATED, "were cut off", f", {scores} the limit {of_tokens}, not the model"),
            (
                FILTERED,
                "were held back by a filter",
                ", so that scores of these turns are missing or measure that filter, not the model",
            ),
            (EMPTY, "are empty", f" and judged all the same, {scores} answers that are not there"),
            (
                UNTOLD,
                "ended for no known reason",
                "; they may have been cut off",
            ),
        ):
            counts = self.ended.get(metric, Counter())
            shares = {turn: counts[turn] / self.answers[turn] for turn in counts}
            least = NOTABLE if metric == EMPTY else NOTABLE_ENDINGS
            turns = [turn for turn, share in shares.items() if share > least]
            turns.sort(key=lambda turn: (-shares[turn], turn))
            if turns:
                places = [_of_turn(turn, counts[turn], self.answers[turn]) for turn in turns]
                more = len(places) - MOST_TURNS
                others = [f"and {more} more turns"] if more > 0 else []
                listed = "; ".join([*places[:MOST_TURNS], *others])
                share = f"More than {100 * least:g} % of a turn's answers"
                yield Notable(f"{share} {ends}", f"{what}: {listed}")

    def sentences(self, least: float = NOTABLE) -> Iterator[str]:
        """What is amiss with more than the share `least` of calls or verdicts."""
        return (each.sentence for each in self.losses(least))

    def losses(self, least: float = NOTABLE) -> Iterator[Notable]:
        """The same, in short too."""
        lost = self.failed + self.skipped
        if lost > least * self.calls:
            share = _of(lost, self.calls, "calls")
            parts = _listed((self.failed, "failed"), (self.skipped, "were not asked"))
            yield Notable(f"{share} have no reply", f": {parts}")
        if self.unread > least * self.verdicts:
            share = _of(self.unread, self.verdicts, "verdicts")
            yield Notable(
                f"{share} could not be read",
                f"{self._cut_off(UNREADABLE)}: scores that need them are missing",
            )
        if self.incomplete > least * self.verdicts:
            share = _of(self.incomplete, self.verdicts, "verdicts")
            yield Notable(
                f"{share} lack a turn or a criterion, or have a score off the scale",
                f"{self._cut_off(LACKING)}: scores that need those are missing",
            )
        ways = {"when the judge was asked again": self.again}
        ways["by the extraction prompt"] = self.extracted
        later = {way: count for way, count in ways.items() if count}
        if sum(later.values()) > NOTABLE_LATER * self.verdicts:
            share = _of(sum(later.values()), self.verdicts, "verdicts")
            each = later if len(later) == 1 else [f"{way} ({n:,})" for way, n in later.items()]
            yield Notable(
                f"{share} were read only {' or '.join(each)}", self._cut_off(AGAIN, EXTRACTED)
            )

    def _cut_off(self, *fates: str) -> str:
        """How many of the verdicts with these fates were cut off at first, and by what."""
        count = sum(self.cut_off[fate] for fate in fates)
        return f" ({count:,} of them cut off at judge_max_tokens)" if count else ""


def read_shortfall(folder: Path) -> Shortfall:
    """The counts of a run's transcripts; raises `DataError` if they cannot be read."""
    shortfall = Shortfall()
    for _, calls in read_by_sample(folder / TRANSCRIPTS):
        shortfall.add(calls)
    return shortfall


def tell_notable(shortfall: Shortfall, tables: Iterable[Table]) -> tuple[str, ...]:
    """What must be reported before the numbers in a run's tables; empty if all went well."""
    return tuple(each.sentence for each in find_notable(shortfall, tables))


def find_notable(shortfall: Shortfall, tables: Iterable[Table]) -> tuple[Notable, ...]:
    """The same, in short too."""
    return *shortfall.endings(), *shortfall.losses(), *headline_gap(tables)


def headline_gap(tables: Iterable[Table]) -> Iterator[Notable]:
    """What the first row of a run's tables lacks most, if that is more than `NOTABLE`."""
    name, row = next((first for table in tables for first in table.rows.items()), ("", {}))
    gaps = {column: sum(cell.missing.values()) for column, cell in row.items()}
    sizes = {column: gap + (row[column].n or 0) for column, gap in gaps.items() if gap}
    if sizes:
        worst = max(sizes, key=lambda column: gaps[column] / sizes[column])
        if gaps[worst] > NOTABLE * sizes[worst]:
            yield Notable(f"{name}, {worst}, lacks {_of(gaps[worst], sizes[worst], 'scores')}")


def _is_held_back(call: dict[str, Any]) -> bool:
    return call["state"] == "failure" and str(call["problem"]).startswith(f"{HELD_BACK} ")


def _of(part: int, whole: int, what: str) -> str:
    return f"{part:,} of {whole:,} {what} ({100 * part / whole:.1f} %)"


def _of_turn(turn: _Turn, part: int, whole: int) -> str:
    condition, call = turn
    place = f"{condition}, {call.replace('_', ' ')}"
    return f"{place} ({part:,} of {whole:,}, {100 * part / whole:.1f} %)"


def _listed(*parts: tuple[int, str]) -> str:
    return ", ".join(f"{count:,} {what}" for count, what in parts if count)
