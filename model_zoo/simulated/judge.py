"""The simulated judge: reads whether an answer is right off its text, and gives a noisy verdict.

It reads the prompts shipped for ConvBench as any judge does: the answers stand between their marks,
the request behind the last of them. Which side is the candidate's, it sees by the answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mmconv.errors import Refused
from mmconv.values import Message, Reply, Sampling
from model_zoo.simulated.marks import draw, read_answer, texts
from model_zoo.simulated.options import JudgeOptions

_ANSWER = re.compile(r"⟦answer ([AB]?)([123]): [^⟧]*⟧\n(.*?)\n⟦end of answer \1\2⟧", re.DOTALL)
_REQUEST = re.compile(
    r"(?P<direct>Rate)(?: answer (?P<rated>[123])|.* conversation as a whole)"
    r"|Compare(?: answers A(?P<compared>[123])|.* conversations as a whole)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedJudge:
    """A backend that judges the answers of a `SimulatedCandidate`."""

    options: JudgeOptions
    max_concurrency: int

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Judge once; of the sampling only the trial counts.

        Raises `Refused` for a prompt that is not ConvBench's or holds no simulated answer.
        """
        prompt = texts(messages, "user")[-1]
        request = _REQUEST.search(prompt, prompt.rfind("⟧") + 1)
        if request is None:
            raise _foreign("the prompt does not end with a request that it knows")
        side, wrong = _candidate(prompt)
        asked = request["rated"] or request["compared"]
        name = (self.options.seed, prompt, sampling.trial)
        turn = int(asked) if asked else 1 + int(3 * draw("turn", *name))
        number = draw("verdict", *name)
        if request["direct"]:
            verdict = f"Rating: {self._rating(number, wrong=wrong[turn])}"
        else:
            verdict = (
                f"Overall, Response {self._choice(number, side, wrong=wrong[turn])} is better."
            )
        state = "wrong" if wrong[turn] else "right"
        return Reply(text=f"The answer to instruction {turn} is {state}.\n\n{verdict}")

    async def aclose(self) -> None:
        """Nothing is held that needs releasing."""

    def _rating(self, number: float, *, wrong: bool) -> int:
        known = self.options.rating
        drawn = known.drawn(known.wrong if wrong else known.right)
        return drawn[int(number * len(drawn))]

    def _choice(self, number: float, side: str, *, wrong: bool) -> str:
        known = self.options.win
        wins = number < (known.wrong if wrong else known.right)
        return side if wins else {"A": "B", "B": "A"}[side]


def _candidate(prompt: str) -> tuple[str, Mapping[int, bool]]:
    """The side with simulated answers ("" in direct grading), and which of its turns are wrong."""
    sides: dict[str, dict[int, bool | None]] = {}
    for side, turn, text in _ANSWER.findall(prompt):
        sides.setdefault(side, {})[int(turn)] = read_answer(text)
    simulated = {
        side: read
        for side, read in sides.items()
        if any(each is not None for each in read.values())
    }
    if len(simulated) != 1 or any(len(read) != 3 for read in sides.values()):
        raise _foreign("it does not hold one simulated conversation of three turns")
    [(side, read)] = simulated.items()
    return side, {turn: wrong is True for turn, wrong in read.items()}


def _foreign(problem: str) -> Refused:
    return Refused(
        "rejected",
        f"the simulated judge cannot read this prompt: {problem}. It judges simulated/candidate "
        "on ConvBench, with the shipped prompts: run it without --prompts",
    )
