"""A finished dialogue judged as MT-Bench-101 judges it: its last answer, by its task's criteria.

To judge an earlier answer, send the dialogue up to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field, StrictBool, StrictInt

from mmconv.benchmarks.mtbench101.data import Dialogue, GoldenTurn
from mmconv.benchmarks.mtbench101.grading import Grader
from mmconv.benchmarks.mtbench101.options import GradingOptions
from mmconv.benchmarks.mtbench101.scoring import Judged, authors_rating, turn_rating
from mmconv.benchmarks.mtbench101.taxonomy import REFERENCED, TASKS
from mmconv.benchmarks.shared.judgements import (
    SAMPLE,
    ByField,
    Fault,
    FinishedTurn,
    JudgementRequest,
    Supplies,
    Words,
    with_answers,
)
from mmconv.benchmarks.shared.scoring import Outcomes
from mmconv.core.types import Call, Score

Code = Literal["CM", "SI", "AR", "TS", "CC", "CR", "FR", "SC", "SA", "MR", "GR", "IC", "PI"]
"""A task's abbreviation; the judge's criteria are the task's."""


_TASKS = (
    "The task whose criteria the judge reads: "
    f"{', '.join(f'`{code}` {task.name}' for code, task in TASKS.items())}."
)


class MTBench101Judgement(JudgementRequest):
    """The last answer of `turns`, rated by the criteria of the task that `prompt` names.

    `reference` is the golden answer to the last turn, which the judge of MR and GR reads.
    `guidelines` False leaves the score guidelines out of its prompt.
    """

    needing: ClassVar[ByField] = {"reference": REFERENCED}

    benchmark: Literal["mtbench101"]
    prompt: Code = Field(description=_TASKS)
    turns: tuple[FinishedTurn, ...] = Field(min_length=1)
    reference: Words | None = None
    guidelines: StrictBool = True
    max_tokens: StrictInt = Field(default=4096, gt=0)

    def faults(self) -> Iterator[Fault]:
        """Beside a reference that is lacking or not read: too few turns."""
        yield from super().faults()
        first = TASKS[self.prompt].first
        if len(self.turns) < first:
            yield "turns", f"{self.prompt} is judged from turn {first} on"

    def call(self, supplies: Supplies) -> Call:
        """The judgement of the last answer."""
        options = GradingOptions(
            guidelines=self.guidelines,
            judge_retries=self.retries,
            judge_max_tokens=self.max_tokens,
        )
        grader = Grader(options=options, prompts=supplies.prompts)
        # One at a time: each holds the dialogue up to its turn.
        [last] = deque(grader.calls(self._dialogue(), "golden"), maxlen=1)
        return with_answers(last, {f"turn_{len(self.turns)}": self.turns[-1].assistant})

    def scores(self, call: Call, outcomes: Outcomes) -> Iterator[Score]:
        """The rating by our reading and by the authors'."""
        turn = len(self.turns)
        judged = Judged(sample=SAMPLE, task=TASKS[self.prompt], condition="golden")
        rating = turn_rating(judged, turn, call, outcomes)
        yield rating
        yield authors_rating(judged, turn, call, outcomes, ours=rating.value)

    def _dialogue(self) -> Dialogue:
        """The dialogue as the data would have it: its last answer is the golden one."""
        *before, last = self.turns
        history = [GoldenTurn(user=turn.user, bot=turn.assistant) for turn in before]
        history.append(GoldenTurn(user=last.user, bot=self.reference or ""))
        return Dialogue(id=SAMPLE, task=TASKS[self.prompt], history=tuple(history))
