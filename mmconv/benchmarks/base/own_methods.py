"""The methods of a benchmark of one's own: what they raise is told with the sample and their lines.

So is what they return and must not. Which lines are one's own is `mmconv.core.user_code`'s to tell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction
from math import inf, isfinite, isinf
from textwrap import shorten
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from mmconv.benchmarks.base.samples import ID
from mmconv.benchmarks.shared.scoring import Scale, Scores, ends_of
from mmconv.core.config import SamplingSpec
from mmconv.core.errors import OwnCodeError
from mmconv.core.types import (
    Call,
    Cell,
    Image,
    Message,
    Ref,
    Role,
    Sampling,
    Score,
    Table,
    Text,
    Verdict,
)
from mmconv.core.user_code import checked, telling
from mmconv.core.validation import tell_problems

Made = TypeVar("Made", Call, Score, Table)

PLAIN_NAME = re.compile(r"[\w-][\w.-]*")
"""What a table may be called, since files are named after it."""

QUOTED = 100
"""Characters that are told of a reply whose parser fails, or of what is no call or score."""


def make_telling(kind: type) -> None:
    """Have what the class's own methods raise told with the sample.

    Raises `OwnCodeError` for one that is `async def`, since nothing would await it.
    """
    for name in TELLING.keys() & vars(kind).keys():
        method = vars(kind)[name]
        if iscoroutinefunction(method) or isasyncgenfunction(method):
            raise OwnCodeError(f"{kind.__qualname__}.{name} is `async def`: write `def`")
        setattr(kind, name, TELLING[name](method))


def _telling_plan(plan: Callable[..., Iterable[Call]]) -> Callable[..., tuple[Call, ...]]:
    @wraps(plan)
    def told(self: Any, sample: Any, condition: str) -> tuple[Call, ...]:
        of = f"of sample {self.key(sample)!r} under {condition}"
        what = f"{plan.__qualname__} {of}"
        made = _made(what, Call, lambda: plan(self, sample, condition))
        with telling(what):
            _check_calls(what, made)
        kind = type(self).__qualname__
        return tuple(_with_told_parser(call, kind, of) for call in made)

    return told


def _check_calls(what: str, calls: Iterable[Call]) -> None:
    """Refuse calls that cannot be asked, or that would be asked with less than they hold."""
    for call in calls:
        for each in (call, *call.rescues):
            for fault in _call_faults(each):
                raise OwnCodeError(f"{what}: {fault} of call {each.id!r}")


def _call_faults(call: Any) -> Iterator[str]:
    for name in ("id", "seat"):
        if not isinstance(given := getattr(call, name), str):
            yield f"{given!r} is no text, and stands for the {name}"
    if call.parser is not None and not callable(call.parser):
        yield f"{call.parser!r} cannot be called, and is the parser"
    if not (isinstance(call.messages, tuple | list) and call.messages):
        yield f"{_quoted(call.messages)} is no tuple of Messages, and stands for those"
        return
    for number, message in enumerate(call.messages, start=1):
        yield from (f"{fault} message {number}" for fault in _message_faults(message))
    if not isinstance(call.sampling, Sampling):
        yield f"{_quoted(call.sampling)} is no Sampling, and stands for that"
        return
    given = {name: getattr(call.sampling, name) for name in SamplingSpec.model_fields}
    try:
        SamplingSpec.model_validate(given)
    except ValidationError as error:
        yield f"{'; '.join(tell_problems(error, SamplingSpec))}, in the sampling"


def _message_faults(message: Any) -> Iterator[str]:
    if not isinstance(message, Message):
        yield f"{_quoted(message)} is no Message, and stands for"
        return
    if message.role not in get_args(Role):
        yield f"{message.role!r} is none of the roles {', '.join(get_args(Role))}, and that of"
    if not (isinstance(message.parts, tuple | list) and message.parts):
        yield f"{_quoted(message.parts)} is no tuple with a part, and stands for the parts of"
        return
    parts: tuple[Any, ...] = message.parts
    for number, part in enumerate(parts, start=1):
        match part:
            case Text(text=str()) | Image() | Ref(call=str()):
                continue
        yield f"{_quoted(part)} is no Text(text=...), Image or Ref, and stands for part {number} of"


def _quoted(given: Any) -> str:
    return shorten(repr(given), QUOTED)


def _with_told_parser(call: Call, kind: str, of: str) -> Call:
    """The call and its rescues: their parsers run long after `plan`, and wherever replies come."""
    rescues = tuple(_with_told_parser(rescue, kind, of) for rescue in call.rescues)
    if (parse := call.parser) is None:
        return replace(call, rescues=rescues)

    def parser(text: str) -> Verdict:
        what = f"{kind}: the parser of call {call.id!r} {of}, on {shorten(text, QUOTED)!r},"
        with telling(what):
            verdict = parse(text)
        checked(what, verdict, Verdict)
        return verdict

    return replace(call, rescues=rescues, parser=parser)


def _telling_score(score: Callable[..., Scores]) -> Callable[..., tuple[Score, ...]]:
    """What no score can be is refused too, see `_check_scores`; see `FileBenchmark.clustered`."""

    @wraps(score)
    def told(self: Any, sample: Any, condition: str, calls: Any, outcomes: Any) -> Any:
        key = self.key(sample)
        what = f"{score.__qualname__} of sample {key!r} under {condition}"
        made = _made(what, Score, lambda: score(self, sample, condition, calls, outcomes))
        with telling(what):
            _check_scores(what, (key, condition), made, self.scale)
            scores = tuple(_with_float(each) for each in made)
        return self.clustered(sample, scores)

    return told


def _check_scores(
    what: str, asked: tuple[str, str], scores: tuple[Score, ...], scale: Scale
) -> None:
    """Refuse no scores, those of another sample or condition, off the scale, and two of a thing."""
    if not scores:
        raise OwnCodeError(
            f"{what} gives no score: a sample that has none says why, as in Score(..., value=None, "
            "why='no answer')"
        )
    given = set()
    for each in scores:
        for fault in (*_score_faults(each, asked), *_value_faults(each, scale)):
            raise OwnCodeError(f"{what}: {each.metric!r} {fault}")
        this = each.metric, each.turn, frozenset(each.tags.items())
        if this in given:
            raise OwnCodeError(
                f"{what}: {each.metric!r} is scored twice; tell scores of one metric apart by "
                "`turn` or `tags`"
            )
        given.add(this)


def _score_faults(score: Any, asked: tuple[str, str]) -> Iterator[str]:
    if not (score.metric and isinstance(score.metric, str)):
        yield "is no name of a metric"
    if (score.sample, score.condition) != asked:
        yield f"is scored for sample {score.sample!r} under {score.condition}"
    if not isinstance(score.why, str | None):
        yield f"has the reason {score.why!r}, which is no text"
    if score.turn is not None and (type(score.turn) is not int or score.turn < 0):
        yield f"has the turn {score.turn!r}, which is no whole number from 0"
    for name, text in score.tags.items():
        if not (isinstance(name, str) and isinstance(text, str)):
            yield f"has the tag {name!r}: {text!r}, which is no text"
        if name in Score.__dataclass_fields__:
            yield f"has a tag {name!r}, and scores have a field of that name"


def _value_faults(score: Score, scale: Scale) -> Iterator[str]:
    if isinstance(scale, Mapping) and score.metric not in scale:
        yield "has no ends in `scale`, which names those of other metrics: give it some, or None"
    if score.value is None:
        return
    if isinf(score.value):
        yield f"is {score.value}: give None and a reason"
    lowest, highest = ends_of(scale, score.metric) or (-inf, inf)
    if not lowest <= score.value <= highest:
        yield (
            f"is {score.value:g}, and the benchmark's scale is {lowest:g} to {highest:g}: "
            "mend the score, or `scale`"
        )


def _with_float(score: Score) -> Score:
    """The score with its value, a truth value or another library's number, as a float."""
    return replace(score, value=None if score.value is None else float(score.value))


def _telling_key(key: Callable[..., str]) -> Callable[..., str]:
    @wraps(key)
    def told(self: Any, sample: Any) -> str:
        what = f"{key.__qualname__} of {_record(sample)}"
        with telling(what):
            made = key(self, sample)
        return str(checked(what, made, str))

    return told


def _record(sample: Any) -> str:
    """A sample whose key is not known."""
    if isinstance(sample, Mapping) and ID in sample:
        return f"the record with {ID} {sample[ID]!r}"
    return f"a {type(sample).__name__}"


def _telling_about(about: Callable[..., Mapping[str, str]]) -> Callable[..., Mapping[str, str]]:
    @wraps(about)
    def told(self: Any, sample: Any) -> Mapping[str, str]:
        what = f"{about.__qualname__} of sample {self.key(sample)!r}"
        with telling(what):
            made = about(self, sample)
        checked(what, made, Mapping)
        return made

    return told


def _telling_clustered(clustered: Callable[..., Scores]) -> Callable[..., Scores]:
    @wraps(clustered)
    def told(self: Any, sample: Any, scores: tuple[Score, ...]) -> tuple[Score, ...]:
        what = f"{clustered.__qualname__} of sample {self.key(sample)!r}"
        return _made(what, Score, lambda: clustered(self, sample, scores))

    return told


def _telling_facts(facts: property) -> property:
    def told(self: Any) -> Mapping[str, Any]:
        what = f"{type(self).__name__}.facts"
        with telling(what):
            made: Mapping[str, Any] = facts.__get__(self)
        checked(what, made, Mapping)
        return made

    return property(told, doc=facts.__doc__)


def _telling_load(load: Callable[..., Iterable[Any]]) -> Callable[..., Iterator[Any]]:
    @wraps(load)
    def told(self: Any) -> Iterator[Any]:
        with telling(load.__qualname__):
            yield from load(self)

    return told


def _telling_tables(tables: Callable[..., Iterable[Table]]) -> Callable[..., tuple[Table, ...]]:
    @wraps(tables)
    def told(self: Any, scores: Scores) -> tuple[Table, ...]:
        what = tables.__qualname__
        # a method that adds a table to those of its base class reads them more than once
        there = tuple(scores)
        made = _made(what, Table, lambda: tables(self, there))
        with telling(what):
            _check_tables(what, made)
        return made

    return told


def _check_tables(what: str, tables: tuple[Table, ...]) -> None:
    """Refuse tables that could not be written."""
    for name, count in Counter(table.name for table in tables).items():
        if count > 1 or not PLAIN_NAME.fullmatch(name):
            told = f"{count} tables" if count > 1 else "a table"
            raise OwnCodeError(
                f"{what} names {told} {name!r}: files are named after them, so give each a name of "
                "its own, of letters, digits, '_', '-' and '.'"
            )
    for table in tables:
        for row, cells in table.rows.items():
            for column, cell in cells.items():
                where = f"{what}: table {table.name!r}, row {row!r}, column {column!r}"
                checked(where, cell, Cell)
                if column not in table.columns:
                    raise OwnCodeError(f"{where}: the table has no such column")
                for number in (cell.value, cell.low, cell.high):
                    if not isinstance(number, str | None) and not isfinite(number):
                        raise OwnCodeError(f"{where} holds {number}: give None")


TELLING: Mapping[str, Callable[[Any], Any]] = {
    "about": _telling_about,
    "clustered": _telling_clustered,
    "facts": _telling_facts,
    "key": _telling_key,
    "load": _telling_load,
    "plan": _telling_plan,
    "score": _telling_score,
    "tables": _telling_tables,
}
"""Method -> what makes one of the same use, which raises `OwnCodeError` for whatever it raises."""


def _made(what: str, kind: type[Made], make: Callable[[], Iterable[Made]]) -> tuple[Made, ...]:
    """What is made, all of it of this kind."""
    with telling(what):
        given: Any = make()
        if not isinstance(given, Iterable):
            told = f"{what} gives {_quoted(given)}, and no {kind.__name__}s in a tuple"
            raise OwnCodeError(f"{told}: return one, or `yield` each")
        made = tuple(given)
    for each in made:
        checked(what, each, kind)
    return made
