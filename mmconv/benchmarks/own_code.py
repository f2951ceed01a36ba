"""The methods of a benchmark of one's own: what they raise is told with the sample and their lines.

So is what they return and must not. Which lines are one's own is `mmconv.own_code`'s to tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import wraps
from math import inf
from textwrap import shorten
from typing import Any, TypeVar

from mmconv.benchmarks.samples import ID
from mmconv.errors import OwnCodeError
from mmconv.own_code import checked, telling
from mmconv.values import Call, Score, Table, Verdict

Made = TypeVar("Made", Call, Score, Table)

QUOTED = 100
"""Characters of a reply that are told where its parser fails."""


def _telling_plan(plan: Callable[..., Iterable[Call]]) -> Callable[..., tuple[Call, ...]]:
    @wraps(plan)
    def told(self: Any, sample: Any, condition: str) -> tuple[Call, ...]:
        of = f"of sample {self.key(sample)!r} under {condition}"
        made = _made(f"{plan.__qualname__} {of}", Call, lambda: plan(self, sample, condition))
        kind = type(self).__qualname__
        return tuple(_with_told_parser(call, kind, of) for call in made)

    return told


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


def _telling_score(score: Callable[..., Iterable[Score]]) -> Callable[..., tuple[Score, ...]]:
    """What no score can be is refused too, see `_check_scores`; see `FileBenchmark.clustered`."""

    @wraps(score)
    def told(self: Any, sample: Any, condition: str, calls: Any, outcomes: Any) -> Any:
        key = self.key(sample)
        what = f"{score.__qualname__} of sample {key!r} under {condition}"
        scores = _made(what, Score, lambda: score(self, sample, condition, calls, outcomes))
        with telling(what):
            _check_scores(what, (key, condition), scores, self.scale)
        return self.clustered(sample, scores)

    return told


def _check_scores(
    what: str,
    asked: tuple[str, str],
    scores: Iterable[Score],
    scale: tuple[float, float] | None,
) -> None:
    """Refuse scores of another sample or condition, off the scale, and two of the same thing."""
    lowest, highest = scale or (-inf, inf)
    given = set()
    for each in scores:
        if (each.sample, each.condition) != asked:
            raise OwnCodeError(
                f"{what}: {each.metric!r} is scored for sample {each.sample!r} "
                f"under {each.condition}"
            )
        if each.value is not None and not lowest <= each.value <= highest:
            raise OwnCodeError(
                f"{what}: {each.metric!r} is {each.value:g}, and the benchmark's scale is "
                f"{lowest:g} to {highest:g}: mend the score, or `scale`"
            )
        this = each.metric, each.turn, frozenset(each.tags.items())
        if this in given:
            raise OwnCodeError(
                f"{what}: {each.metric!r} is scored twice; tell scores of one metric apart by "
                "`turn` or `tags`"
            )
        given.add(this)


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


def _telling_clustered(clustered: Callable[..., Iterable[Score]]) -> Callable[..., Iterable[Score]]:
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
    def told(self: Any, scores: Iterable[Score]) -> tuple[Table, ...]:
        return _made(tables.__qualname__, Table, lambda: tables(self, scores))

    return told


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
        made = tuple(make())
    for each in made:
        checked(what, each, kind)
    return made
