"""Ratings by judges and people, read from files.

A file is a run's `scores.jsonl`, or records (.csv, .tsv, .jsonl, .json, .xlsx) with the fields
`sample` and `value` and, where there are several, `rater`, `metric`, `condition`, `turn` and
`cluster` (the dialogue, by default the sample). A value is a number or a label; an empty one is not
a rating. Which ratings belong together is decided in `mmconv.report.agreement.panels`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mmconv.benchmarks.data_files.records import Record, read_records, text
from mmconv.core.errors import ConfigError, DataError
from mmconv.report.agreement.panels import Rating, list_values
from mmconv.report.tables.formats import unquote_formula
from mmconv.run_folder.saved_run import read_scores
from mmconv.run_folder.transcripts import ScoreRecord
from mmconv.stats import ScoreFrame

NEEDED = ("sample", "value")
"""The fields that every rating has."""

CLUSTER = "cluster"
"""The tag of scores that depend on each other; it cannot be chosen by."""

SIDE = "side"
"""The tag for the side of a comparison on which an answer was shown."""

_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+\s*")

_ADVICE = "A rating has a sample and a value (a number or a label); a turn is a whole number."


def read_ratings(path: Path, tags: Mapping[str, str] | None = None) -> list[Rating]:
    """The ratings of a file; where it names no rater, the rater is the file's stem.

    Of a run's scores those with all of the `tags` are taken; of an answer that was judged on both
    sides the mean, as in the run's tables, or none where a side has none. Raises `DataError` naming
    file, record and field, for all records in one message, but for the first without a field that
    all have; `ConfigError` for tags that nothing has.
    """
    ratings: list[Rating] = []
    problems: list[str] = []
    for record in read_records(path, columns=NEEDED):
        if record.fields.keys() >= ScoreRecord.model_fields.keys():
            return list(_scores(path, tags or {}))
        if lacking := [name for name in NEEDED if name not in record.fields]:
            problem = f"no field {' and no field '.join(lacking)}; its fields: "
            raise DataError(record.where, [problem + list_values(record.fields)], _ADVICE)
        try:
            ratings.append(_rating(record, path.stem))
        except DataError as error:
            problems += [f"{error.where}: {problem}" for problem in error.problems]
    if tags:
        raise ConfigError(f"{path}: only a run's scores have tags, and these are ratings")
    if problems or not ratings:
        raise DataError(str(path), problems or ["holds no rating"], _ADVICE)
    return ratings


def _scores(path: Path, tags: Mapping[str, str]) -> Iterator[Rating]:
    every = list(read_scores(path))
    chosen = {
        line: score
        for line, score in enumerate(every, start=1)
        if tags.items() <= score.tags.items()
    }
    if every and not chosen:
        wanted = ", ".join(f"{name}={value}" for name, value in tags.items())
        given = sorted(
            {
                (name, value)
                for score in every
                for name, value in score.tags.items()
                if name != CLUSTER
            }
        )
        there = [
            f"{name} ({list_values(value for other, value in given if other == name)})"
            for name in dict(given)
        ]
        raise ConfigError(
            f"{path}: no score has {wanted}; their tags: {', '.join(there) or 'none'}"
        )
    clusters = ScoreFrame(chosen.values()).select().clusters
    times: Counter[tuple[object, ...]] = Counter()
    sides: dict[tuple[object, ...], list[Rating]] = {}
    for (number, score), cluster in zip(chosen.items(), clusters, strict=True):
        rating = Rating(
            where=f"{path.name} line {number}",
            sample=score.sample,
            rater=path.stem,
            value=score.value,
            why=score.why or "",
            metric=score.metric,
            condition=score.condition,
            turn=None if score.turn is None else str(score.turn),
            cluster=cluster,
            tags={name: value for name, value in score.tags.items() if name != CLUSTER},
        )
        side = score.tags.get(SIDE)
        others = sorted({**rating.tags, SIDE: "none" if side is None else "any"}.items())
        unit = (score.sample, score.metric, score.condition, score.turn, *others)
        # the same side again is not another side
        times[unit, side] += 1
        sides.setdefault((unit, times[unit, side]), []).append(rating)
    yield from map(_mean, sides.values())


def _mean(sides: Sequence[Rating]) -> Rating:
    """One rating for the sides that an answer was judged on; none where one of them has none."""
    values = [each.value for each in sides if isinstance(each.value, float | int)]
    if len(values) < len(sides):
        return next(each for each in sides if each.value is None)
    return replace(sides[0], value=sum(values) / len(values))


def _rating(record: Record, rater: str) -> Rating:
    if all(name == value for name, value in record.fields.items()):
        raise DataError(record.where, ["names the columns again: give each table its own file"])
    sample = _name(record, "sample")
    if sample is None:
        raise DataError(record.where, ["no sample"])
    return Rating(
        where=record.where,
        sample=sample,
        rater=_name(record, "rater") or rater,
        value=_value(record),
        metric=_name(record, "metric"),
        condition=_name(record, "condition"),
        turn=_turn(record),
        cluster=_name(record, "cluster"),
    )


def _name(record: Record, field: str) -> str | None:
    """A field without stray blanks, None where nothing else is in it."""
    return unquote_formula((text(record, field) or "").strip()) or None


def _value(record: Record) -> float | str | None:
    written = _name(record, "value")
    if written is None:
        return None
    if _DECIMAL_COMMA.fullmatch(written):
        raise DataError(
            record.where, [f"value is {written}, a number with a comma: write it with a point"]
        )
    try:
        number = float(written)
    except ValueError:
        return written
    if not math.isfinite(number):
        raise DataError(record.where, [f"value is {written}, which is not a rating"])
    return number


def _turn(record: Record) -> str | None:
    written = text(record, "turn")
    if written is None:
        return None
    if not written.strip().isdecimal():
        raise DataError(record.where, [f"turn is {written!r}"])
    return str(int(written))
