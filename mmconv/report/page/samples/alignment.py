"""The samples of run folders one after another, each with its calls and scores.

They are streamed. Files are read side by side: memory holds one sample of each where they hold the
same samples in the same order, and what waits for its like otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from mmconv.report.page.samples.dialogues import Record
from mmconv.run_folder.layout import SCORES, TRANSCRIPTS
from mmconv.run_folder.saved_run import read_by_sample

Stream: TypeAlias = Iterator[tuple[str, list[Record]]]
"""The samples of one file, each with its records."""


def aligned(
    folders: Sequence[Path],
) -> Iterator[tuple[str, list[list[Record]], list[list[Record]]]]:
    """Each sample with the records of its calls and of its scores, a list of both for each folder.

    The order is that of the first file that has a sample; files of calls go before those of scores.
    """
    files = [folder / name for name in (TRANSCRIPTS, SCORES) for folder in folders]
    streams = [read_by_sample(file) for file in files]
    waiting: list[dict[str, list[Record]]] = [{} for _ in streams]
    for place, stream in enumerate(streams):
        yield from (_row(sample, waiting, streams, place) for sample in [*waiting[place]])
        for sample, records in stream:
            waiting[place][sample] = records
            yield _row(sample, waiting, streams, place)


def _row(
    sample: str, waiting: list[dict[str, list[Record]]], streams: list[Stream], place: int
) -> tuple[str, list[list[Record]], list[list[Record]]]:
    """The records of one sample; the files after `place` are read on until they have given it."""
    for held, stream in list(zip(waiting, streams, strict=True))[place + 1 :]:
        while sample not in held and (found := next(stream, None)) is not None:
            held.update([found])
    records = [held.pop(sample, []) for held in waiting]
    half = len(records) // 2
    return sample, records[:half], records[half:]
