"""Data quality: what became of each answer and verdict of a run, and what a reader must know of it.

Calls are records of `transcripts.jsonl`. A fallback is recognised by its id (`judges.judging`): the
part after ~ is its kind. All requests for one verdict are its attempts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from mmconv.benchmarks.base.endings import EMPTY, FILTERED, HELD_BACK, TRUNCATED, how_ended
from mmconv.core.atomic_writes import write_file
from mmconv.core.config import CANDIDATE
from mmconv.core.errors import DataError
from mmconv.core.judges import split_call
from mmconv.core.types import SAME_TEXT, Cell, Table
from mmconv.run_folder.layout import TRANSCRIPTS, WARNINGS
from mmconv.run_folder.saved_run import SCORE_AGAIN, FinishedRun, read_by_sample, read_json
from mmconv.run_folder.transcripts import INCOMPLETE, PARSED

Record: TypeAlias = dict[str, Any]
"""One line of `transcripts.jsonl` or `scores.jsonl`."""

Turn: TypeAlias = tuple[str, str]

Counts: TypeAlias = dict[Turn, Counter[str]]

READ = "read"
READ_AFTER_RETRY = "read after a retry"
EXTRACTED = "read by the extraction prompt"
PARTIAL = "incomplete"
UNREADABLE = "unreadable"
FAILED = "failed"
NOT_REQUESTED = "not requested"
NEEDLESS = "same text"
STATUSES = (
    *(REPLIED := (READ, READ_AFTER_RETRY, EXTRACTED, PARTIAL, UNREADABLE)),
    FAILED,
    NOT_REQUESTED,
    NEEDLESS,
)
"""The status of a verdict; nothing is lost with one that would have compared equal texts."""

LOST = (PARTIAL, UNREADABLE, FAILED, NOT_REQUESTED)
LATE = (READ_AFTER_RETRY, EXTRACTED)

ANSWERED = "answered"
_ENDINGS = {TRUNCATED: "cut off", EMPTY: "empty", FILTERED: "filtered"}
ANSWERS = (ANSWERED, *_ENDINGS.values(), "context dropped", FAILED, NOT_REQUESTED)

_WITHHELD = "withheld"
_UNKNOWN = "ended for an unknown reason"

_EXTRACTION = "extract"
_DIGITS = re.compile(r"(\d+)")


def is_judgement(call: Mapping[str, Any]) -> bool:
    """Whether a call asks for a verdict: another role's call, made from a prompt file.

    If a judge is evaluated, its replies are read as verdicts.
    """
    is_judge = call["model"] != CANDIDATE or call["parse"] is not None
    return is_judge and call["prompt"] is not None


def group_attempts(calls: Iterable[Record]) -> dict[Turn, list[Record]]:
    """(condition, id without a fallback's kind) -> the call and its fallbacks, in their order."""
    groups: dict[Turn, list[Record]] = {}
    for call in calls:
        groups.setdefault((call["condition"], call["call"].partition("~")[0]), []).append(call)

    def order(call: Record) -> tuple[bool, list[Any]]:
        fallback = call["call"].partition("~")[2]
        return fallback == _EXTRACTION, natural_order(fallback)

    return {turn: sorted(attempts, key=order) for turn, attempts in groups.items()}


def deciding_attempt(attempts: Sequence[Record]) -> Record | None:
    """The first attempt whose verdict misses the least; None if no reply could be read."""
    readable = [(missing, call) for call in attempts if (missing := _missing(call)) is not None]
    return min(readable, key=lambda pair: pair[0])[1] if readable else None


def verdict_status(attempts: Sequence[Record]) -> str:
    """The status, one of `STATUSES`, of the verdict that these attempts asked for."""
    if decisive := deciding_attempt(attempts):
        fallback = decisive["call"].partition("~")[2]
        if _missing(decisive):
            return PARTIAL
        return EXTRACTED if fallback == _EXTRACTION else READ_AFTER_RETRY if fallback else READ
    if any(call["problem"] == SAME_TEXT for call in attempts):
        return NEEDLESS
    states = {call["state"] for call in attempts}
    if "reply" in states:
        return UNREADABLE
    return FAILED if "failure" in states else NOT_REQUESTED


def natural_order(name: str) -> list[Any]:
    """A key that sorts `turn_2` before `turn_10`."""
    parts = _DIGITS.split(name)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)]


def call_order(call: str) -> tuple[str, bool, list[Any], str]:
    """A key that sorts call ids: those of a group by turn, then what has no number."""
    plain, judge = split_call(call)
    group, _, name = plain.rpartition("/")
    return group, _DIGITS.search(name) is None, natural_order(name), judge


def _missing(call: Record) -> int | None:
    """How many parts of the verdict are missing; None if the reply could not be read."""
    parse = call["parse"] or ""
    if parse.startswith(INCOMPLETE):
        return int(parse.removeprefix(INCOMPLETE))
    return 0 if parse == PARSED else None


NOTABLE = 0.01
"""A larger share that is lost is reported before the numbers."""

NOTABLE_LATER = 0.05
"""The same of verdicts that were read, but not from the judge's first reply."""

NOTABLE_ENDINGS = 0.05
"""The same of a turn's answers that were cut off or filtered; of empty ones it is `NOTABLE`."""

_OF_ANSWERS = (
    (
        ("cut off",),
        NOTABLE_ENDINGS,
        "were cut off",
        "their scores measure {limit}, not the model",
    ),
    (
        ("filtered", _WITHHELD),
        NOTABLE_ENDINGS,
        "were held back by a content filter",
        "their scores are missing or measure the filter, not the model",
    ),
    (("empty",), NOTABLE, "are empty", "they were judged like any other answer"),
    (
        (_UNKNOWN,),
        NOTABLE_ENDINGS,
        "ended for an unknown reason",
        "they may have been cut off",
    ),
)
"""Endings of a turn's answers, the share of them that is reported, in words, and the effect."""

_OF_VERDICTS = (
    (UNREADABLE, "could not be read", "scores that need them are missing"),
    (
        PARTIAL,
        "are incomplete",
        "a turn or criterion is missing, or a score is off the scale; scores that need it are "
        "missing",
    ),
)
"""A status of verdicts, in words, and its effect."""

MOST_TURNS = 6

MOST_PROBLEMS = 12


class Statement(str):
    """A sentence about a run; `short` is the begin of it, without the effects and the places."""

    short: str

    def __new__(cls, short: str, rest: str = "") -> Statement:
        """The sentence of two parts, which ends with a full stop."""
        made = super().__new__(cls, f"{short}{rest}.")
        made.short = short
        return made


@dataclass(slots=True, kw_only=True)
class DataQuality:
    """Counts of a run's calls: totals, and what became of the answers and verdicts of each turn.

    - `calls`, `failed`, `skipped`: all calls, except comparisons of equal texts;
    - `answers`, `verdicts`: `ANSWERS` and `STATUSES` by turn; `own`: the candidate's turns;
    - `cut_off`: verdicts by status of which the first reply was cut off;
    - `limits`: the tokens of the candidate's answers that were cut off;
    - `problems`: the samples of failed calls by role and message.
    """

    calls: int = 0
    failed: int = 0
    skipped: int = 0
    answers: Counts = field(default_factory=dict)
    verdicts: Counts = field(default_factory=dict)
    own: set[Turn] = field(default_factory=set)
    cut_off: Counter[str] = field(default_factory=Counter)
    limits: set[int | None] = field(default_factory=set)
    problems: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def add(self, calls: Iterable[Record]) -> None:
        """Count records of one sample: all calls of each plan, or none."""
        groups = group_attempts(calls)
        for turn, attempts in groups.items():
            for call in attempts:
                self._add_call(call)
            judgement = is_judgement(attempts[0])
            if judgement or any(call["parse"] for call in attempts):
                status = verdict_status(attempts)
                self.verdicts.setdefault(turn, Counter())[status] += 1
                self.cut_off[status] += attempts[0]["finish"] == "length"
            if not judgement:
                endings = (ending for call in attempts for ending in _endings(call))
                self.answers.setdefault(turn, Counter()).update(endings)

    def _add_call(self, call: Record) -> None:
        if call["problem"] == SAME_TEXT:
            return
        self.calls += 1
        self.skipped += call["state"] == "skipped"
        if call["state"] == "failure":
            self.failed += 1
            problem = call["model"], call["problem"]
            self.problems.setdefault(problem, []).append(call["sample"])
        if call["model"] == CANDIDATE:
            self.own.add((call["condition"], call["call"]))
            if call["finish"] == "length":
                self.limits.add(call["output_tokens"])

    def judged(self) -> Counter[str]:
        """The verdicts by status, without those to which no judge replied."""
        total = _sum(self.verdicts)
        return Counter({status: total[status] for status in REPLIED})

    def endings(self) -> Iterator[Statement]:
        """The turns whose scores measure something other than the model."""
        limit = next(iter(self.limits)) if len(self.limits) == 1 else None
        measured = "the token limit" if limit is None else f"the limit of {limit:,} tokens"
        for endings, least, what, effect in _OF_ANSWERS:
            if places := self._places(endings, least):
                found = f"More than {100 * least:g} % of a turn's answers {what}"
                yield Statement(found, f"; {effect.format(limit=measured)}: {places}")

    def _places(self, endings: Sequence[str], least: float) -> str:
        shares = []
        for (condition, call), counts in self.answers.items():
            size = counts[ANSWERED] + counts[_WITHHELD]
            count = sum(counts[ending] for ending in endings)
            if (condition, call) in self.own and count > least * size:
                share = f"{count:,} of {size:,}, {100 * count / size:.1f} %"
                place = f"{condition}, {call.replace('_', ' ')} ({share})"
                shares.append((-count / size, condition, call, place))
        places = [place for *_, place in sorted(shares)[:MOST_TURNS]]
        if (more := len(shares) - MOST_TURNS) > 0:
            places.append(f"and {more} more turns")
        return "; ".join(places)

    def losses(self, least: float = NOTABLE) -> Iterator[Statement]:
        """What was lost, if it is more than the share `least` of the calls or verdicts."""
        if (lost := self.failed + self.skipped) > least * self.calls:
            parts = (self.failed, FAILED), (self.skipped, f"were {NOT_REQUESTED}")
            listed = ", ".join(f"{count:,} {what}" for count, what in parts if count)
            yield Statement(f"{_share(lost, self.calls, 'calls')} have no reply: {listed}")
        judged = self.judged()
        size = judged.total()
        for status, what, effect in _OF_VERDICTS:
            if judged[status] > least * size:
                share = _share(judged[status], size, "verdicts")
                yield Statement(f"{share} {what}{self._cut_off(status)}", f": {effect}")
        later = {status: judged[status] for status in LATE if judged[status]}
        if (count := sum(later.values())) > NOTABLE_LATER * size:
            ways = [status.removeprefix("read ") for status in later]
            if len(ways) > 1:
                ways = [f"{way} ({later[f'read {way}']:,})" for way in ways]
            share = _share(count, size, "verdicts")
            read = f"were only read {' or '.join(ways)}{self._cut_off(*later)}"
            yield Statement(f"{share} {read}")

    def _cut_off(self, *statuses: str) -> str:
        count = sum(self.cut_off[status] for status in statuses)
        return f" ({count:,} of them cut off at judge_max_tokens)" if count else ""


def read_quality(folder: Path) -> DataQuality:
    """The counts of a run's transcripts; raises `DataError` if they cannot be read."""
    quality = DataQuality()
    for _, calls in read_by_sample(folder / TRANSCRIPTS):
        quality.add(calls)
    return quality


def find_notable(quality: DataQuality, tables: Iterable[Table]) -> tuple[Statement, ...]:
    """What must be reported before the numbers in a run's tables; empty if all went well."""
    return *quality.endings(), *quality.losses(), *headline_gap(tables)


def write_notable(folder: Path, notable: Iterable[Statement]) -> None:
    """Write what `read_notable` reads."""
    warnings = [{"short": each.short, "text": each} for each in notable]
    write_file(folder / WARNINGS, orjson.dumps(warnings, option=orjson.OPT_INDENT_2) + b"\n")


def read_notable(run: FinishedRun) -> tuple[Statement, ...]:
    """What a finished run reported before its numbers; raises `DataError` for a damaged file."""
    path = run.folder / WARNINGS
    if not path.exists():
        return find_notable(read_quality(run.folder), run.tables)
    try:
        warnings = [(each["short"], each["text"]) for each in read_json(path)]
        return tuple(Statement(short, text[len(short) : -1]) for short, text in warnings)
    except (KeyError, TypeError) as error:
        raise DataError(str(path), ["not a list of warnings"], SCORE_AGAIN) from error


def headline_gap(tables: Iterable[Table]) -> Iterator[Statement]:
    """The largest gap in the first row of a run's tables, if that is more than `NOTABLE`."""
    name, row = next((first for table in tables for first in table.rows.items()), ("", {}))
    gaps = {column: sum(cell.missing.values()) for column, cell in row.items()}
    sizes = {column: gap + (row[column].n or 0) for column, gap in gaps.items() if gap}
    if sizes:
        worst = max(sizes, key=lambda column: gaps[column] / sizes[column])
        if gaps[worst] > NOTABLE * sizes[worst]:
            share = _share(gaps[worst], sizes[worst], "scores")
            yield Statement(f"{name}, {worst}: {share} are missing")


def quality_tables(runs: Mapping[str, DataQuality]) -> list[Table]:
    """What became of answers and verdicts, and why calls failed; runs by the prefix of rows."""
    problems: dict[tuple[str, str], list[str]] = {}
    for quality in runs.values():
        for problem, samples in quality.problems.items():
            problems.setdefault(problem, []).extend(samples)
    rows = {
        f"{problem[0]}: {problem[1]}": {
            "calls": Cell(value=float(len(problems[problem]))),
            "sample": Cell(value=problems[problem][0]),
        }
        for problem in sorted(problems, key=lambda each: -len(problems[each]))[:MOST_PROBLEMS]
    }
    answers = {prefix: quality.answers for prefix, quality in runs.items()}
    verdicts = {prefix: quality.verdicts for prefix, quality in runs.items()}
    tables = (
        _count_table("answers_by_call", "What became of the answers", ANSWERS, answers),
        _count_table("verdicts_by_call", "What became of the verdicts", STATUSES, verdicts),
        Table(
            name="problems",
            title="Calls that failed, by reason",
            columns=("calls", "sample"),
            rows=rows,
            digits=0,
        ),
    )
    return [table for table in tables if table.rows]


def summarise_quality(runs: Mapping[str, DataQuality]) -> tuple[str, bool]:
    """The losses of all runs in one sentence, and whether there are any, even a late verdict."""
    answers: Counter[str] = sum((_sum(quality.answers) for quality in runs.values()), Counter())
    verdicts: Counter[str] = sum((_sum(quality.verdicts) for quality in runs.values()), Counter())
    lost = [f"{answers[ending]:,} {ending}" for ending in ANSWERS[1:] if answers[ending]]
    unread = [f"{verdicts[status]:,} {status}" for status in LOST if verdicts[status]]
    size = sum(answers[ending] for ending in (ANSWERED, FAILED, NOT_REQUESTED))
    parts = [f"Of {size:,} answers, {', '.join(lost) or 'none is missing or cut off'}"]
    if verdicts:
        parts.append(f"of {verdicts.total():,} verdicts, {', '.join(unread) or 'none is missing'}")
    late = sum(verdicts[status] for status in LATE)
    return f"{'; '.join(parts)}.", bool(lost or unread or late)


def _endings(call: Record) -> Iterator[str]:
    if call["state"] != "reply":
        yield FAILED if call["state"] == "failure" else NOT_REQUESTED
        if str(call["problem"]).startswith(f"{HELD_BACK} "):
            yield _WITHHELD
        return
    yield ANSWERED
    for metric, applies in how_ended(call["finish"], call["text"]).items():
        if applies:
            yield _ENDINGS[metric]
    if call["dropped"]:
        yield "context dropped"
    if call["finish"] == "unknown":
        yield _UNKNOWN


def _count_table(
    name: str, title: str, columns: Sequence[str], runs: Mapping[str, Counts]
) -> Table:
    rows = {
        (f"{prefix}{condition}", call): counter
        for prefix, counts in runs.items()
        for (condition, call), counter in counts.items()
    }
    conditions = list(dict.fromkeys(condition for condition, _ in rows))
    ordered = sorted(rows, key=lambda turn: (conditions.index(turn[0]), call_order(turn[1])))
    filled = tuple(column for column in columns if any(row[column] for row in rows.values()))
    return Table(
        name=name,
        title=title,
        columns=filled,
        rows={
            ", ".join(turn): {column: Cell(value=float(rows[turn][column])) for column in filled}
            for turn in ordered
        },
        digits=0,
    )


def _sum(counts: Counts) -> Counter[str]:
    return sum(counts.values(), Counter())


def _share(part: int, whole: int, what: str) -> str:
    return f"{part:,} of {whole:,} {what} ({100 * part / whole:.1f} %)"
