"""Scenes whose answers a judge holds against the truth: what `mmconv judge scenes` audits.

Right answers are the references, wrong ones have one fact changed. Both are checked by the program,
and the judge is given the truth in another phrasing than theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from judges import Judge, Slot, parsers
from mmconv.benchmarks.base.judges import CANDIDATE_AND_JUDGE
from mmconv.benchmarks.base.results import Results, Scale
from mmconv.benchmarks.scenes.benchmark import Scene, Scenes
from mmconv.core.types import Call, Ref, Sampling, Score

JUDGED = "answer"
TURNS = (1, 2, 3)


class JudgedScenes(Scenes):
    """Each turn is judged by itself: 10 for a right answer, 1 for a wrong one."""

    prompts = "scenes"
    roles: ClassVar[Mapping[str, str]] = CANDIDATE_AND_JUDGE
    scale: ClassVar[Scale] = {JUDGED: (1.0, 10.0)}

    def mistakes(self, sample: Scene, condition: str) -> dict[str, str]:
        """The references with a fact changed."""
        turns = enumerate(sample.drawn().turns, start=1)
        return {f"turn_{n}": turn.mistake for n, turn in turns}

    def plan(self, sample: Scene, condition: str) -> Iterator[Call]:
        """The answers, and a judgement of each."""
        yield from super().plan(sample, condition)
        judge = Judge(parser=parsers.rating, sampling=Sampling(max_tokens=1024), retries=1)
        for n, turn in enumerate(sample.drawn().turns, start=1):
            slots: dict[str, Slot] = {
                "instruction": turn.instruction,
                "truth": turn.truth,
                "answer": Ref(call=f"turn_{n}"),
            }
            yield judge.call(f"judge_{n}", self.prompt(JUDGED), slots)

    def score(self, sample: Scene, results: Results) -> Iterator[Score]:
        """The verdicts."""
        for n in TURNS:
            yield results[f"judge_{n}"].score(JUDGED, of="rating", turn=n)
