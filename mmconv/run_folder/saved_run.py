"""Run folders, read back and checked: what was run, with what, its scores, calls and tables.

A folder may hold no run, and a run may be unfinished, cut short on its way here, or of another
version of mmconv. Every reader raises an `InputError` for that, which names the file and the line
or field, and says what to do. Nothing is computed or written here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from mmconv.core.config import CANDIDATE, RunSpec
from mmconv.core.documents import describe_problems
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.types import UNASKED, Score, Table
from mmconv.run_folder.layout import (
    MANIFEST,
    SCORES,
    SPEC,
    SUMMARY,
    TABLES,
    TRANSCRIPTS,
    WHOLE,
    Manifest,
    RunSummary,
    Shard,
    Specified,
    Start,
)
from mmconv.run_folder.transcripts import CallRecord, ScoreRecord, score_of

Document = TypeVar("Document", bound=BaseModel)

_INDEX = f"{TABLES}/{INDEX}"
_NEEDED = (MANIFEST, SCORES, TRANSCRIPTS, _INDEX)
"""What every finished run has."""

RUN_AGAIN = "Run its command again with the same --out: the answers are in the store."
SCORE_AGAIN = "`mmconv score` of the run's folder writes it anew: the answers are in the store."
FINISH = "Run its command again with the same --out to finish it: the answers are in the store."
MERGE = (
    "`mmconv merge` joins the stores of all shards, and the same command over that store without "
    "--shard makes the whole run."
)
_FINISH_OR_SCORE = (
    "Run its command again with the same --out to finish it, or let `mmconv score` of its folder "
    "make what there is: the answers are in the store."
)
_OTHER = "another version of mmconv wrote it, or it was changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run that went to its end; `label` tells it from others that are shown beside it.

    `summary` is None where the run was only scored from a store.
    """

    folder: Path
    label: str
    spec: RunSpec
    manifest: Manifest
    summary: RunSummary | None
    tables: tuple[Table, ...]
    shard: Shard = WHOLE

    @property
    def candidate(self) -> str:
        """What the run's own tables call its candidate."""
        return self.spec.seats[CANDIDATE].label

    @property
    def judge(self) -> str:
        """The label of the judge, or `nobody`."""
        return self.spec.seats["judge"].label if "judge" in self.spec.seats else "nobody"

    def scores(self) -> Iterator[Score]:
        """Stream the run's scores."""
        return read_scores(self.folder / SCORES)


class Line(NamedTuple):
    """A line of a JSON Lines file: the byte at which it begins, its bytes, and its record."""

    begin: int
    text: bytes
    record: dict[str, Any]


def read_start(folder: Path) -> Start:
    """What a run was started with, whether it is finished or not."""
    return _read_document(folder / SPEC, Start, RUN_AGAIN)


def read_specified(folder: Path) -> Specified:
    """The same as far as a copy for clients of the service tells it: what was run, which part."""
    return _read_document(folder / SPEC, Specified, RUN_AGAIN)


def read_spec(folder: Path) -> RunSpec:
    """What was run, whether it is finished or not."""
    return read_specified(folder).spec


def read_finished(folder: Path) -> FinishedRun:
    """A finished run without its records; the label is the candidate's."""
    specified = read_specified(folder)
    spec = specified.spec
    manifest = read_manifest(folder)
    if unnamed := sorted(spec.seats.keys() - manifest.models.keys()):
        problems = [f"models.{seat} is needed and not set" for seat in unnamed]
        raise DataError(str(folder / MANIFEST), problems, SCORE_AGAIN)
    for name in (SCORES, TRANSCRIPTS):
        if not (folder / name).exists():
            raise _unfinished(folder / name)
    return FinishedRun(
        folder=folder,
        label=spec.seats[CANDIDATE].label,
        spec=spec,
        manifest=manifest,
        summary=read_summary(folder),
        tables=_read_tables(folder),
        shard=specified.shard,
    )


def find_unfinished(folder: Path) -> str | None:
    """What tells that a run did not come to its end: a file that it lacks, or its summary.

    None where it came to its end, or no run lies: what else is amiss is told where it is read.
    Without an index of its tables it was resumed since, and these are still to be made anew. What
    was stopped stays unfinished where it was scored, or has results of an earlier session; without
    a summary, where it was scored before all was asked. Raises `InputError` for files that cannot
    be read.
    """
    if not (folder / SPEC).exists():
        return None
    lacking = next((name for name in _NEEDED if not (folder / name).exists()), None)
    summary = read_summary(folder)
    if lacking is not None:
        ended = summary is not None and summary.complete and lacking != _INDEX
        return None if ended else f"it has no {Path(lacking).name}"
    if summary is not None:
        return None if summary.complete else f"it was stopped, says its {SUMMARY}"
    calls = read_lines(folder / TRANSCRIPTS)
    unasked = any(call.record["problem"] == UNASKED for call in calls)
    return "it was scored before all was asked" if unasked else None


def read_manifest(folder: Path) -> Manifest:
    """With what a run was made."""
    return _read_document(folder / MANIFEST, Manifest, SCORE_AGAIN)


def read_summary(folder: Path) -> RunSummary | None:
    """What came of a run's last session; None where no session ended: it was scored at most."""
    path = folder / SUMMARY
    return _read_document(path, RunSummary, RUN_AGAIN) if path.exists() else None


def read_lines(path: Path, begin: int = 0) -> Iterator[Line]:
    """Stream the lines of `TRANSCRIPTS`, or of a file of scores, which may have any other name.

    Starts with the line that begins at the byte `begin`. Every record has the fields that this
    version of mmconv writes, but for those with a default, and no other.
    """
    kind = CallRecord if path.name == TRANSCRIPTS else ScoreRecord
    fields = {name: field.is_required() for name, field in kind.model_fields.items()}
    with _open(path) as file:
        file.seek(begin)
        for text in file:
            try:
                record = _parse(text)
                _check_fields(record, fields)
            except ValueError as error:
                raise _spoilt(path, begin, str(error)) from error
            yield Line(begin, text, record)
            begin += len(text)


def read_by_sample(path: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The records of a file, those of one sample together; they stand together in it."""
    records = (line.record for line in read_lines(path))
    for sample, held in groupby(records, lambda record: str(record["sample"])):
        yield sample, list(held)


def read_calls(folder: Path) -> Iterator[CallRecord]:
    """Stream the calls of a run's folder, each checked in all of its fields."""
    path = folder / TRANSCRIPTS
    for line in read_lines(path):
        try:
            call = CallRecord.model_validate(line.record)
        except ValidationError as error:
            told = ", ".join(describe_problems(error, CallRecord))
            raise _spoilt(path, line.begin, f"{told}; {_OTHER}") from error
        yield call


def read_scores(path: Path) -> Iterator[Score]:
    """Stream the scores of a file of any name, as `transcripts.score_of` reads them."""
    for line in read_lines(path):
        try:
            score = score_of(line.record)
        except (KeyError, TypeError, ValueError) as error:
            raise _spoilt(path, line.begin, f"holds no score: {error}") from error
        yield score


def _read_document(path: Path, kind: type[Document], advice: str) -> Document:
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise (_no_run(path.parent) if path.name == SPEC else _unfinished(path)) from error
    except OSError as error:
        raise DataError(str(path), [error.strerror or str(error)]) from error
    try:
        return kind.model_validate(_parse(data))
    except ValidationError as error:
        told = f"A{_OTHER[1:]}. {advice}"
        raise DataError(str(path), describe_problems(error, kind), told) from error
    except ValueError as error:
        raise DataError(str(path), [str(error)], advice) from error


def _read_tables(folder: Path) -> tuple[Table, ...]:
    try:
        return read_tables(folder / TABLES)
    except FileNotFoundError as error:
        raise _unfinished(Path(error.filename)) from error
    except DataError as error:
        raise DataError(error.where, error.problems, SCORE_AGAIN) from error


def _open(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise _unfinished(path) from error
    except OSError as error:
        raise DataError(str(path), [error.strerror or str(error)]) from error


def _parse(data: bytes) -> dict[str, Any]:
    """The object that the bytes stand for; raises `ValueError` where they stand for none."""
    try:
        content = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if not data.strip():
            raise ValueError("empty") from error
        where = f"{error.msg} (character {error.pos + 1})"
        raise ValueError(f"cut short, or not JSON: {where}") from error
    if not isinstance(content, dict):
        raise ValueError(f"holds a {type(content).__name__}, not an object: {{...}}")
    return content


def _check_fields(record: Mapping[str, Any], fields: Mapping[str, bool]) -> None:
    """Raise `ValueError` for a record that lacks a needed field or has one that is not known."""
    if record.keys() == fields.keys():
        return
    told = [f"has no {name}" for name in sorted(fields.keys() - record.keys()) if fields[name]]
    told += [f"has an unknown field {name}" for name in sorted(record.keys() - fields.keys())]
    if told:
        raise ValueError(f"{', '.join(told)}; {_OTHER}")


def _spoilt(path: Path, begin: int, fault: str) -> DataError:
    """The error for the line that begins at a byte; its number is counted only now."""
    number = 1
    with path.open("rb") as file:
        while file.tell() < begin:
            file.readline()
            number += 1
    return DataError(str(path), [f"line {number}: {fault}"], SCORE_AGAIN)


def _unfinished(missing: Path) -> DataError:
    problem = f"the run is not finished: it has no {missing.name}"
    return DataError(str(missing.parent), [problem], _FINISH_OR_SCORE)


def _no_run(folder: Path) -> ConfigError:
    """The error for a folder without a run, with what lies there instead."""
    if not folder.exists():
        found = "there is no such folder"
    elif not folder.is_dir():
        found = "it is a file; name the run's folder"
    elif runs := sorted(path.parent for path in folder.glob(f"*/{SPEC}")):
        found = f"it holds runs; name one of them, as {runs[0]}"
    else:
        found = f"it has no {SPEC}; `mmconv run` prints the folder that it writes"
    return ConfigError(f"{folder}: no run lies here: {found}")
