"""Readers of run folders: specification, manifest, scores, calls and tables.

A folder may have no run, or one that is unfinished, damaged, or from another version of mmconv.
Then every reader raises an `InputError` with the file, the line or field, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from mmconv.core.config import CANDIDATE, RunSpec
from mmconv.core.documents import describe_problems
from mmconv.core.errors import ConfigError, DataError
from mmconv.core.judges import list_judges
from mmconv.core.score_rows import ScoreRows
from mmconv.core.types import UNASKED, Score, Table
from mmconv.run_folder.layout import (
    JUDGED,
    LABELS,
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

INDEX = "index.json"

_INDEX = f"{TABLES}/{INDEX}"
_NEEDED = (MANIFEST, SCORES, TRANSCRIPTS, _INDEX)

RUN_AGAIN = "Run its command again with the same --out: the replies are cached."
SCORE_AGAIN = "`mmconv score` of the run's folder rewrites it: the replies are cached."
FINISH = "Run its command again with the same --out to finish it: the replies are cached."
MERGE = (
    "`mmconv merge` joins the stores of all shards, and the same command over that store without "
    "--shard makes the whole run."
)
_FINISH_OR_SCORE = (
    "Run its command again with the same --out to finish it, or let `mmconv score` of its folder "
    "write what there is: the replies are cached."
)
_TABLE = TypeAdapter(Table)
_OTHER = "another version of mmconv wrote it, or it was changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A complete run, called `label` in a comparison; without `summary` if only scored."""

    folder: Path
    label: str
    spec: RunSpec
    manifest: Manifest
    summary: RunSummary | None
    tables: tuple[Table, ...]
    shard: Shard = WHOLE

    @property
    def candidate(self) -> str:
        """The name of the candidate in the run's tables."""
        return self.spec.models[CANDIDATE].label

    @property
    def judge(self) -> str:
        """The label of the judge, or `none`; of several judges all."""
        return list_judges(self.spec.models) or "none"

    def scores(self) -> Iterator[Score]:
        """Stream the run's scores."""
        return read_scores(self.folder / SCORES)

    def judges(self) -> dict[str, ScoreRows]:
        """The scores of each of several judges by its label; none with one judge."""
        path = self.folder / JUDGED
        rows: dict[str, ScoreRows] = {}
        for score in read_scores(path) if path.exists() else ():
            rows.setdefault(score.tags["judge"], ScoreRows()).append(score)
        return rows

    def labels(self) -> Iterator[Score] | None:
        """Stream people's scores; None if the run has no such file."""
        path = self.folder / LABELS
        return read_scores(path) if path.exists() else None


class Line(NamedTuple):
    """A line of a JSON Lines file: the byte offset of its begin, its bytes, and its record."""

    begin: int
    text: bytes
    record: dict[str, Any]


def read_start(folder: Path) -> Start:
    """Read the start of a run, complete or not."""
    return _read_document(folder / SPEC, Start, RUN_AGAIN)


def read_specified(folder: Path) -> Specified:
    """Read specification and shard, also from a copy for clients of the service."""
    return _read_document(folder / SPEC, Specified, RUN_AGAIN)


def read_spec(folder: Path) -> RunSpec:
    """Read the specification of a run, complete or not."""
    return read_specified(folder).spec


def read_finished(folder: Path) -> FinishedRun:
    """Read a complete run without its records; its label is the candidate's."""
    specified = read_specified(folder)
    spec = specified.spec
    manifest = read_manifest(folder)
    for name in (SCORES, TRANSCRIPTS):
        if not (folder / name).exists():
            raise _unfinished(folder / name)
    try:
        tables = read_tables(folder / TABLES)
    except FileNotFoundError as error:
        raise _unfinished(Path(error.filename)) from error
    except DataError as error:
        raise DataError(error.where, error.problems, SCORE_AGAIN) from error
    return FinishedRun(
        folder=folder,
        label=spec.models[CANDIDATE].label,
        spec=spec,
        manifest=manifest,
        summary=read_summary(folder),
        tables=tables,
        shard=specified.shard,
    )


def find_unfinished(folder: Path) -> str | None:
    """The reason why a run is not complete: a missing file, or its summary.

    None for a complete run, and without a run; readers report other problems. Without the index of
    its tables the run was resumed, and the tables must be written again. A stopped run stays
    incomplete even if it was scored, or has results of an earlier session. Without a summary, it is
    incomplete if it was scored before all calls were requested. Raises `InputError` for files that
    cannot be read.
    """
    if not (folder / SPEC).exists():
        return None
    missing = next((name for name in _NEEDED if not (folder / name).exists()), None)
    summary = read_summary(folder)
    if missing is not None:
        ended = summary is not None and summary.complete and missing != _INDEX
        return None if ended else f"it has no {Path(missing).name}"
    if summary is not None:
        return None if summary.complete else f"it was stopped, says its {SUMMARY}"
    calls = read_lines(folder / TRANSCRIPTS)
    unasked = any(call.record["problem"] == UNASKED for call in calls)
    return "it was scored before all was asked" if unasked else None


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest."""
    return _read_document(folder / MANIFEST, Manifest, SCORE_AGAIN)


def read_summary(folder: Path) -> RunSummary | None:
    """Read the summary of a run's last session; None if no session has ended."""
    path = folder / SUMMARY
    return _read_document(path, RunSummary, RUN_AGAIN) if path.exists() else None


def read_lines(path: Path, begin: int = 0) -> Iterator[Line]:
    """Stream the lines of `TRANSCRIPTS`, or of a file of scores, which may have any other name.

    Starts at the byte offset `begin` of a line. Checks that every record has the fields of this
    version of mmconv; fields with a default may be missing.
    """
    kind = CallRecord if path.name == TRANSCRIPTS else ScoreRecord
    fields = {name: field.is_required() for name, field in kind.model_fields.items()}
    with _open(path) as file:
        file.seek(begin)
        for text in file:
            try:
                record = _parse(text)
                if "seat" in record:  # the field's name in folders from before 0.1.0
                    record["model"] = record.pop("seat")
                _check_fields(record, fields)
            except ValueError as error:
                raise _damaged_line(path, begin, str(error)) from error
            yield Line(begin, text, record)
            begin += len(text)


def read_by_sample(path: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The records of a file, grouped by sample; the file has them in groups."""
    records = (line.record for line in read_lines(path))
    for sample, group in groupby(records, lambda record: str(record["sample"])):
        yield sample, list(group)


def read_calls(folder: Path) -> Iterator[CallRecord]:
    """Stream the calls of a run's folder, all fields validated."""
    path = folder / TRANSCRIPTS
    for line in read_lines(path):
        try:
            call = CallRecord.model_validate(line.record)
        except ValidationError as error:
            problems = ", ".join(describe_problems(error, CallRecord))
            raise _damaged_line(path, line.begin, f"{problems}; {_OTHER}") from error
        yield call


def read_scores(path: Path) -> Iterator[Score]:
    """Stream the scores of a file of any name."""
    for line in read_lines(path):
        try:
            score = score_of(line.record)
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged_line(path, line.begin, f"not a score: {error}") from error
        yield score


def read_tables(folder: Path) -> tuple[Table, ...]:
    """The tables of a folder in their order; raises `FileNotFoundError` and `DataError`."""
    return tuple(read_table(folder / f"{name}.json") for name in read_names(folder))


def read_names(folder: Path) -> list[str]:
    """The names of the tables in a folder, in their order; raises as `read_tables` does."""
    path = folder / INDEX
    names = read_json(path)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(str(path), ["not a list of names"])
    return names


def read_table(path: Path) -> Table:
    """A table of a run. Raises `DataError`, and `FileNotFoundError`."""
    document = read_json(path)
    try:
        return _TABLE.validate_python(document)
    except ValidationError as error:
        problems = [
            f"not a table of mmconv: {'.'.join(map(str, problem['loc']))}: {problem['msg']}"
            for problem in error.errors()
        ]
        raise DataError(str(path), problems) from error


def read_json(path: Path) -> Any:
    """Read a JSON file; raises `DataError`, and `FileNotFoundError`."""
    try:
        return orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise DataError(str(path), [f"cut short, or not JSON: {error}"]) from error


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
        hint = f"A{_OTHER[1:]}. {advice}"
        raise DataError(str(path), describe_problems(error, kind), hint) from error
    except ValueError as error:
        raise DataError(str(path), [str(error)], advice) from error


def _open(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise _unfinished(path) from error
    except OSError as error:
        raise DataError(str(path), [error.strerror or str(error)]) from error


def _parse(data: bytes) -> dict[str, Any]:
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
    if record.keys() == fields.keys():
        return
    problems = [f"has no {name}" for name in sorted(fields.keys() - record.keys()) if fields[name]]
    problems += [f"has an unknown field {name}" for name in sorted(record.keys() - fields.keys())]
    if problems:
        raise ValueError(f"{', '.join(problems)}; {_OTHER}")


def _damaged_line(path: Path, begin: int, fault: str) -> DataError:
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
    if not folder.exists():
        hint = "folder does not exist"
    elif not folder.is_dir():
        hint = "it is a file; name the run's folder"
    elif runs := sorted(path.parent for path in folder.glob(f"*/{SPEC}")):
        hint = f"it holds runs; name one of them, as {runs[0]}"
    else:
        hint = f"it has no {SPEC}; `mmconv run` prints the folder that it writes"
    return ConfigError(f"{folder}: no run found ({hint})")
