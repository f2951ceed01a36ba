"""What a reader must know of a run before its numbers: how much of it is missing, if much is.

Counted are answers that are not what the model would have said, calls without a reply, verdicts
that could not be read or only from another reply, and what the headline lacks. Where each was lost,
and why, is told by tables and transcripts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from mmconv.benchmarks.shared.endings import EMPTY, FILTERED, HELD_BACK, TRUNCATED, how_ended
from mmconv.core.config import CANDIDATE
from mmconv.core.types import SAME_TEXT, Table
from mmconv.report.verdict_fates import AGAIN, EXTRACTED, LACKING, UNREADABLE, fate_of, group_tries
from mmconv.run_folder.layout import TRANSCRIPTS
from mmconv.run_folder.saved_run import read_by_sample

NOTABLE = 0.01
"""A larger share that is lost is told before the numbers."""

NOTABLE_LATER = 0.05
"""The same of verdicts that were read in the end, though not from the judge's first reply."""

NOTABLE_ENDINGS = 0.05
"""The same of a turn's answers that were cut off or filtered; of empty ones it is `NOTABLE`."""

MOST_TURNS = 6
"""So many turns are named in a sentence, those with the largest share first."""

UNTOLD = "untold"
"""Answers of which nobody knows why they ended."""

_Turn: TypeAlias = tuple[str, str]
"""A condition and the call for the answer."""


class Notable(NamedTuple):
    """What must be told: in short, and what a whole sentence says besides."""

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
            if call["seat"] == CANDIDATE and (call["state"] == "reply" or _is_held_back(call)):
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
        """Which turns' scores tell of something else than the model, and of what."""
        [limit] = self.limits if len(self.limits) == 1 else [None]
        of_tokens = "on tokens" if limit is None else f"of {limit:,} tokens"
        scores = "so that scores of these turns tell of"
        for metric, ends, what in (
            (TRUNCATED, "were cut off", f", {scores} the limit {of_tokens}, not of the model"),
            (
                FILTERED,
                "were held back by a filter",
                ", so that scores of these turns are missing or tell of that filter, not of the "
                "model",
            ),
            (EMPTY, "are empty", f" and judged all the same, {scores} answers that are not there"),
            (
                UNTOLD,
                "ended for no known reason",
                ": their server tells none, or one of its own, so that they may have been cut off",
            ),
        ):
            counts = self.ended.get(metric, Counter())
            shares = {turn: counts[turn] / self.answers[turn] for turn in counts}
            least = NOTABLE if metric == EMPTY else NOTABLE_ENDINGS
            turns = [turn for turn, share in shares.items() if share > least]
            turns.sort(key=lambda turn: (-shares[turn], turn))
            if turns:
                told = [_of_turn(turn, counts[turn], self.answers[turn]) for turn in turns]
                more = len(told) - MOST_TURNS
                others = [f"and {more} more turns"] if more > 0 else []
                listed = "; ".join([*told[:MOST_TURNS], *others])
                share = f"More than {100 * least:g} % of a turn's answers"
                yield Notable(f"{share} {ends}", f"{what}: {listed}")

    def sentences(self, least: float = NOTABLE) -> Iterator[str]:
        """What is amiss with more than the share `least` of calls or verdicts."""
        return (each.sentence for each in self.losses(least))

    def losses(self, least: float = NOTABLE) -> Iterator[Notable]:
        """The same, in short too."""
        lost = self.failed + self.skipped
        if lost > least * self.calls:
            told = _of(lost, self.calls, "calls")
            parts = _listed((self.failed, "failed"), (self.skipped, "were not asked"))
            yield Notable(f"{told} have no reply", f": {parts}")
        if self.unread > least * self.verdicts:
            told = _of(self.unread, self.verdicts, "verdicts")
            yield Notable(
                f"{told} could not be read",
                f"{self._cut_off(UNREADABLE)}: scores that need them are missing",
            )
        if self.incomplete > least * self.verdicts:
            told = _of(self.incomplete, self.verdicts, "verdicts")
            yield Notable(
                f"{told} lack a turn or a criterion, or have a score off the scale",
                f"{self._cut_off(LACKING)}: scores that need those are missing",
            )
        ways = {"when the judge was asked again": self.again}
        ways["by the extraction prompt"] = self.extracted
        later = {way: count for way, count in ways.items() if count}
        if sum(later.values()) > NOTABLE_LATER * self.verdicts:
            told = _of(sum(later.values()), self.verdicts, "verdicts")
            each = later if len(later) == 1 else [f"{way} ({n:,})" for way, n in later.items()]
            yield Notable(
                f"{told} were read only {' or '.join(each)}", self._cut_off(AGAIN, EXTRACTED)
            )

    def _cut_off(self, *fates: str) -> str:
        """How many of the verdicts with these fates were cut off at first, and by what."""
        count = sum(self.cut_off[fate] for fate in fates)
        return f" ({count:,} of them cut off at judge_max_tokens)" if count else ""


def read_shortfall(folder: Path) -> Shortfall:
    """What the transcripts of a run's folder tell; raises `DataError` where they cannot be read."""
    shortfall = Shortfall()
    for _, calls in read_by_sample(folder / TRANSCRIPTS):
        shortfall.add(calls)
    return shortfall


def tell_notable(shortfall: Shortfall, tables: Iterable[Table]) -> tuple[str, ...]:
    """What must be told of a run before the numbers in its tables; nothing where all went well."""
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
