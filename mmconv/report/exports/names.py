"""Names in exports: of scores, numbers and files; and the time of a run."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from datetime import UTC, datetime
from itertools import chain, count

from mmconv.core.types import Score
from mmconv.run_folder.layout import MANIFEST
from mmconv.run_folder.saved_run import FinishedRun


def score_names(scores: Sequence[Score]) -> list[str]:
    """A name for each score of a sample, such as `rating_1`, `win_overall`, `fit`.

    Scores of one metric and turn are distinguished by those of their tags in which they differ, and
    by numbers if names would still be equal, since names consist of letters and digits.
    """
    plain = [
        score.metric if score.turn is None else f"{score.metric}_{score.turn or 'overall'}"
        for score in scores
    ]
    names: list[str] = []
    for score, name in zip(scores, plain, strict=True):
        alike = [other.tags for other, same in zip(scores, plain, strict=True) if same == name]
        parts = [
            value for tag, value in score.tags.items() if len({tags.get(tag) for tags in alike}) > 1
        ]
        names.append(unique_name(re.sub(r"\W+", "_", "_".join([name, *parts])), names))
    return names


def unique_name(name: str, taken: Container[str]) -> str:
    """The name, with a number if it is taken."""
    numbered = (f"{name}_{number}" for number in count(2))
    return next(each for each in chain([name], numbered) if each not in taken)


def finished_at(run: FinishedRun) -> datetime:
    """When the run's results were written."""
    return datetime.fromtimestamp((run.folder / MANIFEST).stat().st_mtime, tz=UTC)


def file_name(*parts: str) -> str:
    """The parts joined by `_`, without characters that file systems or tools refuse."""
    return "_".join(re.sub(r"[^\w.-]+", "_", part) for part in parts)
