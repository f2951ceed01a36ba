"""Riddles: a question, an answer, and a judge who says from 1 to 10 how well the two fit."""

from judges import Judge, parse_prompt, parsers, read_verdict
from mmconv.benchmarks.base import Calls, Fields, FileBenchmark, Outcomes, Scores
from mmconv.core.types import Call, Message, Ref, Sampling, Score, Text

JUDGE = Judge(parser=parsers.rating, sampling=Sampling(), retries=1)


class Riddles(FileBenchmark):
    name = "riddles"
    fields = ("riddle",)
    prompts = (parse_prompt("# user\n{{riddle}}\n{{answer}}\nRate 1 to 10: 'Rating: n'", "fit"),)
    scale = (1, 10)

    def plan(self, sample: Fields, condition: str) -> tuple[Call, ...]:
        riddle, fit = Text(text=sample["riddle"]), self.prompt("fit")
        asked = Message(role="user", parts=(riddle,))
        answer = Call(id="answer", seat="candidate", messages=(asked,))
        return answer, JUDGE.call("fit", fit, {"riddle": riddle, "answer": Ref(call="answer")})

    def score(self, sample: Fields, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        read = read_verdict(calls["fit"], outcomes)
        fit = read.verdict.scores["rating"] if read.verdict else None
        yield Score(sample=sample["id"], condition=condition, metric="fit", value=fit, why=read.why)
