"""Which of several folders take part where runs stand beside each other: whole, finished runs.

A pattern such as runs/convbench-* also names runs that were stopped, and shards of one that lies
whole beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mmconv.errors import DataError
from mmconv.run_folder.layout import SPEC
from mmconv.run_folder.saved_run import FINISH, MERGE, find_unfinished, read_specified


def finished_among(
    folders: Sequence[Path], *, needed: Path | None = None
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The folders without those of unfinished runs and of shards, and a line on each of those.

    Shards stay where fewer than two others would, or where the one that is `needed` is a shard:
    `mmconv.report.compared_runs` then says which do not fit together. Raises `DataError` for an
    unfinished run where fewer than two finished ones are left or it is `needed`, `InputError` for a
    folder that cannot be read.
    """
    unfinished = {folder: why for folder in folders if (why := find_unfinished(folder)) is not None}
    kept = [folder for folder in folders if folder not in unfinished]
    if unfinished and (len(kept) < 2 or needed in unfinished):
        folder = needed if needed in unfinished else next(iter(unfinished))
        raise DataError(str(folder), [f"the run is not finished: {unfinished[folder]}"], FINISH)
    parts = {folder: part for folder in kept if (part := _shard(folder)) is not None}
    whole = [folder for folder in kept if folder not in parts]
    if len(whole) < 2 or needed in parts:
        whole, parts = kept, {}
    told = {
        folder: f"the run is not finished, {why}. {FINISH}" for folder, why in unfinished.items()
    }
    told |= {folder: f"it is {part} of a run. {MERGE}" for folder, part in parts.items()}
    return tuple(whole), tuple(f"{folder} is left out: {why}" for folder, why in told.items())


def _shard(folder: Path) -> str | None:
    """Which part of a run lies in a folder; None for a whole run, and where none lies."""
    if not (folder / SPEC).exists():
        return None
    shard = read_specified(folder).shard
    return None if shard.is_whole else str(shard)
