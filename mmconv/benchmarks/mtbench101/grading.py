"""How an answer is judged: by its task's criteria, on what the candidate itself saw before it.

The judge reads the dialogue up to the answer and, for MR and GR, a reference solution (paper,
section 3.4 and Appendix C). Prompts come from `judges`; the verdicts are read in `scoring`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from judges import Judge, Prompt, PromptSet, Slot
from judges.parsers.mtbench101 import bracketed_rating
from mmconv.benchmarks.mtbench101.chains import answer_in_history
from mmconv.benchmarks.mtbench101.data import Dialogue
from mmconv.benchmarks.mtbench101.options import GradingOptions
from mmconv.benchmarks.mtbench101.taxonomy import REFERENCED
from mmconv.core.types import Call, Part, Ref, Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """Plans the judgements of a dialogue's turns."""

    options: GradingOptions
    prompts: PromptSet

    def calls(self, dialogue: Dialogue, condition: str) -> Iterator[Call]:
        """One judgement for each of the candidate's own turns."""
        judge = Judge(
            parser=bracketed_rating,
            sampling=Sampling(max_tokens=self.options.judge_max_tokens),
            retries=self.options.judge_retries,
        )
        fixed: dict[str, Slot] = {"criteria": self._text(f"criteria_{dialogue.task.code}")}
        if self.options.guidelines:
            fixed["guidelines"] = self._text(f"guidelines_{dialogue.task.code}")
        history: tuple[Part, ...] = ()
        for number, exchange in enumerate(dialogue.history, start=1):
            if number in dialogue.own_turns:
                slots = {
                    **fixed,
                    "history": history,
                    "question": exchange.user,
                    "answer": Ref(call=f"turn_{number}"),
                }
                if dialogue.task.code in REFERENCED:
                    slots["reference"] = self._reference(dialogue, number)
                yield judge.call(judgement_call(number), self._prompt(dialogue), slots)
            answer = answer_in_history(dialogue, condition, number)
            history = self._continued(history, exchange.user, answer)

    def _prompt(self, dialogue: Dialogue) -> Prompt:
        referenced = "_with_reference" if dialogue.task.code in REFERENCED else ""
        without = "" if self.options.guidelines else "_without_guidelines"
        return self.prompts[f"judge{referenced}{without}"]

    def _continued(
        self, history: tuple[Part, ...], user: str, answer: str | Ref
    ) -> tuple[Part, ...]:
        slots: dict[str, Slot] = {"history": history, "user": user, "answer": answer}
        [message] = self.prompts["turn"].fill(slots)
        return message.parts

    def _text(self, name: str) -> tuple[Part, ...]:
        [message] = self.prompts[name].fill({})
        return message.parts

    def _reference(self, dialogue: Dialogue, number: int) -> str:
        """What the judge may take as right at this turn."""
        if self.options.reference == "answer":
            return dialogue.history[number - 1].bot
        messages = []
        for exchange in dialogue.history[:number]:
            messages.append({"role": "user", "content": exchange.user})
            messages.append({"role": "assistant", "content": exchange.bot})
        return repr(messages)


def judgement_call(number: int) -> str:
    """The id of the call that judges turn `number`."""
    return f"judge/turn_{number}"
