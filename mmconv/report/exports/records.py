"""A finished run as exports take it: dialogues with their scores, read from the run's folder."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, groupby
from typing import Any

from mmconv.benchmarks.base.endings import METRICS
from mmconv.core.config import CANDIDATE
from mmconv.core.types import Score
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


def file_name(*parts: str) -> str:
    """The parts joined by `_`, without characters that file systems or tools refuse."""
    return "_".join(re.sub(r"[^\w.-]+", "_", part) for part in parts)


def _plain_name(score: Score) -> str:
    if score.turn is None:
        return score.metric
    return f"{score.metric}_{score.turn or 'overall'}"
