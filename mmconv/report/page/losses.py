"""Where answers and verdicts are missing, counted call by call.

The tables of a benchmark say of every cell how much is missing; these say where it was lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mmconv.benchmarks.shared.endings import EMPTY, FILTERED, TRUNCATED, how_ended
from mmconv.core.types import Cell, Table
from mmconv.report.data_quality import (
    AGAIN,
    EXTRACTED,
    FAILED,
    FATES,
    LACKING,
    NOT_ASKED,
    UNREADABLE,
    Shortfall,
    fate_of,
    group_tries,
    is_judgement,
)
from mmconv.report.page.dialogues import Record, call_order

_ENDINGS = {TRUNCATED: "cut off", EMPTY: "empty", FILTERED: "filtered"}
ANSWERS = ("answered", *_ENDINGS.values(), "context dropped", "failed", "not asked")
LOST = (LACKING, UNREADABLE, FAILED, NOT_ASKED)
Rows: TypeAlias = dict[tuple[str, str], Counter[str]]
"""Condition and call -> how often which fate was met."""

MOST_PROBLEMS = 12
"""So many different problems are listed, the most frequent first."""


@dataclass(slots=True)
class Losses:
    """Counts what became of every call, by condition and call; `shortfalls` has each run's sums."""

    answers: Rows = field(default_factory=dict)
    verdicts: Rows = field(default_factory=dict)
    problems: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str], str] = field(default_factory=dict)
    shortfalls: dict[str, Shortfall] = field(default_factory=dict)

    def add(self, sample: str, calls: Sequence[Record], run: str = "") -> None:
        """Count the calls of one sample; `run` goes before the names of the rows."""
        self.shortfalls.setdefault(run, Shortfall()).add(calls)
        for (condition, name), tries in group_tries(calls).items():
            place = f"{run}{condition}", name
            if is_judgement(tries[0]):
                self.verdicts.setdefault(place, Counter())[fate_of(tries)] += 1
            else:
                fates = (fate for call in tries for fate in _fates(call))
                self.answers.setdefault(place, Counter()).update(fates)
        for call in calls:
            if call["state"] == "failure":
                problem = call["model"], call["problem"]
                self.problems[problem] += 1
                self.examples.setdefault(problem, sample)

    def tables(self) -> list[Table]:
        """What became of answers and verdicts, and the problems that were met, where there are."""
        made = [
            _counts("answers_by_call", "What became of the answers", ANSWERS, self.answers),
            _counts("verdicts_by_call", "What became of the verdicts", FATES, self.verdicts),
        ]
        rows = {
            f"{role}: {problem}": {
                "calls": Cell(value=float(count)),
                "for instance sample": Cell(value=self.examples[role, problem]),
            }
            for (role, problem), count in self.problems.most_common(MOST_PROBLEMS)
        }
        made.append(
            Table(
                name="problems",
                title="Calls that failed, by reason",
                columns=("calls", "for instance sample"),
                rows=rows,
                digits=0,
            )
        )
        return [table for table in made if table.rows]

    @property
    def any(self) -> bool:
        """Whether an answer was lost or cut off, or a verdict not read at once."""
        lost = [each[fate] for each in self.answers.values() for fate in ANSWERS[1:]]
        unread = [
            each[fate] for each in self.verdicts.values() for fate in (AGAIN, EXTRACTED, *LOST)
        ]
        return any(lost) or any(unread)

    def sentence(self) -> str:
        """How much was lost, in one sentence."""
        answers, verdicts = (
            sum(each.values(), Counter()) for each in (self.answers, self.verdicts)
        )
        lost = [f"{answers[fate]:,} {fate}" for fate in ANSWERS[1:] if answers[fate]]
        unread = [f"{verdicts[fate]:,} {fate}" for fate in LOST if verdicts[fate]]
        wanted = sum(answers[fate] for fate in ("answered", "failed", "not asked"))
        parts = [
            f"Of {wanted:,} answers, {', '.join(lost) if lost else 'none is missing or cut off'}"
        ]
        if verdicts:
            listed = ", ".join(unread) if unread else "none is missing"
            parts.append(f"of {verdicts.total():,} verdicts, {listed}")
        return f"{'; '.join(parts)}."


def _fates(call: Mapping[str, Any]) -> list[str]:
    if call["state"] != "reply":
        return ["failed" if call["state"] == "failure" else "not asked"]
    ended = how_ended(call["finish"], call["text"])
    fates = ["answered", *(_ENDINGS[metric] for metric, is_so in ended.items() if is_so)]
    if call["dropped"]:
        fates.append("context dropped")
    return fates


def _counts(name: str, title: str, columns: tuple[str, ...], rows: Rows) -> Table:
    """The counters as a table, without the columns in which nothing stands.

    Calls end in any order; the rows stand as conditions came and turns follow.
    """
    conditions = list(dict.fromkeys(condition for condition, _ in rows))
    ordered = sorted(rows, key=lambda place: (conditions.index(place[0]), call_order(place[1])))
    kept = tuple(each for each in columns if any(counter[each] for counter in rows.values()))
    return Table(
        name=name,
        title=title,
        columns=kept,
        rows={
            ", ".join(place): {column: Cell(value=float(rows[place][column])) for column in kept}
            for place in ordered
        },
        digits=0,
    )
