"""FB-Bench's samples: both releases' JSON list, checked and streamed.

`survey` reads the whole file before anything is paid for and tells all that is wrong in one
message; `load_samples` then streams. The authors' judgement files hold the same fields, so
`read_sample` serves rescoring too. Nothing is prompted or scored here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.parsers.fbbench import Criterion
from mmconv.benchmarks.choosing import EVERYTHING, Choice, all_keys
from mmconv.benchmarks.data_files.bad_records import BadRecords
from mmconv.benchmarks.data_files.intake import Found, Intake, find_samples
from mmconv.benchmarks.data_files.records import Reader, Record, scan_records
from mmconv.benchmarks.fbbench.options import CORRECTION, MAINTENANCE, SCENARIOS, TEMPERATURES
from mmconv.core.errors import DataError
from mmconv.core.keys import hash_bytes

_TEXTS = (
    "bench_type",
    "task_type",
    "sub_task_type",
    "user_query",
    "origin_first_response",
    "feedback",
)
_REFERENCE = "reference_second_response"
_NEEDS_REFERENCE = f"{_REFERENCE} is empty, and the judge shall read it"
# The authors' weights are decimals such as 0.05, whose float sum is off in the last places.
_SUM_TOLERANCE = 1e-6
_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A user's query, the preset answer to it, the user's feedback, and how the next is judged.

    `id` is made of the query, which the authors join by: both releases and the judgement files
    have it in common. `deficiencies` are those of the preset answer, none in response maintenance.
    """

    id: str
    scenario: str
    task: str
    subtask: str
    query: str
    first_answer: str
    feedback: str
    deficiencies: tuple[str, ...]
    feedback_types: tuple[str, ...]
    checklist: tuple[Criterion, ...]
    reference: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a file holds; `referenced` says whether every sample has a reference answer."""

    intake: Intake
    referenced: bool


def survey(
    path: Path, *, reference: bool | None, skip_bad: bool, choice: Choice = EVERYTHING
) -> Survey:
    """Check every record of the choice; `reference` True wants a reference answer in each.

    Raises `DataError` with all problems in one message; with `skip_bad` only where the file cannot
    be read or no sample is left.
    """
    intake = Intake(choice=choice, skip_bad=skip_bad)
    found = _find(path, choice, reference=reference)
    references = sum(sample.reference is not None for sample in intake.take(found))
    intake.check(path, _advice(intake.bad))
    return Survey(intake=intake, referenced=references == intake.good)


def load_samples(path: Path, intake: Intake) -> Iterator[Sample]:
    """Stream the samples that the survey found good, in the file's order.

    Raises `DataError` for a record that has gone bad since.
    """
    return intake.stream(_find(path, intake.choice))


def source_keys(path: Path) -> Iterator[str]:
    """The ids of all samples, wanted or not; see `mmconv.benchmarks.choosing.all_keys`."""
    return all_keys(scan_records(path), _key)


def read_sample(record: Record) -> Sample:
    """Read a record's fields; raises `DataError` naming all that are missing or malformed.

    Weights and task names are taken as they are: `misfits` looks at them.
    """
    reader = Reader(record)
    faults = reader.faults
    texts = {name: reader.required(name) for name in _TEXTS}
    if texts["bench_type"] not in ("", *SCENARIOS):
        faults.append(f"bench_type is {texts['bench_type']!r}, not {' or '.join(SCENARIOS)}")
    sample = Sample(
        id=_id(texts["user_query"]),
        scenario=texts["bench_type"],
        task=texts["task_type"],
        subtask=texts["sub_task_type"],
        query=texts["user_query"],
        first_answer=texts["origin_first_response"],
        feedback=texts["feedback"],
        deficiencies=_names(record, "error_type", faults),
        feedback_types=_names(record, "feedback_type", faults),
        checklist=_checklist(record, faults),
        reference=reader.optional(_REFERENCE),
    )
    if faults:
        raise DataError(record.where, faults, "Mend the record and run again.")
    return sample


def misfits(sample: Sample) -> list[str]:
    """What keeps a readable sample from being run: its task, its weights, a repeated criterion."""
    faults = []
    if sample.task not in TEMPERATURES:
        faults.append(f"task_type is {sample.task!r}; there are: {', '.join(TEMPERATURES)}")
    for number, criterion in enumerate(sample.checklist, start=1):
        if (fault := _misweighted(criterion.weight, sample.scenario)) is not None:
            faults.append(f"checklist item {number}: {fault}")
    if (total := off_balance(sample)) is not None:
        faults.append(f"checklist: the weights sum to {total:.6g}, not 1")
    faults += [f"checklist: {text!r} is listed twice" for text in dict.fromkeys(repeated(sample))]
    return faults


def repeated(sample: Sample) -> list[str]:
    """The criteria that the checklist lists again, once for each time."""
    texts = [criterion.text for criterion in sample.checklist]
    return [text for number, text in enumerate(texts) if text in texts[:number]]


def off_balance(sample: Sample) -> float | None:
    """The sum of the weights of error correction where it is not 1; None where it is."""
    if sample.scenario != CORRECTION:
        return None
    total = math.fsum(criterion.weight or 0.0 for criterion in sample.checklist)
    return total if abs(total - 1) > _SUM_TOLERANCE else None


def _key(record: Record) -> str | None:
    """The id that the record's sample has; None without a query."""
    query = Reader(record).optional("user_query")
    return _id(query) if query else None


def _find(path: Path, choice: Choice, *, reference: bool | None = None) -> Iterator[Found[Sample]]:
    def read(record: Record) -> Found[Sample]:
        try:
            sample = read_sample(record)
        except DataError as error:
            return Found(place=record.where, faults=error.problems)
        faults = misfits(sample)
        if reference and sample.reference is None:
            faults.append(_NEEDS_REFERENCE)
        return Found(place=record.where, sample=sample, faults=tuple(faults))

    return find_samples(scan_records(path), choice, _key, read, key_field="user_query")


def _advice(left_out: BadRecords) -> str:
    if any(_NEEDS_REFERENCE in faults for faults in left_out.values()):
        return "options.reference=false judges without reference answers, as release v3."
    return ""


def _id(query: str) -> str:
    return hash_bytes(query.encode())[:12]


def _names(record: Record, name: str, faults: list[str]) -> tuple[str, ...]:
    """A list of labels, or none where it is null, as `error_type` is in response maintenance."""
    value = record.fields.get(name)
    if name in record.fields and value is None:
        return ()
    if isinstance(value, list) and all(isinstance(each, str) and each for each in value):
        return tuple(dict.fromkeys(value))
    faults.append(f"{name} {_found(record, name)}: a list of names is wanted, or null")
    return ()


def _checklist(record: Record, faults: list[str]) -> tuple[Criterion, ...]:
    value = record.fields.get("checklist")
    if not isinstance(value, list) or not value:
        faults.append(f"checklist {_found(record, 'checklist')}: a list of criteria is wanted")
        return ()
    criteria = []
    for number, item in enumerate(value, start=1):
        criterion = _criterion(item)
        if criterion is None:
            faults.append(f"checklist item {number} is {_short(item)}: no criterion")
        else:
            criteria.append(criterion)
    return tuple(criteria)


def _criterion(item: Any) -> Criterion | None:
    """A criterion from `[text, weight]`, `[text]` or a bare text; None for anything else."""
    text, weight = item, None
    if isinstance(item, list) and len(item) in (1, 2):
        text, weight = item[0], item[1] if len(item) == 2 else None
    if not isinstance(text, str) or not text.strip():
        return None
    if weight is None:
        return Criterion(text=text)
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        return None
    return Criterion(text=text, weight=weight)


def _misweighted(weight: float | None, scenario: str) -> str | None:
    if scenario == MAINTENANCE and weight is not None:
        return "criteria of response maintenance have no weights"
    if scenario == CORRECTION and (weight is None or not 0 < weight <= 1):
        return f"its weight is {weight}, not a number in (0, 1]"
    return None


def _found(record: Record, name: str) -> str:
    """What stands in a field, for a message that says it is wrong."""
    if name not in record.fields:
        return "is missing"
    value = record.fields[name]
    return "is empty" if value in (None, "", []) else f"holds {_short(value)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
