"""A finished run as exports take it: dialogues with their scores, and headline numbers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, count, groupby
from typing import Any

from mmconv.benchmarks.base.compare import find_boards
from mmconv.benchmarks.base.endings import METRICS
from mmconv.benchmarks.base.metrics import Metric
from mmconv.benchmarks.registry import find_class
from mmconv.core.config import CANDIDATE
from mmconv.core.types import Cell, Score
from mmconv.run_folder.layout import MANIFEST
from mmconv.run_folder.saved_run import FinishedRun, read_calls
from mmconv.run_folder.transcripts import CallRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """A sample under a condition; a second trial of sample `14` is the sample `14#2`.

    `turns` are the candidate's calls, failed ones too; `judgements` are all other calls. `scores`
    are by `score_names`.
    """

    sample: str
    condition: str
    turns: tuple[CallRecord, ...]
    judgements: tuple[CallRecord, ...]
    scores: Mapping[str, Score]

    def origin(self) -> dict[str, Any]:
        """What other formats have no field for; `model_zoo.replay` reads it from a field `mmconv`.

        A call without a text has the `problem` that it ended with.
        """
        fields = {"call", "finish", "input_tokens", "output_tokens", "reasoning", "problem"}
        calls = [call.model_dump(include=fields, exclude_none=True) for call in self.turns]
        return {"sample": self.sample, "condition": self.condition, "calls": calls}


def read_dialogues(run: FinishedRun) -> Iterator[Dialogue]:
    """Stream the dialogues of a run in its order."""
    scores: defaultdict[tuple[str, str], list[Score]] = defaultdict(list)
    for score in run.scores():
        if score.metric not in METRICS:
            scores[score.sample, score.condition].append(score)
    calls = read_calls(run.folder)
    for (sample, condition), group in groupby(calls, lambda call: (call.sample, call.condition)):
        records = tuple(group)
        own = scores[sample, condition]
        yield Dialogue(
            sample=sample,
            condition=condition,
            turns=tuple(call for call in records if call.model == CANDIDATE),
            judgements=tuple(call for call in records if call.model != CANDIDATE),
            scores=dict(zip(score_names(own), own, strict=True)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A headline number, a column of the benchmark's leaderboard: `direct_deltas/S2_hat - S2`.

    `title` is its table's title. `metric` is None if the benchmark's code does not define it.
    """

    name: str
    column: str
    title: str
    cell: Cell
    lower_is_better: bool
    metric: Metric | None


def read_estimates(run: FinishedRun) -> Iterator[Estimate]:
    """The headline numbers of a run, also those that are missing."""
    tables = {table.name: table for table in run.tables}
    least = run.manifest.provenance.get("least", ())
    metrics: dict[tuple[str, str], Metric] = {}
    with suppress(ImportError):  # custom code that is not installed here
        benchmark = find_class(run.spec.benchmark)(run.spec)
        metrics = {(metric.name, metric.group.label): metric for metric in benchmark.metrics()}
    names: set[str] = set()
    for board in find_boards(run.spec, [tables], least):
        for part in board.parts:
            for column, place in part.columns.items():
                cell = place.find(tables, run.candidate)
                if cell is None:
                    continue
                path = "/".join(filter(None, [board.name, part.name, column]))
                names.add(name := unique_name(path, names))
                yield Estimate(
                    name=name,
                    column=column,
                    title=part.title,
                    cell=cell,
                    lower_is_better=column in board.least,
                    metric=metrics.get(place.quantity) if place.quantity else None,
                )


def question_of(call: CallRecord, image: str = "") -> str:
    """The last message of a call as text, with the mark `image` for each image."""
    if not call.messages:  # a prompt file made them, or the call was not requested
        return ""
    parts = call.messages[-1].parts
    return "\n".join(part.text or "" if part.image is None else image for part in parts).strip()


def score_names(scores: Sequence[Score]) -> list[str]:
    """A name for each score of a sample, such as `rating_1`, `win_overall`, `fit`.

    Scores of one metric and turn are distinguished by those of their tags in which they differ, and
    by numbers if names would still be equal, since names consist of letters and digits.
    """
    plain = [_plain_name(score) for score in scores]
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


def _plain_name(score: Score) -> str:
    if score.turn is None:
        return score.metric
    return f"{score.metric}_{score.turn or 'overall'}"
