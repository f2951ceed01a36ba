"""The authors' published judgements (`model_judgment/<judge>/<model>.jsonl`): what a record says.

A record is a sample, a model's answer, the judge's JSON object and the score that the authors' code
made of it. Scores and tables are made in `rescore`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from mmconv.benchmarks.data_files.records import Record
from mmconv.benchmarks.fbbench.chains import ANSWER
from mmconv.benchmarks.fbbench.grading import JUDGEMENT
from mmconv.benchmarks.fbbench.scoring import REFUSAL
from mmconv.benchmarks.shared.scoring import Outcomes
from mmconv.core.errors import DataError
from mmconv.core.types import Failure, Outcome, Reply

RELEASES = {"v1": 734, "v3": 591}
"""How many samples each release has; all of v1's have a reference answer."""

ERROR_TEXTS = ("$ERROR$", "$Since max_tokens is less than 1")
"""How stored answers begin that are no answers: what the authors' code writes for a failure."""

ADVICE = "Give the authors' judgement files as they are."


def read_name(record: Record, field: str) -> str:
    """Whose answer (`infer_model`) or judgement (`judge_model`) it is; `DataError` if not told."""
    name = record.fields.get(field)
    if not isinstance(name, str) or not name:
        raise DataError(record.where, [f"{field} is missing"], ADVICE)
    return name


def read_outcomes(record: Record) -> Outcomes:
    """Its answer and judgement as the outcomes of a run, where failures are no texts.

    Raises `DataError` where either is not there.
    """
    answer = record.fields.get("second_response")
    judgement = record.fields.get("judgement")
    faults = []
    if not isinstance(answer, str):
        faults.append("second_response is no text")
    if not isinstance(judgement, dict):
        faults.append("judgement is no object")
    if not isinstance(answer, str) or not isinstance(judgement, dict):
        raise DataError(record.where, faults, ADVICE)
    return {ANSWER: _answer(answer), JUDGEMENT: _judgement(judgement)}


def _answer(text: str) -> Outcome:
    if text.startswith(ERROR_TEXTS):
        return Failure(kind="server", message=text, attempts=1)
    return Reply(text=text)


def _judgement(judgement: Mapping[str, Any]) -> Outcome:
    for value in judgement.values():
        if isinstance(value, str) and REFUSAL in value.lower():
            return Failure(kind="rejected", message=value, attempts=1)
    return Reply(text=orjson.dumps(judgement).decode())
