"""Second Look: two questions about one image, the second about the answer to the first.

Under `free` the second question follows the model's own answer, under `given` the true one. What
`given` adds to `free` is what a wrong first answer costs the second.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mmconv.benchmarks.base import Calls, Fields, FileBenchmark, Outcomes, Scores
from mmconv.benchmarks.layouts import Context, Layout, make_tables
from mmconv.benchmarks.metrics import Delta, Mean, Metric, Select, share
from mmconv.core.turns import Turn, chain
from mmconv.core.types import Call, Outcome, Reply, Sampling, Score, Table, Text
from mmconv.stats import ScoreFrame


class SecondLook(FileBenchmark):
    """A sample has the texts of both questions and both answers, and an image."""

    name, scale = "second_look", (0, 1)
    fields = ("first", "first_answer", "second", "second_answer")
    image_fields = ("image",)
    conditions = ("free", "given")

    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        is_given = condition == "given"
        turns = (
            Turn(
                user=(*sample.images["image"], Text(text=sample["first"])),
                answer=sample["first_answer"] if is_given else None,
                generate=not is_given,
            ),
            Turn(user=(Text(text=sample["second"]),)),
        )
        return chain(turns, seat="candidate", sampling=Sampling(max_tokens=16))

    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        for call, name in (("turn_1", "first"), ("turn_2", "second")):
            if call in calls:
                value, why = _read(outcomes[call], sample[f"{name}_answer"])
                yield Score(
                    sample=sample["id"], condition=condition, metric=name, value=value, why=why
                )

    def metrics(self, options: Mapping[str, Any]) -> Iterator[Metric]:
        """The share of exact answers to each question, and what a true first answer changes."""
        exact = share("exact (%)")
        yield Mean("first", of=Select("first", condition="free"), group=exact)
        free, given = (
            Mean(f"second, {condition}", of=Select("second", condition=condition), group=exact)
            for condition in self.conditions
        )
        yield from (free, given)
        yield Delta("given - free", start=free, goal=given, group=exact)

    layouts = (
        Layout("scores", "Exact answers"),
        Layout("deltas", "What a true first answer changes", digits=1),
    )

    def tables(self, scores: Scores) -> Sequence[Table]:
        """Goes when the base class derives tables from metrics."""
        context = Context(candidate="candidate", notes=self.notes)
        frames = {context.candidate: ScoreFrame.of(scores)}
        return make_tables(self.layouts, [*self.metrics({})], frames, context)


def _read(outcome: Outcome, answer: str) -> tuple[float | None, str | None]:
    """1 for an exact answer, 0 for another; None and the reason if there is none."""
    if not isinstance(outcome, Reply):
        return None, outcome.why
    return float(outcome.text.strip().rstrip(".").casefold() == answer.casefold()), None
