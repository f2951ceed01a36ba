"""The samples of run folders one after another, each with its calls and scores.

They are streamed. Folders of several runs are read side by side: memory holds one sample of
each where they hold the same samples in the same order, and what waits for its like otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mmconv.report.page.dialogues import Record
from mmconv.run_folder.layout import SCORES, TRANSCRIPTS
from mmconv.run_folder.saved_run import read_by_sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Everything that a run holds of one sample: records of calls and of scores."""

    sample: str
    calls: list[Record]
    scores: list[Record]


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
    scored = read_by_sample(folder / SCORES)
    ahead = next(scored, None)
    for sample, calls in read_by_sample(folder / TRANSCRIPTS):
        scores: list[Record] = []
        if ahead is not None and ahead[0] == sample:
            scores = ahead[1]
            ahead = next(scored, None)
        yield Group(sample=sample, calls=calls, scores=scores)
