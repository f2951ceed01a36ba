"""How a dialogue is judged: one judgement, which scores every turn.

The judge reads the whole dialogue with the speech acts; of Long-Text's opening only the question,
with the text's summary and QA pairs beside it (Appendix D).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from judges import Judge, PromptSet, Slot
from judges.parsers.cmteval import TurnsParser
from mmconv.benchmarks.cmteval.data import Dialogue, split_long_text
from mmconv.benchmarks.cmteval.fields import Subset
from mmconv.benchmarks.cmteval.options import GradingOptions
from mmconv.core.errors import PlanError
from mmconv.core.types import Call, Ref, Sampling

JUDGEMENT = "judge"
"""The id of the call that judges a dialogue."""

# Measured over the 63 judgements (432 turns) of the authors' eval_long-text_llama3.1-8b.json, put
# together again as the judge was asked for them, in the tokens of `mmconv.report.forecast`.
JUDGEMENT_TOKENS = 62
"""How many tokens a judgement has for each turn; forecasts take it."""

AUTHORS_LIMIT = 20_000
"""The tokens that the authors' scripts let the judge write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """Plans the one judgement of a dialogue, drawn as the options say."""

    prompts: PromptSet
    options: GradingOptions

    def call(self, dialogue: Dialogue) -> Call:
        """The call that scores every turn; Long-Text has a prompt of its own."""
        judge = Judge(
            parser=TurnsParser(turns=len(dialogue.turns)),
            sampling=judge_sampling(self.options, dialogue.subset),
            verdict_last=False,
            retries=self.options.judge_retries,
        )
        slots: dict[str, Slot] = {"conversation": tuple(_conversation(dialogue))}
        prompt = self.prompts["judge_dialogue"]
        if dialogue.subset == "long-text":
            if dialogue.reference is None:
                raise PlanError(f"{dialogue.key} has no reference, and its judge reads no text")
            slots["summary"] = dialogue.reference.summary
            slots["qa_pairs"] = dialogue.reference.qa_pairs
            prompt = self.prompts["judge_long_text"]
        call = judge.call(JUDGEMENT, prompt, slots)
        return replace(call, expected_tokens=JUDGEMENT_TOKENS * len(dialogue.turns))


def judge_sampling(options: GradingOptions, subset: Subset) -> Sampling:
    """How the judge draws: by the paper, or by the script for this subset."""
    is_exact = options.judge_settings == "code-exact"
    limit = AUTHORS_LIMIT if is_exact else options.judge_max_tokens
    if options.judge_settings == "paper":
        return Sampling(temperature=0.0, top_p=0.1, max_tokens=limit)
    if subset == "long-text":
        return Sampling(temperature=0.1, max_tokens=limit)
    return Sampling(temperature=0.0, top_p=0.1, seed=12, max_tokens=limit)


def _conversation(dialogue: Dialogue) -> Iterator[str | Ref]:
    """The dialogue in the lines of the authors' script."""
    for turn in dialogue.turns:
        line_break = "\n" if turn.number > 1 else ""
        yield f"{line_break}轮次 {turn.number} - 用户: {_asked(dialogue, turn.number)}\n模型: "
        yield Ref(call=f"turn_{turn.number}")
        yield f"\n言语行为: {turn.label}"


def _asked(dialogue: Dialogue, number: int) -> str:
    query = dialogue.turns[number - 1].query
    if dialogue.subset != "long-text" or number > 1:
        return query
    parts = split_long_text(query)
    if parts is None:
        raise PlanError(f"{dialogue.key} does not open with a text, a line break, and a question")
    return parts[1]
