"""Runs that stand beside each other: which of several folders take part, and what each is called.

Whole, finished runs do. A pattern such as runs/convbench-* also names runs that were stopped, and
shards of one that lies whole beside them. Whether they fit together is told in
`mmconv.report.comparison.mismatches`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from mmconv.core.errors import ConfigError, DataError
from mmconv.report.comparison.mismatches import data_hashes
from mmconv.report.shortfalls import read_shortfall, tell_notable
from mmconv.run_folder.layout import SPEC
from mmconv.run_folder.saved_run import (
    FINISH,
    MERGE,
    FinishedRun,
    find_unfinished,
    read_finished,
    read_specified,
)


def finished_among(
    folders: Sequence[Path], *, needed: Path | None = None
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The folders without those of unfinished runs and of shards, and a line on each of those.

    Shards stay where there is nothing else, or where the one that is `needed` is a shard: which do
    not fit together is said later. Raises `DataError` for an unfinished run where fewer
    than two finished ones are left or it is `needed`, `InputError` for a folder that cannot be
    read.
    """
    unfinished = {folder: why for folder in folders if (why := find_unfinished(folder)) is not None}
    kept = [folder for folder in folders if folder not in unfinished]
    if unfinished and (len(kept) < 2 or needed in unfinished):
        folder = needed if needed in unfinished else next(iter(unfinished))
        raise DataError(str(folder), [f"the run is not finished: {unfinished[folder]}"], FINISH)
    parts = {folder: part for folder in kept if (part := _shard(folder)) is not None}
    whole = [folder for folder in kept if folder not in parts]
    if not whole or needed in parts:
        whole, parts = kept, {}
    told = {
        folder: f"the run is not finished, {why}. {FINISH}" for folder, why in unfinished.items()
    }
    told |= {folder: f"it is {part} of a run. {MERGE}" for folder, part in parts.items()}
    return tuple(whole), tuple(f"{folder} is left out: {why}" for folder, why in told.items())


def open_runs(folders: Sequence[Path]) -> tuple[FinishedRun, ...]:
    """The runs of at least two folders, each with a label of its own.

    Raises `ConfigError` for a folder that is named twice, `InputError` for one that holds no
    finished run.
    """
    places = [folder.resolve() for folder in folders]
    if twice := [str(folder) for folder, n in Counter(places).items() if n > 1]:
        raise ConfigError(f"named twice: {', '.join(twice)}")
    if len(places) < 2:
        raise ConfigError("this takes the folders of at least two runs")
    return _labelled([read_finished(folder) for folder in folders])


def tell_shortfall(run: FinishedRun) -> Iterator[str]:
    """How much of a run is missing, if much is, as the run itself told it."""
    for told in tell_notable(read_shortfall(run.folder), run.tables):
        yield f"WARNING: {run.label}: {told}"


def _shard(folder: Path) -> str | None:
    """Which part of a run lies in a folder; None for a whole run, and where none lies."""
    if not (folder / SPEC).exists():
        return None
    shard = read_specified(folder).shard
    return None if shard.is_whole else str(shard)


def _labelled(runs: Sequence[FinishedRun]) -> tuple[FinishedRun, ...]:
    """Runs of one model are told apart by their data, by their hashes, or else by their folders."""
    counts = Counter(run.label for run in runs)
    alike = Counter((run.label, data_hashes(run)) for run in runs)
    runs = [
        _with_data(run) if alike[run.label, data_hashes(run)] == 1 < counts[run.label] else run
        for run in runs
    ]
    for tell in (_with_hash, _with_folder):
        counts = Counter(run.label for run in runs)
        runs = [tell(run) if counts[run.label] > 1 else run for run in runs]
    return tuple(runs)


def _with_data(run: FinishedRun) -> FinishedRun:
    name = Path(str(run.spec.options.get("data", ""))).name
    return replace(run, label=f"{run.candidate} ({name})") if name else run


def _with_hash(run: FinishedRun) -> FinishedRun:
    name = run.folder.resolve().name
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", run.candidate)
    mark = name.removeprefix(f"{run.spec.benchmark}-{label}-")
    return replace(run, label=f"{run.candidate} ({mark})")


def _with_folder(run: FinishedRun) -> FinishedRun:
    return replace(run, label=f"{run.candidate} ({run.folder})")
