"""An audit: a benchmark whose candidate is a judge.

It wraps another benchmark, takes that one's plan, and puts answers in place of the candidate's that
are known to be right or wrong. So the judge's prompts, parsers and content keys are those of an
ordinary run. What a benchmark declares decides which controls there are: `references`, scores with
a `scale`, the tag `side` of comparisons, judges that read several answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from judges import PromptSet
from mmconv.benchmarks.audit.metrics import (
    CONTROLS,
    LONGER,
    OPPOSITE,
    PARAPHRASE,
    REPEAT,
    REWRITTEN,
    RIGHT,
    SECOND,
    Measured,
    are_right,
    describe_state,
    lengthen,
    measure_judge,
)
from mmconv.benchmarks.audit.trust import layouts
from mmconv.benchmarks.base.benchmark import Benchmark
from mmconv.benchmarks.base.dataset import Dataset
from mmconv.benchmarks.base.layouts import Build, Layout
from mmconv.benchmarks.base.metrics import Metric
from mmconv.benchmarks.base.results import Results, ends_of
from mmconv.benchmarks.base.sample import Sample
from mmconv.benchmarks.options import ImageOptions, as_new
from mmconv.benchmarks.registry import find_class
from mmconv.core.config import CANDIDATE, REFERENCE, ModelSpec, RunSpec
from mmconv.core.errors import ConfigError
from mmconv.core.graph import change_parts
from mmconv.core.judges import JUDGE
from mmconv.core.protocols import ImageSink
from mmconv.core.turns import turn_of
from mmconv.core.types import (
    Call,
    Outcome,
    Part,
    Ref,
    Reply,
    Sampling,
    Score,
    Text,
    escape_json,
)
from mmconv.stats import ScoreFrame

PARAPHRASER = "paraphraser"
REPEATED = 500
"""What a repeated request adds to `trial`: more than retries, less than a run's trials."""

REFERENCES_ARE_EASY = (
    "The right answers are the references that the judge compares with: it may fail right answers "
    "in other words more often. --paraphraser MODEL measures that."
)


class AuditOptions(ImageOptions):
    """All other options are those of the benchmark `of`."""

    model_config = ConfigDict(extra="allow")

    data: Path | None = None  # type: ignore[assignment]
    of: str
    """The benchmark whose judge is audited."""


class Audit(Benchmark[Sample, AuditOptions]):
    """The benchmark. Scores are those of the audited one, with the tags `answer` and `before`.

    These say whether the judged answer and the one before it are right.
    """

    name, title = "audit", "known answers"
    conditions: tuple[str, ...] = CONTROLS
    prompts = "audit"
    roles = {  # noqa: RUF012 - a class variable of the base
        CANDIDATE: "The judge that is audited.",
        SECOND: "Another judge of the same answers.",
        PARAPHRASER: "Writes answers in other words, and in fewer.",
    }

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec.model_copy(update={"prompts": None}))
        self.spec = spec
        kind = find_class(self.options.of)
        if not (isinstance(kind, type) and issubclass(kind, Benchmark)):
            raise ConfigError(f"options.of: {self.options.of!r} is not a benchmark")
        models = {CANDIDATE: ModelSpec(provider="replay", model=REFERENCE)}
        models |= {JUDGE: spec.models[CANDIDATE]} if CANDIDATE in spec.models else {}
        fields = {
            "benchmark": self.options.of,
            "options": {name: value for name, value in spec.options.items() if name != "of"},
            "conditions": None,
            "models": models,
            "sampling": {},
        }
        if kind.references is Benchmark.references:
            raise ConfigError(f"{kind.name} has no references, so no answer is known to be right")
        self.inner: Benchmark[Any, Any] = kind(as_new(spec.model_copy(update=fields)))
        self.condition = self.inner.conditions[0]

    # --- data ----------------------------------------------------------------------------------

    def load_data(self, images: ImageSink) -> None:
        """Read the data of the audited benchmark, and leave out controls that it does not allow."""
        self.inner.load_data(images)
        if self.inner.scale is None:
            raise ConfigError(f"{self.inner.name} declares no `scale`, so no verdict has failed")
        super().load_data(images)
        missing = {
            **dict.fromkeys(REWRITTEN, PARAPHRASER not in self.spec.models),
            SECOND: SECOND not in self.spec.models,
            OPPOSITE: not any(self._reads_several(sample) for sample in self.load()),
        }
        for control, role in (*product(REWRITTEN, [PARAPHRASER]), (SECOND, SECOND)):
            if missing[control] and control in (self.spec.conditions or ()):
                raise ConfigError(f"the control {control!r} needs a model: name a {role}")
        self.conditions = tuple(each for each in self.conditions if not missing.get(each))

    def read_data(self, images: ImageSink) -> Dataset[Sample]:
        """The samples with references for all answers."""
        dataset = self.inner.dataset
        # the right answers of each sample by call
        self._right = {sample.id: self._find_references(sample) for sample in dataset.samples}
        samples = tuple(sample for sample in dataset.samples if self._right[sample.id])
        if not samples:
            raise ConfigError(f"{self.options.data}: no sample has references for all answers")
        self._donors = self._group(samples)
        return replace(dataset, samples=samples)

    def _find_references(self, sample: Sample) -> Mapping[str, str]:
        """The references of all answers of the sample by call; none if one is missing."""
        references = self.inner.references(sample, self.condition)
        calls = [each.id for each in self.inner.plan(sample, self.condition) if _is_answer(each)]
        known = {call: references[call] for call in calls if call in references}
        return known if len(known) == len(calls) else {}

    def _group(self, samples: Iterable[Sample]) -> Mapping[Any, list[tuple[str, str]]]:
        """The references of all samples by their call alone, and by call and category."""
        groups: defaultdict[Any, list[tuple[str, str]]] = defaultdict(list)
        for sample in samples:
            for call, text in self._right[sample.id].items():
                for key in (call, self._category(sample, call)):
                    groups[key].append((sample.id, text))
        return groups

    def _category(self, sample: Sample, call: str) -> tuple[Any, ...]:
        return call, *sorted(self.inner.tags(sample, turn_of(call)).items())

    def _mistakes(self, sample: Sample) -> dict[str, str]:
        """Wrong answers: the benchmark's own, or references of the next sample of the category."""
        known = self.inner.mistakes(sample, self.condition)
        wrong = {}
        for call, right in self._right[sample.id].items():
            if call in known:
                wrong[call] = known[call]
                continue
            for key in (self._category(sample, call), call):
                if others := _others(self._donors[key], sample.id, right):
                    wrong[call] = others
                    break
            else:
                raise ConfigError(f"{call}: no other sample has another reference")
        return wrong

    def _reads_several(self, sample: Sample) -> bool:
        """Whether a judge of the sample reads more than one answer."""
        calls = [*self.inner.plan(sample, self.condition)]
        answers = {call.id for call in calls if _is_answer(call)}
        return any(len(answers & call.needs) > 1 for call in calls)

    @property
    def data_files(self) -> tuple[Path, ...]:
        """Those of the audited benchmark."""
        return self.inner.data_files

    @property
    def provenance(self) -> dict[str, Any]:
        """That of the audited benchmark, and the prompts of the paraphraser."""
        recorded = self.inner.provenance
        return {**recorded, "prompts": {**recorded["prompts"], **self.prompt_set.digests()}}

    @cached_property
    def prompt_set(self) -> PromptSet:
        """The prompts of the paraphraser; the audited benchmark has those of the judge."""
        return PromptSet(self.name, None)

    def remarks(self) -> Iterator[str]:
        """Those of the audited benchmark, and how easy the right answers are."""
        yield from self.inner.remarks()
        if PARAPHRASE not in self.conditions:
            yield REFERENCES_ARE_EASY

    def tags(self, sample: Sample, turn: int | None) -> Mapping[str, str]:
        """Those of the audited benchmark."""
        return self.inner.tags(sample, turn)

    def metadata(self, sample: Sample) -> Mapping[str, str]:
        """That of the audited benchmark."""
        return self.inner.metadata(sample)

    # --- plan and scores -----------------------------------------------------------------------

    def plan(self, sample: Sample, condition: str) -> Iterator[Call]:
        """The judgements of the audited benchmark, about answers that are known."""
        known = self._known(sample, condition)
        answers: dict[str, Text | Ref] = {call: Text(text=text) for call, text in known.items()}
        if condition in REWRITTEN:
            for call, text in known.items():
                rewritten = f"{condition}/{call}"
                messages = self.prompt(condition).fill({"text": text})
                answers[call] = Ref(call=rewritten)
                yield Call(
                    id=rewritten,
                    model=PARAPHRASER,
                    messages=messages,
                    sampling=Sampling(max_tokens=2048),
                )
        trial = REPEATED if condition == REPEAT else 0

        def given(call: Call) -> Call:
            """The judge's call with these answers in place of the candidate's."""
            return replace(
                call,
                model=SECOND if condition == SECOND else CANDIDATE,
                messages=change_parts(call.messages, partial(_answer, answers=answers)),
                sampling=replace(call.sampling, trial=call.sampling.trial + trial),
                compares=None,
            )

        calls = self.inner.plan(sample, self.condition)
        yield from (call.changed(given) for call in calls if not _is_answer(call))

    def _known(self, sample: Sample, control: str) -> dict[str, str]:
        """The answers of a control by call."""
        right = self._right[sample.id]
        wrong = {} if control in (RIGHT, PARAPHRASE) else self._mistakes(sample)
        states = zip(right, are_right(control, sample.id, len(right)), strict=True)
        known = {call: right[call] if is_right else wrong[call] for call, is_right in states}
        if control != LONGER:
            return known
        return {call: lengthen(text) for call, text in known.items()}

    def score(self, sample: Sample, results: Results) -> Iterator[Score]:
        """The scores that the audited benchmark makes of the verdicts."""
        control, right = results.condition, self._right[sample.id]
        states = dict(zip(right, are_right(control, sample.id, len(right)), strict=True))
        outcomes: dict[str, Outcome] = {**results.outcomes}
        if control in REWRITTEN:
            outcomes |= {call: outcomes[f"{control}/{call}"] for call in right}
        else:
            known = self._known(sample, control)
            outcomes |= {call: Reply(text=text) for call, text in known.items()}
        inner = self.inner.results(sample, self.condition, results.calls, outcomes)
        for score in self.inner.score(sample, inner):
            if ends_of(self.inner.scale, score.metric) is not None:
                tags = {**score.tags, **_describe_answer(score.turn, states)}
                yield replace(score, condition=control, tags=tags)

    def endings(self, results: Results) -> Iterator[Score]:
        """None: the answers are not a model's."""
        yield from ()

    # --- numbers -------------------------------------------------------------------------------

    def metrics_for(self, frame: ScoreFrame) -> list[Metric]:
        """The controls of each score that was made."""
        return [metric for each in self.measured(frame) for metric in measure_judge(each)]

    def measured(self, frame: ScoreFrame) -> Iterator[Measured]:
        """The scores that are audited: a judge's opinions."""
        for name in frame.distinct("metric"):
            ends, least = ends_of(self.inner.scale, name), self.inner.least_pass(name)
            if ends is not None and least is not None:
                yield Measured(
                    score=name,
                    title=self.inner.display.labels.get(name, name),
                    least=least,
                    ends=ends,
                    is_comparison=bool(len(frame.select(metric=name, side=("A", "B")))),
                )

    def layouts(self) -> Iterable[Layout | Build]:
        """Whether the judge can be trusted, and what moves its verdicts."""
        return layouts(self.inner.title or self.inner.name)


def _is_answer(call: Call) -> bool:
    return call.model == CANDIDATE


def _others(donors: list[tuple[str, str]], sample: str, right: str) -> str | None:
    """The next text of another sample after this one, if any differs from the right one."""
    place = next((at for at, (name, _) in enumerate(donors) if name == sample), 0)
    after = donors[place + 1 :] + donors[:place]
    return next((text for _, text in after if text.strip() != right.strip()), None)


def _describe_answer(turn: int | None, states: Mapping[str, bool]) -> dict[str, str]:
    """Whether the judged answer is right, and the one before it; turn 0 is about all answers."""
    by_turn = {turn_of(call): state for call, state in states.items()}
    if not turn or turn not in by_turn:
        return {"answer": describe_state([*states.values()])}
    tags = {"answer": describe_state([by_turn[turn]])}
    return tags | ({"before": describe_state([by_turn[turn - 1]])} if turn - 1 in by_turn else {})


def _answer(part: Part, answers: Mapping[str, Text | Ref]) -> Part:
    """The part, or the answer in its place."""
    if not isinstance(part, Ref) or part.call not in answers:
        return part
    answer = answers[part.call]
    if isinstance(answer, Ref):
        return replace(part, call=answer.call)
    return Text(text=escape_json(answer.text) if part.json_escaped else answer.text)
