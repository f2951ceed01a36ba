"""Riddles: a question, an answer, and a judge who says from 1 to 10 how well the two fit."""

from collections.abc import Iterator

from judges import Judge, Slot, parse_prompt, parsers
from mmconv.benchmarks.base import Benchmark, Options, Results, Sample
from mmconv.core.types import Call, Ref, Sampling, Score
from tests.messages import user

JUDGE = Judge(parser=parsers.rating, sampling=Sampling(), retries=1)


class Riddle(Sample):
    riddle: str


class Riddles(Benchmark[Riddle, Options]):
    name = "riddles"
    prompts = (parse_prompt("# user\n{{riddle}}\n{{answer}}\nRate 1 to 10: 'Rating: n'", "fit"),)
    scale = (1, 10)

    def plan(self, sample: Riddle, condition: str) -> Iterator[Call]:
        question = user(sample.riddle)
        yield Call(id="answer", model="candidate", messages=(question,))
        slots: dict[str, Slot] = {"riddle": sample.riddle, "answer": Ref(call="answer")}
        yield JUDGE.call("fit", self.prompt("fit"), slots)

    def score(self, sample: Riddle, results: Results) -> Iterator[Score]:
        yield results["fit"].score("fit", of="rating")
