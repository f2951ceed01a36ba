"""Second Look: two questions about one image, the second about the answer to the first.

Under `free` the second question follows the model's own answer, under `given` the true one. What
`given` adds to `free` is what a wrong first answer costs the second.
"""

from collections.abc import Iterator

from mmconv.benchmarks.base import Benchmark, ImageFile, ImageOptions, Results, Sample
from mmconv.benchmarks.base.layouts import Layout
from mmconv.benchmarks.base.metrics import Delta, Mean, Metric, Select, share
from mmconv.core.turns import Turn, chain
from mmconv.core.types import Call, Sampling, Score, Text


class Look(Sample):
    image: ImageFile
    first: str
    first_answer: str
    second: str
    second_answer: str


class SecondLook(Benchmark[Look, ImageOptions]):
    name, title, scale = "second_look", "Second Look", (0, 1)
    conditions = ("free", "given")

    def plan(self, sample: Look, condition: str) -> Iterator[Call]:
        is_given = condition == "given"
        first = Turn(
            user=(sample.image, Text(text=sample.first)),
            answer=sample.first_answer if is_given else None,
            generate=not is_given,
        )
        second = Turn(user=(Text(text=sample.second),))
        yield from chain([first, second], model="candidate", sampling=Sampling(max_tokens=16))

    def score(self, sample: Look, results: Results) -> Iterator[Score]:
        """1 for an exact answer, 0 for another."""
        answers = {"first": sample.first_answer, "second": sample.second_answer}
        for turn, (name, answer) in enumerate(answers.items(), start=1):
            if f"turn_{turn}" in results.calls:
                result = results[f"turn_{turn}"]
                text = (result.text or "").strip().rstrip(".").casefold()
                is_exact = None if result.text is None else text == answer.casefold()
                yield results.score(name, is_exact, result.first_reason)

    def metrics(self) -> Iterator[Metric]:
        """The share of exact answers to each question, and what a true first answer changes."""
        exact = share("exact (%)")
        yield Mean("first", of=Select("first", condition="free"), group=exact)
        free, given = (
            Mean(f"second, {condition}", of=Select("second", condition=condition), group=exact)
            for condition in ("free", "given")
        )
        yield from (free, given)
        yield Delta("given - free", start=free, goal=given, group=exact)

    def layouts(self) -> Iterator[Layout]:
        yield Layout("scores", "Exact answers of {candidate}")
        yield Layout("deltas", "What a true first answer changes", digits=1)

    def leaderboard(self) -> Iterator[Layout]:
        names = ("second, free", "second, given", "first")
        yield Layout(
            "", "Exact answers (%)", of="scores", names=names, groups=("exact (%)",), rank=names[0]
        )
