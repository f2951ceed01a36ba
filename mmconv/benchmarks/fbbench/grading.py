"""How an answer is judged: one judgement, of the whole checklist.

The judge reads the two turns, the reference answer where the run shows it, and the checklist, and
fills in a JSON form with an entry per criterion (paper, section 2.3 and Fig. 12). Prompts come from
`judges`; what became of the judgements is read in `scoring`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from judges import Data, Judge, PromptSet, Slot
from judges.parsers.fbbench import MET, REASON, RESULT, UNMET, WEIGHT, ChecklistParser, Criterion
from mmconv.benchmarks.fbbench.chains import ANSWER
from mmconv.benchmarks.fbbench.data import Sample
from mmconv.core.errors import PlanError
from mmconv.core.types import ANY_OBJECT, Call, Ref, Sampling

JUDGEMENT = "judgement"
"""The id of the call that judges the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """Plans judgements, requested up to `1 + retries` times.

    `reference` shows the reference answer. `json_mode` asks for any JSON object, as the authors'
    code does, instead of one that fits the form's schema.
    """

    prompts: PromptSet
    sampling: Sampling
    retries: int
    reference: bool
    json_mode: bool = False

    def call(self, sample: Sample) -> Call:
        """The judgement of the candidate's answer."""
        prompt = self.prompts["judge_with_reference" if self.reference else "judge"]
        schema = ANY_OBJECT if self.json_mode else draw_schema(sample.checklist)
        slots: dict[str, Slot] = {
            "query": sample.query,
            "first_answer": sample.first_answer,
            "feedback": sample.feedback,
            "answer": Ref(call=ANSWER),
            "checklist": list_criteria(sample.checklist),
            "form": draw_form(sample.checklist),
        }
        if self.reference:
            slots["reference"] = _reference(sample)
        judge = Judge(
            parser=ChecklistParser(checklist=sample.checklist),
            sampling=replace(self.sampling, schema=schema),
            verdict_last=False,
            retries=self.retries,
        )
        return judge.call(JUDGEMENT, prompt, slots)


def list_criteria(checklist: Sequence[Criterion]) -> Data:
    """The checklist as numbered lines with any weights; the data are the list of its file."""
    lines = (
        f"{number}. {each.text}" + ("" if each.weight is None else f"（权重：{each.weight:g}）")
        for number, each in enumerate(checklist, start=1)
    )
    listed = [each.text if each.weight is None else [each.text, each.weight] for each in checklist]
    return Data(value=listed, text="\n".join(lines))


def draw_form(checklist: Sequence[Criterion]) -> Data:
    """The JSON form that the judge fills in: an entry per criterion, its weight already there."""
    form = {each.text: {REASON: "", RESULT: "", WEIGHT: each.weight} for each in checklist}
    # replies are stored under this text, in which every weight has been a float: 1.0, not 1
    text = {each.text: {REASON: "", RESULT: "", WEIGHT: _as_float(each)} for each in checklist}
    return Data(value=form, text=orjson.dumps(text, option=orjson.OPT_INDENT_2).decode())


def draw_schema(checklist: Sequence[Criterion]) -> str:
    """The JSON schema of the filled form, in the subset that hosted servers guide by."""
    entries = {each.text: _entry_schema(each) for each in checklist}
    return orjson.dumps(_object(entries)).decode()


def _entry_schema(criterion: Criterion) -> dict[str, Any]:
    weight: dict[str, Any] = {"type": "null"}
    if criterion.weight is not None:
        weight = {"type": "number", "enum": [_as_float(criterion)]}
    result = {"type": "string", "enum": [MET, UNMET]}
    # The reason stands first, so that a judge that writes in order thinks before it decides.
    return _object({REASON: {"type": "string"}, RESULT: result, WEIGHT: weight})


def _as_float(criterion: Criterion) -> float | None:
    return None if criterion.weight is None else float(criterion.weight)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _reference(sample: Sample) -> str:
    if sample.reference is None:
        raise PlanError(f"sample {sample.id} has no reference answer")
    return sample.reference
