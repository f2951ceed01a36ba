"""What lies in run folders, as the page needs it: facts, tables, and samples one after another.

Samples are streamed. Folders of several runs are read side by side: memory holds one sample of
each where they hold the same samples in the same order, and what waits for its like otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from mmconv.config import CANDIDATE, RunSpec
from mmconv.errors import ConfigError
from mmconv.report.output import SCORES, TRANSCRIPTS
from mmconv.report.page.dialogues import Record
from mmconv.report.tables import read_tables
from mmconv.values import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run's folder: its specification, what its files say of it, and its tables in order.

    `label` tells it from other runs; `summary` is empty where the run was only scored from a store.
    """

    label: str
    folder: Path
    spec: RunSpec
    manifest: Mapping[str, Any]
    summary: Mapping[str, Any]
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Everything that a run holds of one sample: records of calls and of scores."""

    sample: str
    calls: list[Record]
    scores: list[Record]


def read_run_folder(folder: Path, label: str | None = None) -> Run:
    """Read what is small; the label is the candidate's name if none is given.

    Raises `ConfigError` where a finished run's file is not there.
    """
    try:
        saved = orjson.loads((folder / "spec.json").read_bytes())
        manifest = orjson.loads((folder / "manifest.json").read_bytes())
    except OSError as error:
        raise ConfigError(
            f"{folder}: no finished run lies here ({error.filename}: {error.strerror}); "
            f"`mmconv score {folder}` writes what is missing"
        ) from error
    summary = folder / "summary.json"
    spec = RunSpec.model_validate(saved["spec"])
    return Run(
        label=label or spec.seats[CANDIDATE].label,
        folder=folder,
        spec=spec,
        manifest=manifest,
        summary=orjson.loads(summary.read_bytes()) if summary.exists() else {},
        tables=read_tables(folder / "tables"),
    )


def aligned(folders: Sequence[Path]) -> Iterator[tuple[str, list[Group | None]]]:
    """Each sample with its group in each folder, in the order of the first folder that has it."""
    streams = [_groups(folder) for folder in folders]
    waiting: list[dict[str, Group]] = [{} for _ in streams]
    for place, stream in enumerate(streams):
        yield from (_row(sample, waiting, streams, place) for sample in [*waiting[place]])
        for group in stream:
            waiting[place][group.sample] = group
            yield _row(group.sample, waiting, streams, place)


def _row(
    sample: str, waiting: list[dict[str, Group]], streams: list[Iterator[Group]], place: int
) -> tuple[str, list[Group | None]]:
    """The groups of one sample; the folders after `place` are read on until they have given it."""
    for held, stream in list(zip(waiting, streams, strict=True))[place + 1 :]:
        while sample not in held and (group := next(stream, None)) is not None:
            held[group.sample] = group
    return sample, [held.pop(sample, None) for held in waiting]


def _groups(folder: Path) -> Iterator[Group]:
    scored = _by_sample(folder / SCORES)
    ahead = next(scored, None)
    for sample, calls in _by_sample(folder / TRANSCRIPTS):
        scores: list[Record] = []
        if ahead is not None and ahead[0] == sample:
            scores = ahead[1]
            ahead = next(scored, None)
        yield Group(sample=sample, calls=calls, scores=scores)


def _by_sample(path: Path) -> Iterator[tuple[str, list[Record]]]:
    """The records of a file, those of one sample together; they stand together in it."""
    with path.open("rb") as lines:
        for sample, records in groupby(map(orjson.loads, lines), lambda record: record["sample"]):
            yield sample, list(records)
