"""FB-Bench: how a model responds to a user's feedback on an answer that it is given.

Source: the FB-Bench paper (2024) and PKU-Baichuan-MLSystemLab/FB-Bench. The judge reads both turns,
a reference answer if the run shows it, and a checklist. It fills in a JSON form with an entry per
criterion (section 2.3 and Figure 12). Every number of the paper is the plain mean of cells, and a
cell is the mean over the samples of one scenario and one task (section 3.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from judges import Judge, Slot
from judges.parsers import fbbench as checklists
from mmconv.benchmarks.base import Benchmark, Condition, Options, Results, Sample
from mmconv.benchmarks.base.dataset import Dataset, choose_samples
from mmconv.benchmarks.base.judges import CANDIDATE_AND_JUDGE
from mmconv.benchmarks.base.layouts import Build, Layout, by_label
from mmconv.benchmarks.base.metrics import (
    Group,
    Mean,
    MeanOf,
    Metric,
    Official,
    Select,
)
from mmconv.benchmarks.base.results import Scale
from mmconv.benchmarks.data_files.records import scan_records
from mmconv.benchmarks.options import Display
from mmconv.core.documents import Place
from mmconv.core.keys import hash_bytes
from mmconv.core.protocols import ImageSink
from mmconv.core.turns import Turn, chain
from mmconv.core.types import ANY_OBJECT, Call, Cell, Failure, Ref, Sampling, Score, Table, Text
from mmconv.stats import FEWEST_CLUSTERS, Column, ScoreFrame

Maintenance: TypeAlias = Literal["any", "all"]

CORRECTION, MAINTENANCE = SCENARIOS = ("Error Correction", "Response Maintenance")
TASKS = (
    *("Mathematics", "Reasoning", "Coding", "Text Extraction", "Text Error Correction"),
    *("Text Creation", "Knowledge Q&A", "Text Translation"),
)
TEMPERATURES = {"Text Creation": 0.7, "Knowledge Q&A": 0.1, "Text Translation": 0.7}
"""The candidate's temperature by task, if it is not 0 (paper, Appendix A.2.1)."""

PRESET = "preset"
ANSWER, JUDGEMENT = "turn_2", "judgement"
"""The calls: the answer to the feedback, and its judgement."""
LABEL_SEPARATOR = "; "
"""Separates the labels of a tag that holds several."""
ODDITIES = {
    "renamed": "criteria renamed by the judge",
    "missing": "criteria missing in the judgement",
    "added": "entries that are not criteria",
    "reweighted": "criteria whose weight the judge changed",
    "refused": "prompts refused by the judge's server (authors: 0)",
    "error_text": "error texts stored and judged as answers",
    "off_balance": "checklists whose weights do not sum to 1",
    "repeated": "criteria that a checklist lists twice",
    "misstored": "stored scores that the judgement does not give",
}
"""Score -> the row that counts it; the last four occur in published files only."""
REFUSAL = "repetitive patterns"
"""A server's words when it refuses a prompt, which the authors' code scores as 0."""
INCOMPLETE = "with criteria missing in the judgement"
# the authors' weights are decimals such as 0.05, whose float sum is off in the last places
SUM_TOLERANCE = 1e-6


def query_id(fields: Mapping[str, Any]) -> str | None:
    """A hash of the query, by which the authors' files are joined; None without a query."""
    query = str(fields.get("user_query") or "")
    return hash_bytes(query.encode())[:12] if query.strip() else None


def _read_criterion(item: object) -> checklists.Criterion:
    match [item] if isinstance(item, str) else item:
        case [str(text)] | [str(text), None] if text.strip():
            return checklists.Criterion(text=text)
        case [str(), bool()]:
            pass  # a truth value is an int, too
        case [str(text), int() | float() as weight] if text.strip():
            return checklists.Criterion(text=text, weight=weight)
    raise ValueError(f"must be a text or [text, weight], got {repr(item)[:200]}")


Item: TypeAlias = Annotated[
    checklists.Criterion,
    BeforeValidator(_read_criterion),
    WithJsonSchema({"type": ["string", "array"], "description": "A text, or [text, weight]."}),
]
"""A criterion as the files have it: `[text, weight]`, `[text]` or a bare text."""
Label: TypeAlias = Annotated[str, Field(min_length=1)]


class Dialogue(Sample):
    """A record of the authors' data; in response maintenance `error_type` is null."""

    id: str = ""
    bench_type: Literal[SCENARIOS]  # type: ignore[valid-type]
    task_type: Literal[TASKS]  # type: ignore[valid-type]
    sub_task_type: str
    user_query: str
    origin_first_response: str
    feedback: str
    error_type: tuple[Label, ...] | None
    feedback_type: tuple[Label, ...] | None
    checklist: tuple[Item, ...] = Field(min_length=1)
    reference_second_response: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _add_id(cls, fields: Any) -> Any:
        is_readable = isinstance(fields, dict) and query_id(fields)
        return {**fields, "id": query_id(fields)} if is_readable else fields

    @property
    def repeated(self) -> list[int]:
        """The numbers of the criteria that the checklist has listed before."""
        texts = [criterion.text for criterion in self.checklist]
        return [number for number, text in enumerate(texts, 1) if text in texts[: number - 1]]

    @property
    def wrong_sum(self) -> float | None:
        """The sum of the weights of error correction if it is not 1, else None."""
        total = math.fsum(criterion.weight or 0.0 for criterion in self.checklist)
        return total if self.bench_type == CORRECTION and abs(total - 1) > SUM_TOLERANCE else None

    @model_validator(mode="after")
    def check_checklist(self) -> Dialogue:
        """Refuse a checklist that no run can score: a repeated criterion, or wrong weights."""
        problems = []
        for number, criterion in enumerate(self.checklist, start=1):
            weight = criterion.weight
            if self.bench_type == MAINTENANCE and weight is not None:
                problems.append(f"checklist[{number}]: response maintenance has no weights")
            if self.bench_type == CORRECTION and (weight is None or not 0 < weight <= 1):
                problems.append(f"checklist[{number}]: the weight must be in (0, 1], got {weight}")
        if self.wrong_sum is not None:
            problems.append(f"checklist: the weights must sum to 1, got {self.wrong_sum:.6g}")
        problems += [f"checklist[{number}]: is listed twice" for number in self.repeated]
        if problems:
            raise ValueError("; ".join(problems))
        return self


class FBBenchOptions(Options):
    """The paper's text and the authors' code have `maintenance` "any", its formula prints "all"."""

    reference: bool | None = None
    """Whether the judge reads the reference answer; by default it does if all records have one."""
    maintenance: Maintenance = "any"
    """A response is maintained if any criterion is met, or only if all are."""
    judge_settings: Literal["schema", "code-exact"] = "schema"
    """Constrains the judge to the form's schema if it can be, or to any object (code-exact)."""
    judge_retries: int = Field(default=2, ge=0, le=5)
    """How often a verdict that is unreadable or has scores missing is requested again."""
    max_tokens: int = Field(default=4096, gt=0)
    """The candidate's longest reply, in tokens."""
    judge_max_tokens: int = Field(default=4096, gt=0)
    """The judge's longest reply, in tokens."""


ALL_TASKS = "all tasks"
COLUMNS = {
    "error correction": (CORRECTION,),
    "response maintenance": (MAINTENANCE,),
    "overall": SCENARIOS,
}
"""Column -> the scenarios whose cells it is the mean of."""
AUTHORS = "authors: "

MEANS_NOTE = (
    "A mean over tasks is missing if a task has no scored sample; the authors leave such a task "
    f"out. It has no interval if a task has fewer than {FEWEST_CLUSTERS} samples. "
    "The authors round shares as stored: at ties the columns may be 0.01 apart."
)


class FBBench(Benchmark[Dialogue, FBBenchOptions]):
    """The benchmark. Scores: `score` (0 to 1), `authors` (as their code computes it), oddities."""

    name, title = "fbbench", "FB-Bench"
    conditions = (
        Condition(PRESET, "The first answer is the preset one; the model answers the feedback."),
    )
    prompts = "fbbench"
    roles = CANDIDATE_AND_JUDGE
    scale: ClassVar[Scale] = {"score": (0.0, 1.0)}
    display = Display(
        labels={
            PRESET: "preset first answer",
            "score": "score (0 to 1)",
            "authors": "score, the authors' reading",
            **ODDITIES,
        },
        lists=dict.fromkeys(("deficiency", "feedback"), LABEL_SEPARATOR),
    )
    judging = frozenset(FBBenchOptions.model_fields) - {*Options.model_fields, "max_tokens"}

    def faults(self, sample: Dialogue) -> Iterator[tuple[Place, str]]:
        """The reference answer, if the judge reads it."""
        options = self.options
        # if bad records are left out, the same ones run whether a judge comes now or later
        is_needed = options.reference and (options.skip_bad_records or not options.generate_only)
        if is_needed and sample.reference_second_response is None:
            advice = "options.reference=false judges without it, as release v3"
            yield ("reference_second_response",), f"empty; {advice}"

    def read_data(self, images: ImageSink) -> Dataset[Dialogue]:
        """The dialogues; all of them decide whether the judge reads reference answers."""
        options = self.options
        records = [*scan_records(options.data, options.sheet)]
        for record in records:
            if key := query_id(record.fields):
                record.fields["id"] = key
        dataset = choose_samples(
            records,
            lambda record: Dialogue.model_validate(record.fields),
            self.spec,
            options.data,
            faults=self.faults,
            advice=lambda: ["The id of a sample is a hash of its user_query."],
            skip_bad=options.skip_bad_records,
        )
        if options.reference is None:
            references = [sample.reference_second_response for sample in dataset.samples]
            self.options = options.model_copy(update={"reference": None not in references})
        return dataset

    def remarks(self) -> Iterator[str]:
        """What the judge reads, and the convention of response maintenance."""
        if not self.options.generate_only:
            yield f"Judged {'with' if self.options.reference else 'without'} reference answers."
        if self.options.maintenance == "all":
            yield (
                "Response maintenance counts only if all criteria are met (the paper's formula); "
                "the authors' columns count any."
            )

    def tags(self, sample: Dialogue, turn: int | None) -> dict[str, str]:
        """What tables are split by."""
        tags = {
            "scenario": sample.bench_type,
            "task": sample.task_type,
            "subtask": sample.sub_task_type,
            "deficiency": LABEL_SEPARATOR.join(dict.fromkeys(sample.error_type or ())),
            "feedback": LABEL_SEPARATOR.join(dict.fromkeys(sample.feedback_type or ())),
        }
        return {name: text for name, text in tags.items() if text}

    def references(self, sample: Dialogue, condition: str) -> dict[str, str]:
        """The reference answer to the feedback, if the record has one."""
        reference = sample.reference_second_response
        return {} if reference is None else {ANSWER: reference}

    def metadata(self, sample: Dialogue) -> dict[str, str]:
        """The checklist with its weights, and the reference answer if there is one."""
        checklist = "\n".join(
            each.text if each.weight is None else f"{each.text} ({each.weight:g})"
            for each in sample.checklist
        )
        reference = sample.reference_second_response
        return {"checklist": checklist} | ({} if reference is None else {"reference": reference})

    def plan(self, sample: Dialogue, condition: str) -> Iterator[Call]:
        """The answer to the feedback, after the preset first answer, and its judgement."""
        options = self.options
        query, first_answer = sample.user_query, sample.origin_first_response
        turns = [
            Turn(user=(Text(text=query),), answer=first_answer, generate=False),
            Turn(user=(Text(text=sample.feedback),)),
        ]
        temperature = TEMPERATURES.get(sample.task_type, 0.0)
        sampling = Sampling(temperature=temperature, max_tokens=options.max_tokens)
        yield from chain(turns, model="candidate", sampling=sampling)
        slots: dict[str, Slot] = {
            "query": query,
            "first_answer": first_answer,
            "feedback": sample.feedback,
            "answer": Ref(call=ANSWER),
            "checklist": checklists.list_criteria(sample.checklist),
            "form": checklists.draw_form(sample.checklist),
        }
        prompt = "judge"
        if options.reference is not False and sample.reference_second_response is not None:
            prompt = "judge_with_reference"
            slots["reference"] = sample.reference_second_response
        is_form = options.judge_settings == "schema"
        schema = checklists.draw_schema(sample.checklist) if is_form else ANY_OBJECT
        judge = Judge(
            parser=checklists.ChecklistParser(checklist=sample.checklist),
            sampling=Sampling(max_tokens=options.judge_max_tokens, schema=schema),
            verdict_last=False,
            retries=options.judge_retries,
        )
        yield judge.call(JUDGEMENT, self.prompt(prompt), slots)

    def endings(self, results: Results) -> Iterator[Score]:
        """How the one answer ended; a sample has one turn to score, so its scores have none."""
        return (replace(score, turn=None) for score in super().endings(results))

    def score(self, sample: Dialogue, results: Results) -> Iterator[Score]:
        """The score by the checklist's weights, the authors' by the reply's, and oddities."""
        if self.options.generate_only:
            return
        judgement = results[JUDGEMENT]
        outcome = judgement.outcome
        is_refused = isinstance(outcome, Failure) and REFUSAL in outcome.message.lower()
        yield results.score("score", *_value(sample, results, self.options.maintenance))
        values = {} if judgement.verdict is None else {**judgement.verdict.scores}
        if is_refused:
            values[checklists.OFFICIAL] = 0.0
        for name in (checklists.OFFICIAL, *checklists.FAULTS):
            value = values.get(name)
            yield results.score(name, value, judgement.reason if value is None else None)
        yield results.score("refused", is_refused)

    def metrics(self) -> Iterator[Metric]:
        """Means over cells, by us and by the authors, and counts of what is odd."""
        yield from _means(ALL_TASKS, TASKS, table="scores")
        for column, scenarios in COLUMNS.items():
            authors = Group(title=f"{AUTHORS}{column}")
            yield Official(ALL_TASKS, compute=partial(_authors_mean, scenarios), group=authors)
        for task in TASKS:
            yield from _means(task, (task,), table="")
        for (score, name), title in product(ODDITIES.items(), ("samples", "count")):
            count = partial(_count, score, is_per_sample=title == "samples")
            yield Official(name, compute=count, group=Group(title=title), table="faults")

    def layouts(self) -> Iterator[Layout | Build]:
        """The paper's tables by task and type, ours by subtask, oddities, endings."""
        means = partial(Layout, of="scores", notes=(MEANS_NOTE,))
        yield means("scores", "FB-Bench scores (%), judged by {judge}", rows="candidate")
        yield means("tasks", "Scores by task (%)", rows={"task": TASKS})
        yield means(
            "subtasks",
            "Scores by subtask (%)",
            rows={"task": TASKS, "subtask": None},
            row_label="{task} / {subtask}",
            detail=True,
        )
        halves = ("error correction", "response maintenance")
        by_type = partial(
            means,
            groups=(*halves, *(f"{AUTHORS}{name}" for name in halves)),
            notes=("A sample with several types counts for each of them.", MEANS_NOTE),
        )
        types = {"deficiency": "the preset answer's deficiency", "feedback": "the user's feedback"}
        for tag, meaning in types.items():
            yield by_type(tag, f"Scores by {meaning} (%)", rows=by_label(tag, LABEL_SEPARATOR))
        yield Layout("faults", "What is odd about the judgements", digits=0)
        yield _odd_samples
        yield Layout("answers", "How the answers ended", {"scenario": SCENARIOS}, columns="name")

    def leaderboard(self) -> Iterator[Layout]:
        """All tasks."""
        board = partial(Layout, of="scores", rows="candidate", rank="overall")
        yield board("", "FB-Bench (%)", names=(ALL_TASKS,), groups=tuple(COLUMNS))


def _value(
    sample: Dialogue, results: Results, maintenance: Maintenance
) -> tuple[float | None, str | None]:
    """The sample's score, or None and the reason: an answer that failed has no score."""
    answer, judgement = results[ANSWER].outcome, results[JUDGEMENT]
    if isinstance(answer, Failure):
        return None, f"no answer: {answer.kind}"
    if judgement.verdict is None:
        return None, judgement.reason
    scores = judgement.verdict.scores
    met = [scores.get(checklists.criterion_score(n)) for n in range(len(sample.checklist))]
    if sample.bench_type == CORRECTION:
        if None in met:
            return None, INCOMPLETE
        weights = [criterion.weight or 0.0 for criterion in sample.checklist]
        return math.fsum(w * each for w, each in zip(weights, met, strict=True) if each), None
    # one criterion can decide the sample, even if others are missing
    decisive = 1.0 if maintenance == "any" else 0.0
    if decisive in met:
        return decisive, None
    return (None, INCOMPLETE) if None in met else (1.0 - decisive, None)


def _means(name: str, tasks: Sequence[str], *, table: str) -> Iterator[Metric]:
    """The mean over cells; in response maintenance a score is 0 or 1, and a cell is a share."""
    for column, scenarios in COLUMNS.items():
        group = Group(title=column, unit="%", lowest=0.0, highest=1.0, factor=100.0)
        cells = [
            Mean(
                f"{scenario}/{task}",
                of=Select("score", where={"scenario": scenario, "task": task}, reduce="rows"),
                group=replace(group, share=scenario == MAINTENANCE),
            )
            for scenario, task in product(scenarios, tasks)
        ]
        yield MeanOf(name, of=cells, group=group, table=table)


def _authors_mean(scenarios: Sequence[str], frame: ScoreFrame) -> Cell | None:
    """The authors' macro mean in percent: scores as their code computes them.

    It has no interval, since their files leave out samples without a judgement. The share is
    rounded to four decimals. `math.fsum`, because a running sum changes two published cells.
    """
    columns = [
        frame.select(metric=checklists.OFFICIAL, scenario=scenario, task=task)
        for scenario, task in product(scenarios, TASKS)
    ]
    scores = Column.joined(columns)
    if not len(scores):
        return None
    numbers = [column.numbers[column.present].tolist() for column in columns]
    means = [math.fsum(each) / len(each) for each in numbers if each]
    # the second rounding takes off digits that the multiplication adds and exports would show
    value = round(100.0 * round(math.fsum(means) / len(means), 4), 2) if means else None
    return Cell(value=value, n=int(scores.present.sum()), missing=scores.missing)


def _count(score: str, frame: ScoreFrame, *, is_per_sample: bool) -> Cell | None:
    column = frame.select(metric=score)
    numbers = column.numbers[column.present]
    value = float((numbers > 0).sum() if is_per_sample else numbers.sum())
    return Cell(value=value, n=len(numbers), missing=column.missing) if len(column) else None


def _odd_samples(frame: ScoreFrame) -> Table:
    rows: dict[str, dict[str, Cell]] = {}
    for score in ODDITIES:
        column = frame.select(metric=score)
        for sample, value in zip(column.samples, column.values, strict=True):
            if value:
                rows.setdefault(sample, {})[score] = Cell(value=value)
    return Table(
        name="fault_samples",
        title="The samples whose judgements are odd",
        columns=tuple(ODDITIES),
        rows=rows,
        notes=tuple(f"{score}: {label}." for score, label in ODDITIES.items()),
        digits=0,
        detail=True,
    )
