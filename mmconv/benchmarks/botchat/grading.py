"""How dialogues are judged: one by one (UniEval), and in pairs (GTEval, PairEval).

Prompts come from `judges`; which pairs there are, from `players`; what became of the judgements is
read in `scoring`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from judges import Judge, PromptSet
from judges.parsers.botchat import UniEvalParser, comparison
from mmconv.benchmarks.botchat.chains import Line
from mmconv.benchmarks.botchat.dialogue_files import END, speaker
from mmconv.benchmarks.botchat.players import Duel
from mmconv.core.types import Call, Part, Sampling

UNIEVAL = "unieval"
"""The id of the call that judges the candidate's dialogue alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """Plans judgements, asked up to `1 + retries` times."""

    prompts: PromptSet
    sampling: Sampling
    retries: int

    def alone(self, lines: Sequence[Line]) -> Call:
        """UniEval's judgement of a dialogue."""
        judge = Judge(
            parser=UniEvalParser(utterances=len(lines)),
            sampling=self.sampling,
            verdict_last=False,
            retries=self.retries,
        )
        return judge.call(UNIEVAL, self.prompts["unieval"], {"conversation": conversation(lines)})

    def compared(self, duel: Duel) -> Call:
        """A comparison of two dialogues, in the duel's order; equal ones are not sent."""
        judge = Judge(
            parser=comparison,
            sampling=self.sampling,
            verdict_last=False,
            retries=self.retries,
        )
        lines = (duel.own, duel.other) if duel.order == "1" else (duel.other, duel.own)
        slots = {
            f"conversation_{number}": conversation(each)
            for number, each in enumerate(lines, start=1)
        }
        call = judge.call(duel.call_id, self.prompts[duel.protocol.lower()], slots)
        return replace(call, compares=(duel.own, duel.other))


def conversation(lines: Sequence[Line]) -> list[str | Part]:
    """A dialogue as the judge reads it: `A: ...<chat_end>`, a line for each utterance."""
    parts: list[str | Part] = []
    for place, line in enumerate(lines):
        parts += [f"{speaker(place)}: ", line, f"{END}\n" if place < len(lines) - 1 else END]
    return parts
