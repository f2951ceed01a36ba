"""A column: one number, or the reason why there is none, for each of some samples.

Columns are what the estimates read. They know nothing of metrics, conditions or files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Column:
    """Values of samples, row by row; a sample has several rows where turns or parts were scored.

    `numbers` has shape (rows,) and is NaN exactly where `reasons` has a text: it is for arithmetic
    and stays within `mmconv.stats`; readers take `values`. Rows of one cluster are not independent
    of each other. Raises `ValueError` where the four do not fit together.
    """

    samples: tuple[str, ...]
    clusters: tuple[str, ...]
    numbers: Numbers
    reasons: tuple[str | None, ...]
    _reductions: dict[tuple[str, bool], Column] = field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        lengths = {len(self.samples), len(self.clusters), len(self.numbers), len(self.reasons)}
        if len(lengths) > 1:
            raise ValueError("samples, clusters, numbers and reasons differ in length")
        if np.isinf(self.numbers).any():
            raise ValueError("a column holds finite numbers only")
        unreasoned = [reason is None for reason in self.reasons]
        if not np.array_equal(self.present, unreasoned):
            raise ValueError("a row has either a number or a reason why it has none")

    @classmethod
    def of(
        cls,
        values: Sequence[float | None],
        *,
        samples: Sequence[str] | None = None,
        clusters: Sequence[str] | None = None,
        reasons: Sequence[str | None] | None = None,
    ) -> Column:
        """A column of plain values.

        Samples are numbered where none are given, and each is its own cluster where no clusters
        are. Raises `ValueError` for a None without a reason, and for a NaN.
        """
        if any(value is not None and value != value for value in values):
            raise ValueError("a value is never NaN: give None and a reason")
        names = tuple(map(str, range(len(values))) if samples is None else samples)
        return cls(
            samples=names,
            clusters=names if clusters is None else tuple(clusters),
            numbers=np.array(values, dtype=np.float64),
            reasons=(None,) * len(values) if reasons is None else tuple(reasons),
        )

    @classmethod
    def joined(cls, columns: Sequence[Column]) -> Column:
        """The rows of several columns, one after the other."""
        return cls(
            samples=tuple(chain.from_iterable(each.samples for each in columns)),
            clusters=tuple(chain.from_iterable(each.clusters for each in columns)),
            numbers=np.concatenate([np.empty(0), *(each.numbers for each in columns)]),
            reasons=tuple(chain.from_iterable(each.reasons for each in columns)),
        )

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which rows have a number; shape (rows,)."""
        return ~np.isnan(self.numbers)

    @property
    def is_binary(self) -> bool:
        """Whether every number is 0 or 1, so that their mean is a share."""
        return bool(np.isin(self.numbers[self.present], (0, 1)).all())

    @property
    def values(self) -> list[float | None]:
        """The numbers, None where there is none."""
        return [None if number != number else number for number in self.numbers.tolist()]

    @property
    def missing(self) -> Counter[str]:
        """How many rows have no number, by reason."""
        return Counter(reason for reason in self.reasons if reason is not None)

    def rows(self, places: Sequence[int]) -> Column:
        """These of its rows, in this order."""
        return Column(
            samples=tuple(self.samples[place] for place in places),
            clusters=tuple(self.clusters[place] for place in places),
            numbers=self.numbers[[*places]],
            reasons=tuple(self.reasons[place] for place in places),
        )

    @property
    def known(self) -> Column:
        """Its rows with a number."""
        here = self.present
        return self if here.all() else self.rows(np.flatnonzero(here).tolist())

    def per_sample(self, how: Literal["mean", "min", "max"], *, partial: bool = False) -> Column:
        """One row per sample: the mean, least or greatest of its rows.

        A sample with a missing row is missing, for the first reason among its rows; with
        `partial` only a sample without any number is. The first row gives the cluster. What was
        asked for before is the same column again, and so is one that has a row per sample already.
        """
        if len(set(self.samples)) == len(self):
            # not among the reductions: a column that held itself would be freed late
            return self
        if (how, partial) not in self._reductions:
            self._reductions[how, partial] = self._reduce(how, partial)
        return self._reductions[how, partial]

    def _reduce(self, how: str, partial: bool) -> Column:
        codes, samples = number_names(self.samples)
        here = self.present
        counts = np.bincount(codes[here], minlength=len(samples))
        needed = 1 if partial else np.bincount(codes, minlength=len(samples))
        numbers = _reduced(codes[here], self.numbers[here], counts, how)
        numbers[counts < needed] = np.nan
        first_reasons: dict[int, str] = {}
        for code, reason in zip(codes.tolist(), self.reasons, strict=True):
            if reason is not None and np.isnan(numbers[code]):
                first_reasons.setdefault(code, reason)
        clusters: dict[str, str] = {}
        for sample, cluster in zip(self.samples, self.clusters, strict=True):
            clusters.setdefault(sample, cluster)
        return Column(
            samples=samples,
            clusters=tuple(clusters.values()),
            numbers=numbers,
            reasons=tuple(first_reasons.get(code) for code in range(len(samples))),
        )


def row_of(column: Column) -> dict[str, int]:
    """The row of each sample; raises `ValueError` if a sample has several."""
    rows = {sample: row for row, sample in enumerate(column.samples)}
    if len(rows) < len(column):
        raise ValueError("a sample has several rows; take Column.per_sample before pairing")
    return rows


def align(one: Column, other: Column) -> tuple[Column, Column]:
    """The rows of the samples that both have, in the order of the first; raises as `row_of`."""
    places = row_of(other)
    rows = [row for row, sample in enumerate(one.samples) if sample in places]
    return one.rows(rows), other.rows([places[one.samples[row]] for row in rows])


def number_names(names: Iterable[str]) -> tuple[Codes, tuple[str, ...]]:
    """Number the distinct names by first appearance: (a code per name, the distinct names)."""
    every = list(names)
    known = {name: code for code, name in enumerate(dict.fromkeys(every))}
    return np.array([*map(known.__getitem__, every)], dtype=np.int64), tuple(known)


def _reduced(codes: Codes, numbers: Numbers, counts: Codes, how: str) -> Numbers:
    """`numbers` reduced by code, one per entry of `counts`; any number where a count is 0."""
    if how == "mean":
        totals = np.bincount(codes, weights=numbers, minlength=len(counts))
        return totals / np.maximum(counts, 1)
    extreme, start = (np.minimum, np.inf) if how == "min" else (np.maximum, -np.inf)
    result = np.full(len(counts), start)
    extreme.at(result, codes, numbers)
    return result
