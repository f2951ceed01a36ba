"""Ratings: what raters gave samples, which of them are chosen, and how their values are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mmconv.core.errors import ConfigError

FIELDS = ("metric", "condition", "turn")
"""What tells ratings of one sample apart, beside the rater."""

_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """What a rater gave a sample, or None and why not.

    `where` it stands and the `tags` of a run's score are for messages.
    """

    where: str
    sample: str
    rater: str
    value: float | str | None
    why: str = "no value"
    metric: str | None = None
    condition: str | None = None
    turn: str | None = None
    cluster: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


def require_fields(ratings: Sequence[Rating], **chosen: str | None) -> None:
    """Raise `ConfigError` where something is chosen by a field that no rating has."""
    for name, value in chosen.items():
        if value is not None and not distinct(name, ratings):
            there = [each for each in FIELDS if distinct(each, ratings)]
            raise ConfigError(
                f"--{name} {value}: no rating has a {name} to choose by; beside sample, rater and "
                f"value there is: {list_values(there)}"
            )


def choose(ratings: Iterable[Rating], **chosen: str | None) -> list[Rating]:
    """The ratings whose fields have the chosen values, or lack the field; None chooses nothing.

    Raises `ConfigError` that tells the values there are, where there are ratings and none has them.
    """
    every = list(ratings)
    wanted = {name: value for name, value in chosen.items() if value is not None}
    found = _having(every, wanted)
    if every and not found:
        named = ", ".join(f"{name} {value}" for name, value in wanted.items())
        told = "; ".join(f"{name} {_offered(name, every, wanted)}" for name in wanted)
        raise ConfigError(f"no rating by {_raters_of(every)} has {named}; there are: {told}")
    return found


def _having(ratings: Iterable[Rating], wanted: Mapping[str, str]) -> list[Rating]:
    return [
        rating
        for rating in ratings
        if all(getattr(rating, name) in (None, value) for name, value in wanted.items())
    ]


def _offered(name: str, ratings: Sequence[Rating], wanted: Mapping[str, str]) -> str:
    """A field's values among the ratings that have all else that is wanted, or among all."""
    others = {other: value for other, value in wanted.items() if other != name}
    return list_values(distinct(name, _having(ratings, others) or ratings))


def _raters_of(ratings: Sequence[Rating]) -> str:
    return list_values(distinct("rater", ratings))


def distinct(name: str, ratings: Iterable[Rating]) -> tuple[Any, ...]:
    """The values of a field in order of first appearance, None left out."""
    values = dict.fromkeys(getattr(rating, name) for rating in ratings)
    return tuple(value for value in values if value is not None)


def label(value: float | str) -> str:
    """A value as it is written: numbers without trailing zeros."""
    return value if isinstance(value, str) else f"{value:.15g}"


def list_values(values: Iterable[float | str]) -> str:
    """The first values by comma, and how many there are if not all are told; "none" of none."""
    labels = [label(value) for value in values]
    more = f", ... ({len(labels)})" if len(labels) > _SHOWN else ""
    return ", ".join(labels[:_SHOWN]) + more or "none"
