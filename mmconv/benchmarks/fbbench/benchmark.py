"""FB-Bench: how a model responds to a user's feedback on an answer that it is given.

Source: the FB-Bench paper (2024) and PKU-Baichuan-MLSystemLab/FB-Bench. The judge reads both turns,
a reference answer if the run shows it, and a checklist. It fills in a JSON form with an entry per
criterion (section 2.3 and Figure 12). The numbers are in `metrics`, published judgements in
`published`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import Field

from judges import Judge, PromptSet, Reading, Slot, read_verdict
from judges.parsers.fbbench import (
    FAULTS,
    OFFICIAL,
    ChecklistParser,
    Criterion,
    criterion_score,
    draw_form,
    draw_schema,
    list_criteria,
)
from mmconv.benchmarks.choosing import all_keys, choose
from mmconv.benchmarks.data_files.bad_records import bad_records_list, bad_records_table
from mmconv.benchmarks.data_files.intake import Found, Intake, find_samples
from mmconv.benchmarks.data_files.records import Reader, Record, scan_records
from mmconv.benchmarks.shared.endings import endings
from mmconv.benchmarks.shared.options import (
    CANDIDATE,
    JUDGE,
    BenchmarkOptions,
    Description,
    Display,
    named_conditions,
    read_options,
    require_judge,
)
from mmconv.benchmarks.shared.scoring import Calls, Outcomes, Scores
from mmconv.core.config import RunSpec
from mmconv.core.errors import DataError
from mmconv.core.keys import hash_bytes, hash_files
from mmconv.core.protocols import ImageSink
from mmconv.core.turns import Turn, chain
from mmconv.core.types import ANY_OBJECT, Call, Failure, Outcome, Ref, Sampling, Score, Table, Text

Maintenance: TypeAlias = Literal["any", "all"]
JudgeSettings: TypeAlias = Literal["schema", "code-exact"]

CORRECTION = "Error Correction"
MAINTENANCE = "Response Maintenance"
SCENARIOS = (CORRECTION, MAINTENANCE)

TEMPERATURES = {
    "Mathematics": 0.0,
    "Reasoning": 0.0,
    "Coding": 0.0,
    "Text Extraction": 0.0,
    "Text Error Correction": 0.0,
    "Text Creation": 0.7,
    "Knowledge Q&A": 0.1,
    "Text Translation": 0.7,
}
"""The candidate's temperature by task (paper, Appendix A.2.1), in the order of the tables."""

CONDITION = "preset"
"""The one condition: the first answer is the preset one, and the model answers the feedback."""

ANSWER = "turn_2"
"""The id of the call that answers the feedback."""

JUDGEMENT = "judgement"
"""The id of the call that judges the answer."""

LABEL_SEPARATOR = "; "
"""Separates the labels of a tag that holds several."""

REFUSAL = "repetitive patterns"
"""A server's words when it refuses a prompt, which the authors' code scores as 0."""

_REFERENCE = "reference_second_response"
_NEEDS_REFERENCE = f"{_REFERENCE} is empty, but the judge must read it"
_INCOMPLETE = "with criteria missing in the judgement"
_ALL_NOTE = (
    "Response maintenance counts only if all criteria are met (the paper's formula); the authors' "
    "columns count any."
)
# the authors' weights are decimals such as 0.05, whose float sum is off in the last places
_SUM_TOLERANCE = 1e-6
_MOST_SHOWN = 200


class FBBenchOptions(BenchmarkOptions):
    """Options under `options:` of a run file.

    Records have reference answers in release v1 and none in v3. Of `maintenance`, the paper's text
    and the authors' code have "any", the formula that the paper prints "all".
    """

    data: Path
    """The authors' file of either release."""
    reference: bool | None = None
    """Whether the judge reads the reference answer; by default it does if all records have one."""
    maintenance: Maintenance = "any"
    """A response is maintained if any criterion is met, or only if all are."""
    judge_settings: JudgeSettings = "schema"
    """Constrains the judge to the form's schema if it can be, or to any object (code-exact)."""
    judge_retries: int = Field(default=2, ge=0, le=5)
    """How often a verdict that is unreadable or has scores missing is requested again."""
    generate_only: bool = False
    """Run the candidate only, without a judge."""
    skip_bad_records: bool = False
    """Go on without incomplete or unreadable records; the report lists them."""
    max_tokens: int = Field(default=4096, gt=0)
    """The candidate's longest reply, in tokens."""
    judge_max_tokens: int = Field(default=4096, gt=0)
    """The judge's longest reply, in tokens."""


DESCRIPTION = Description(
    options=FBBenchOptions,
    conditions={CONDITION: "The first answer is the preset one; the model answers the feedback."},
    unnamed=CONDITION,
    seats={"candidate": CANDIDATE, "judge": JUDGE},
    judging=frozenset(
        {"reference", "maintenance", "judge_settings", "judge_retries", "judge_max_tokens"}
    ),
    display=Display(
        labels={
            CONDITION: "preset first answer",
            "score": "score (0 to 1)",
            "authors": "score, the authors' reading",
            "renamed": "criteria renamed by the judge",
            "missing": "criteria missing in the judgement",
            "added": "entries that are not criteria",
            "reweighted": "criteria whose weight the judge changed",
            "refused": "prompts refused by the judge's server (authors: 0)",
            "error_text": "error texts stored and judged as answers",
            "off_balance": "checklists whose weights do not sum to 1",
            "repeated": "criteria that a checklist lists twice",
            "misstored": "stored scores that the judgement does not give",
        },
        lists=dict.fromkeys(("deficiency", "feedback"), "; "),
    ),
)
"""What `mmconv options fbbench` prints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A user's query, the preset answer, the user's feedback, and a checklist for the next answer.

    `id` is a hash of the query. Both releases and the judgement files have the query, and the
    authors join by it. `deficiencies` are those of the preset answer; a sample of response
    maintenance has none.
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


def read_sample(record: Record) -> Sample:
    """Read a record of a data file or a judgement file; raises `DataError` with all faults.

    Weights are taken as they are: `misfits` checks them.
    """
    reader = Reader(record)
    query = reader.required("user_query")
    sample = Sample(
        id=_hash_query(query),
        scenario=_read_choice(reader, "bench_type", SCENARIOS),
        task=_read_choice(reader, "task_type", tuple(TEMPERATURES)),
        subtask=reader.required("sub_task_type"),
        query=query,
        first_answer=reader.required("origin_first_response"),
        feedback=reader.required("feedback"),
        deficiencies=_read_labels(reader, "error_type"),
        feedback_types=_read_labels(reader, "feedback_type"),
        checklist=tuple(_read_checklist(reader)),
        reference=reader.optional(_REFERENCE),
    )
    if reader.faults:
        raise DataError(record.where, reader.faults, "Correct the record and run again.")
    return sample


def _hash_query(query: str) -> str:
    return hash_bytes(query.encode())[:12]


def _key(record: Record) -> str | None:
    """The id of the record's sample; None without a query."""
    query = Reader(record).optional("user_query")
    return _hash_query(query) if query else None


def _read_choice(reader: Reader, name: str, choices: Sequence[str]) -> str:
    text = reader.required(name)
    if text not in ("", *choices):
        reader.faults.append(f"{name} must be one of {', '.join(choices)}, got {text!r}")
    return text


def _read_labels(reader: Reader, name: str) -> tuple[str, ...]:
    """A list of labels, empty if it is null, as `error_type` is in response maintenance."""
    labels = reader.record.fields.get(name)
    if name in reader.record.fields and labels is None:
        return ()
    if isinstance(labels, list) and all(isinstance(label, str) and label for label in labels):
        return tuple(dict.fromkeys(labels))
    got = _shorten(labels) if name in reader.record.fields else "nothing"
    reader.faults.append(f"{name} must be a list of names or null, got {got}")
    return ()


def _read_checklist(reader: Reader) -> Iterator[Criterion]:
    """The criteria: `[text, weight]`, `[text]` or a bare text."""
    items = reader.record.fields.get("checklist")
    if not isinstance(items, list) or not items:
        reader.faults.append(f"checklist must be a list of criteria, got {_shorten(items)}")
        return
    for number, item in enumerate(items, start=1):
        parts: list[Any] = [item] if isinstance(item, str) else item
        match parts:
            case [str(text)] | [str(text), None] if text.strip():
                yield Criterion(text=text)
            # a truth value is an int, too
            case [str(text), weight] if text.strip() and type(weight) in (int, float):
                yield Criterion(text=text, weight=weight)
            case _:
                expected = f"checklist item {number} must be a text or [text, weight]"
                reader.faults.append(f"{expected}, got {_shorten(item)}")


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def misfits(sample: Sample) -> list[str]:
    """Faults of a readable sample that keep it from being run: weights, repeated criteria."""
    faults = []
    for number, criterion in enumerate(sample.checklist, start=1):
        weight = criterion.weight
        if sample.scenario == MAINTENANCE and weight is not None:
            faults.append(f"checklist item {number}: response maintenance has no weights")
        if sample.scenario == CORRECTION and (weight is None or not 0 < weight <= 1):
            faults.append(f"checklist item {number}: the weight must be in (0, 1], got {weight}")
    if (total := off_balance(sample)) is not None:
        faults.append(f"checklist: the weights must sum to 1, got {total:.6g}")
    faults += [f"checklist: {text!r} is listed twice" for text in dict.fromkeys(repeated(sample))]
    return faults


def repeated(sample: Sample) -> list[str]:
    """The criteria that the checklist lists again, once for each time."""
    texts = [criterion.text for criterion in sample.checklist]
    return [text for number, text in enumerate(texts) if text in texts[:number]]


def off_balance(sample: Sample) -> float | None:
    """The sum of the weights of error correction if it is not 1, else None."""
    if sample.scenario != CORRECTION:
        return None
    total = math.fsum(criterion.weight or 0.0 for criterion in sample.checklist)
    return total if abs(total - 1) > _SUM_TOLERANCE else None


def build(spec: RunSpec, images: ImageSink) -> FBBench:
    """Check options and data; raises `ConfigError` or `DataError` before anything is paid."""
    return FBBench(spec, read_options(FBBenchOptions, spec.options, "fbbench"))


class FBBench:
    """The benchmark; see `Benchmark`."""

    name = "fbbench"
    conditions = (CONDITION,)

    def __init__(self, spec: RunSpec, options: FBBenchOptions) -> None:
        self._spec = spec
        self._options = options
        named_conditions(self.name, spec.conditions, self.conditions)
        self._is_judged = not options.generate_only
        if self._is_judged:
            require_judge(spec)
        # a user's own prompts are checked even if no judge is requested
        self._prompts = PromptSet(self.name, spec.prompts)
        self._intake = Intake(
            choice=choose(spec, all_keys(scan_records(options.data), _key)),
            skip_bad=options.skip_bad_records,
        )
        references = [sample.reference is not None for sample in self._intake.take(self._find())]
        self._intake.check(options.data, self._advice())
        is_shown = all(references) if options.reference is None else options.reference
        self._shows_reference = is_shown and self._is_judged

    def _find(self) -> Iterator[Found[Sample]]:
        """Each chosen record with its sample or its faults."""
        options = self._options
        # if bad samples are left out, the same ones run whether a judge comes now or later
        needs_reference = options.reference and (options.skip_bad_records or self._is_judged)

        def read(record: Record) -> Found[Sample]:
            try:
                sample = read_sample(record)
            except DataError as error:
                return Found(place=record.where, faults=error.problems)
            is_missing = needs_reference and sample.reference is None
            faults = [*misfits(sample), *([_NEEDS_REFERENCE] if is_missing else [])]
            return Found(place=record.where, sample=sample, faults=tuple(faults))

        records = scan_records(options.data)
        return find_samples(records, self._intake.choice, _key, read, key_field="user_query")

    def _advice(self) -> str:
        if any(_NEEDS_REFERENCE in faults for faults in self._intake.bad.values()):
            return "options.reference=false judges without reference answers, as release v3."
        return ""

    @property
    def size(self) -> int:
        """How many samples will be run."""
        return self._intake.good

    @property
    def notes(self) -> tuple[str, ...]:
        """What the judge reads, the convention of response maintenance, and records left out."""
        notes = []
        if self._is_judged:
            reading = "with" if self._shows_reference else "without"
            notes.append(f"Judged {reading} reference answers.")
        if self._options.maintenance == "all":
            notes.append(_ALL_NOTE)
        return (*notes, *self._intake.notes())

    @property
    def facts(self) -> Mapping[str, Any]:
        """Hashes of data and prompts, conventions in force, and which records are left out."""
        return {
            "data": hash_files([self._options.data]),
            "prompts": self._prompts.digests() if self._is_judged else {},
            "samples": self.size,
            "reference": self._shows_reference,
            "maintenance": self._options.maintenance,
            "left_out": bad_records_list(self._intake.bad),
        }

    def load(self) -> Iterator[Sample]:
        """Stream the good samples; raises `DataError` for a record that has gone bad since."""
        return self._intake.stream(self._find())

    def key(self, sample: Sample) -> str:
        """The sample's ID, which is a hash of its query."""
        return sample.id

    def about(self, sample: Sample) -> Mapping[str, str]:
        """The checklist with its weights, and the reference answer if there is one."""
        checklist = "\n".join(
            each.text if each.weight is None else f"{each.text} ({each.weight:g})"
            for each in sample.checklist
        )
        reference = {} if sample.reference is None else {"reference": sample.reference}
        return {"checklist": checklist, **reference}

    def plan(self, sample: Sample, condition: str) -> tuple[Call, ...]:
        """The answer to the feedback, after the preset first answer, and its judgement."""
        options = self._options
        turns = [
            Turn(user=(Text(text=sample.query),), answer=sample.first_answer, generate=False),
            Turn(user=(Text(text=sample.feedback),)),
        ]
        temperature = TEMPERATURES[sample.task]
        sampling = Sampling(temperature=temperature, max_tokens=options.max_tokens)
        answer = chain(turns, seat="candidate", sampling=sampling)
        if not self._is_judged:
            return answer
        reference = sample.reference if self._shows_reference else None
        judgement = judgement_call(sample, reference, self._prompts, options)
        return (*answer, judgement)

    def score(self, sample: Sample, condition: str, calls: Calls, outcomes: Outcomes) -> Scores:
        """How the answer ended, its score by us and by the authors, and an odd judgement."""
        for metric, value, reason in endings(outcomes[ANSWER]):
            yield _score(sample, metric, value, reason)
        if self._is_judged:
            yield from score_judgement(sample, calls, outcomes, self._options.maintenance)

    def tables(self, scores: Scores) -> list[Table]:
        """The paper's tables and ours."""
        # numpy is imported with them, and only the end of a run needs it
        from mmconv.benchmarks.fbbench.metrics import build_tables
        from mmconv.benchmarks.layouts import Context
        from mmconv.stats import ScoreFrame

        seats = self._spec.seats
        context = Context(
            candidate=seats["candidate"].label,
            judge=seats["judge"].label if self._is_judged else "no model",
            notes=self.notes,
        )
        tables = build_tables({context.candidate: ScoreFrame.of(scores)}, context)
        return [*tables, *bad_records_table(self._intake.bad)]


def judgement_call(
    sample: Sample, reference: str | None, prompts: PromptSet, options: FBBenchOptions
) -> Call:
    """The judgement of the candidate's answer, requested up to `1 + judge_retries` times."""
    slots: dict[str, Slot] = {
        "query": sample.query,
        "first_answer": sample.first_answer,
        "feedback": sample.feedback,
        "answer": Ref(call=ANSWER),
        "checklist": list_criteria(sample.checklist),
        "form": draw_form(sample.checklist),
    }
    if reference is not None:
        slots["reference"] = reference
    is_any = options.judge_settings == "code-exact"
    schema = ANY_OBJECT if is_any else draw_schema(sample.checklist)
    judge = Judge(
        parser=ChecklistParser(checklist=sample.checklist),
        sampling=Sampling(max_tokens=options.judge_max_tokens, schema=schema),
        verdict_last=False,
        retries=options.judge_retries,
    )
    prompt = prompts["judge" if reference is None else "judge_with_reference"]
    return judge.call(JUDGEMENT, prompt, slots)


def score_judgement(
    sample: Sample, calls: Calls, outcomes: Outcomes, maintenance: Maintenance
) -> Iterator[Score]:
    """The sample's score, the authors' (as their code computes it), and what is odd.

    `score` is from 0 to 1; its criteria are matched to the checklist, its weights taken from it.
    """
    reading = read_verdict(calls[JUDGEMENT], outcomes)
    judgement = outcomes[JUDGEMENT]
    is_refused = isinstance(judgement, Failure) and REFUSAL in judgement.message.lower()
    value, reason = _value(sample, reading, outcomes[ANSWER], maintenance)
    yield _score(sample, "score", value, reason)
    verdict = {} if reading.verdict is None else reading.verdict.scores
    for metric in (OFFICIAL, *FAULTS):
        if metric == OFFICIAL and is_refused:
            yield _score(sample, metric, 0.0)
        else:
            yield _score(sample, metric, verdict.get(metric), reading.why)
    yield _score(sample, "refused", float(is_refused))


def _value(
    sample: Sample, reading: Reading, answer: Outcome, maintenance: Maintenance
) -> tuple[float | None, str | None]:
    """The sample's score, or None and the reason: an answer that failed has no score."""
    if isinstance(answer, Failure):
        return None, f"no answer: {answer.kind}"
    if reading.verdict is None:
        return None, reading.why
    numbers = range(len(sample.checklist))
    met = [reading.verdict.scores.get(criterion_score(number)) for number in numbers]
    if sample.scenario == CORRECTION:
        if None in met:
            return None, _INCOMPLETE
        weights = [criterion.weight or 0.0 for criterion in sample.checklist]
        return math.fsum(w * each for w, each in zip(weights, met, strict=True) if each), None
    # one criterion can decide the sample, even if others are missing
    decisive = 1.0 if maintenance == "any" else 0.0
    if decisive in met:
        return decisive, None
    return (None, _INCOMPLETE) if None in met else (1.0 - decisive, None)


def _score(sample: Sample, metric: str, value: float | None, reason: str | None = None) -> Score:
    tags = {
        "scenario": sample.scenario,
        "task": sample.task,
        "subtask": sample.subtask,
        "deficiency": LABEL_SEPARATOR.join(sample.deficiencies),
        "feedback": LABEL_SEPARATOR.join(sample.feedback_types),
    }
    return Score(
        sample=sample.id,
        condition=CONDITION,
        metric=metric,
        tags={name: text for name, text in tags.items() if text},
        value=value,
        why=reason,
    )
