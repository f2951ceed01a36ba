"""Ratings by judges and people, read from files.

A file is a run's `scores.jsonl`, or records (.csv, .tsv, .jsonl, .json, .xlsx) with the fields
`sample` and `value` and optionally `rater`, `metric`, `condition`, `turn`, `cluster` (the dialogue,
by default the sample) and `run` (the name of the run's folder). A value is a number or a label; an
empty one is not a rating. The JSON export of Label Studio is read too, if the `data` of its tasks
have these fields.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from mmconv.benchmarks.data_files.records import Record, read_records, text
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.judges import JUDGE
from mmconv.core.score_rows import CLUSTER
from mmconv.report.agreement.panels import Rating, list_values
from mmconv.report.tables.formats import unquote_formula
from mmconv.run_folder.saved_run import read_scores
from mmconv.run_folder.transcripts import ScoreRecord
from mmconv.stats import ScoreFrame

NEEDED = ("sample", "value")
"""The fields that every rating has."""

TASK = ("data", "annotations")
"""The fields of a task in an export of Label Studio."""

SIDE = "side"
"""The tag for the side of a comparison on which an answer was shown."""

_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+\s*")

_ADVICE = "A rating has a sample and a value (a number or a label); a turn is a whole number."


def read_ratings(path: Path, tags: Mapping[str, str] | None = None) -> list[Rating]:
    """The ratings of a file; without a field `rater`, the rater is the file's stem.

    Of a run's scores, those with all of the `tags` are used. An answer that was judged on both
    sides has the mean, as in the run's tables, or None if a side has none. Raises `DataError` with
    file, record and field for all bad records, and `ConfigError` for tags that no score has.
    """
    ratings: list[Rating] = []
    problems: list[str] = []
    for record in read_records(path, columns=NEEDED):
        if record.fields.keys() >= ScoreRecord.model_fields.keys():
            return list(_scores(path, tags or {}))
        is_task = record.fields.keys() >= {*TASK}
        absent = [name for name in NEEDED if name not in record.fields]
        if absent and not is_task:
            problem = f"no field {' and no field '.join(absent)}; its fields: "
            raise DataError(record.where, [problem + list_values(record.fields)], _ADVICE)
        try:
            records = _annotations(record) if is_task else [record]
            ratings += [_rating(each, path.stem) for each in records]
        except DataError as error:
            problems += [f"{error.where}: {problem}" for problem in error.problems]
    if tags:
        raise ConfigError(f"{path}: only a run's scores have tags, and these are ratings")
    if problems or not ratings:
        raise DataError(str(path), problems or ["no rating in this file"], _ADVICE)
    return ratings


def _scores(path: Path, tags: Mapping[str, str]) -> Iterator[Rating]:
    scores = dict(enumerate(read_scores(path), start=1))
    chosen = {line: score for line, score in scores.items() if tags.items() <= score.tags.items()}
    if scores and not chosen:
        values: dict[str, set[str]] = {}
        for score in scores.values():
            for name, value in score.tags.items():
                values.setdefault(name, set()).add(value)
        values.pop(CLUSTER, None)
        listed = [f"{name} ({list_values(sorted(values[name]))})" for name in sorted(values)]
        wanted = ", ".join(f"{name}={value}" for name, value in tags.items())
        raise ConfigError(
            f"{path}: no score has {wanted}; their tags: {', '.join(listed) or 'none'}"
        )
    clusters = ScoreFrame(chosen.values()).select().clusters
    times: Counter[tuple[object, ...]] = Counter()
    sides: dict[tuple[object, ...], list[Rating]] = {}
    for (number, score), cluster in zip(chosen.items(), clusters, strict=True):
        rating = Rating(
            where=f"{path.name} line {number}",
            sample=score.sample,
            rater=JUDGE,
            value=score.value,
            why=score.why or "",
            metric=score.metric,
            condition=score.condition,
            turn=None if score.turn is None else str(score.turn),
            cluster=cluster,
            tags={name: value for name, value in score.tags.items() if name != CLUSTER},
        )
        side = score.tags.get(SIDE)
        others = {**rating.tags, SIDE: "none" if side is None else "any"}
        unit = (score.sample, score.metric, score.condition, score.turn, *sorted(others.items()))
        # the same side again is not another side
        times[unit, side] += 1
        sides.setdefault((unit, times[unit, side]), []).append(rating)
    for ratings in sides.values():
        numbers = [rating.value for rating in ratings if isinstance(rating.value, float | int)]
        if len(numbers) == len(ratings):
            yield replace(ratings[0], value=sum(numbers) / len(numbers))
        else:
            yield next(rating for rating in ratings if rating.value is None)


def _annotations(task: Record) -> Iterator[Record]:
    """Each annotation of a Label Studio task as a record: a rating, a number or one choice.

    Skipped tasks have none. Raises `DataError` for another number of values than one.
    """
    for number, annotation in enumerate(task.fields["annotations"], start=1):
        if annotation.get("was_cancelled"):
            continue
        where = f"{task.where}, annotation {number}"
        values = []
        for result in annotation.get("result", ()):
            its = result.get("value", {})
            values += [its[name] for name in ("rating", "number") if name in its]
            values += its.get("choices", [])
        if len(values) != 1:
            raise DataError(where, [f"{len(values)} ratings, numbers or choices; expected one"])
        rater = annotation.get("completed_by")
        if isinstance(rater, dict):
            rater = rater.get("email") or rater.get("id")
        fields = {**task.fields["data"], "value": values[0], "rater": rater}
        yield Record(where=where, fields=fields)


def _rating(record: Record, rater: str) -> Rating:
    def read(field: str) -> str | None:
        """A field without stray blanks; None if it is empty."""
        return unquote_formula((text(record, field) or "").strip()) or None

    if all(name == value for name, value in record.fields.items()):
        raise DataError(record.where, ["repeats the column names: use one file for each table"])
    sample = read("sample")
    if sample is None:
        raise DataError(record.where, ["no sample"])
    turn = text(record, "turn")
    if turn is not None and not turn.strip().isdecimal():
        raise DataError(record.where, [f"turn is {turn!r}"])
    return Rating(
        where=record.where,
        sample=sample,
        rater=read("rater") or rater,
        value=_value(record.where, read("value")),
        metric=read("metric"),
        condition=read("condition"),
        turn=None if turn is None else str(int(turn)),
        cluster=read("cluster"),
        run=read("run"),
    )


def _value(where: str, written: str | None) -> float | str | None:
    if written is None:
        return None
    if _DECIMAL_COMMA.fullmatch(written):
        raise DataError(where, [f"value is {written}; use a decimal point, not a comma"])
    try:
        number = float(written)
    except ValueError:
        return written
    if not math.isfinite(number):
        raise DataError(where, [f"value is {written}, which is not a rating"])
    return number
