"""ConvBench (Liu et al., 2024): one image and three progressive turns, each judged.

The three settings of the paper (section 4.1) differ in how many leading turns are the reference's:
none, perception, or perception and reasoning. So errors can be traced to the level that caused
them. A judge rates each turn and the whole conversation (direct), or chooses between the
candidate's conversation and the reference (pairwise).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from judges import Extraction, Judge, PromptSet, parsers
from mmconv.benchmarks.ablations.metrics import GIVEN
from mmconv.benchmarks.base.benchmark import Benchmark
from mmconv.benchmarks.base.dataset import Dataset
from mmconv.benchmarks.base.judges import CANDIDATE_AND_JUDGE
from mmconv.benchmarks.base.layouts import Build, Layout
from mmconv.benchmarks.base.metrics import Metric
from mmconv.benchmarks.base.results import Results
from mmconv.benchmarks.convbench.data import (
    CAPTION,
    REFERENCES,
    Row,
    Side,
    load_rows,
)
from mmconv.benchmarks.convbench.layouts import boards, corrected_attribution, layouts
from mmconv.benchmarks.convbench.metrics import Convention, constant_for, gradings, metrics
from mmconv.benchmarks.convbench.options import (
    ALONE,
    DISPLAY,
    SCALE,
    ConvBenchOptions,
    GradingName,
    own_turns,
)
from mmconv.benchmarks.options import Condition
from mmconv.core.errors import ConfigError, PlanError
from mmconv.core.protocols import ImageSink
from mmconv.core.turns import Turn, chain
from mmconv.core.types import Call, Ref, Sampling, Score, Table, Text, Verdict
from mmconv.stats import ScoreFrame
from mmconv.stats.corrections import Rate

Slots: TypeAlias = dict[str, str | Ref]

OVERALL = 0
"""The turn number of the whole conversation."""

OFFLINE_JUDGES = {
    "reference": "The judge is an offline overlap measure: not comparable with judgements by "
    "an LLM.",
}
"""The providers of judges that are not models and share prompt files of their own."""

# what stands in a judge's prompt for text that does not exist; sent to judges to the byte
NOT_ASKED = "(not asked: the instruction of another turn was given on its own)"
NOT_JUDGED = "(not judged: in this setting the turn is the human reference)"
CUT_OFF_HERE = "\n(here the judgement was cut off)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One judgement: in which grading, of which turn (0: the conversation).

    `side` is where the candidate's conversation is in pairwise grading, None in direct.
    """

    grading: GradingName
    turn: int
    side: Side | None = None

    @property
    def call(self) -> str:
        """The id of its call: `direct/turn_2`, `pairwise_A/overall`."""
        prefix = self.grading if self.side is None else f"{self.grading}_{self.side}"
        return f"{prefix}/overall" if self.turn == OVERALL else f"{prefix}/turn_{self.turn}"

    def value(self, verdict: Verdict) -> float:
        """The rating; of a comparison 1 if the judge chose the candidate's side, else 0."""
        if self.side is None:
            return verdict.scores["rating"]
        return float(verdict.label == self.side)

    def score(self, results: Results) -> Score:
        """The score `rating` or `win`, with the tag `side`."""
        result = results[self.call]
        return results.score(
            "rating" if self.side is None else "win",
            None if result.verdict is None else self.value(result.verdict),
            result.reason,
            turn=self.turn,
            **({} if self.side is None else {"side": self.side}),
        )


ONE_ORDER = (
    "ONE ORDER: each pair was judged with the candidate on one side only. Judges favour a side; "
    "order: both measures that and averages it out."
)


class ConvBench(Benchmark[Row, ConvBenchOptions]):
    """The benchmark. Scores: `rating` (1-10) and `win` (0 or 1) by turn, 0 for the whole."""

    name, title = "convbench", "ConvBench"
    conditions = (
        Condition("free", "All three turns are the model's own."),
        Condition("perception", "Perfect perception: the first turn is the reference."),
        Condition(
            "reasoning", "Perfect perception and reasoning: the first two turns are the reference."
        ),
        Condition("reasoning_alone", "Only the second instruction is given (Appendix C.1)."),
        Condition("creation_alone", "Only the third instruction is given (Appendix C.1)."),
    )
    prompts = "convbench"
    roles = CANDIDATE_AND_JUDGE
    scale = SCALE
    unnamed = "free, perception, reasoning; free with generate_only"
    offline_judges = OFFLINE_JUDGES
    display = DISPLAY
    judging = frozenset(
        {"order", "side_seed", "focus_points", "turn_judgements", "skipped_turns", "extraction"}
        | {"judge_sees_image", "judge_retries", "judge_max_tokens", "failure_rating", "failure_win"}
    )

    @property
    def unnamed_conditions(self) -> tuple[str, ...]:
        """The paper's three settings; without a judge the free one."""
        return ("free",) if self.options.generate_only else tuple(GIVEN)

    # --- data ----------------------------------------------------------------------------------

    def read_data(self, images: ImageSink) -> Dataset[Row]:
        """The rows; a judge reads the caption and all three references.

        With `skip_bad_records`, rows that no judge could judge are left out even without a judge:
        judgements that come later are of the same rows.
        """
        options = self.options
        given = max((GIVEN[name] for name in self.conditions if name not in ALONE), default=0)
        judged = (CAPTION, *REFERENCES)
        return load_rows(
            options,
            self.spec,
            images,
            needs=REFERENCES[:given] if options.generate_only else judged,
            needs_if_any=judged if options.skip_bad_records else (),
        )

    @property
    def data_files(self) -> tuple[Path, ...]:
        """The data, the annotations and the positions."""
        options = self.options
        return tuple(filter(None, (options.data, options.annotations, options.positions)))

    @property
    def provenance(self) -> dict[str, Any]:
        """Also how many rows there are and how many of them are drafts."""
        rows = self.dataset.samples
        return {**super().provenance, "rows": len(rows), "drafts": sum(row.draft for row in rows)}

    def remarks(self) -> Iterator[str]:
        """Offline judges, drafts, missing focus points, unused annotations."""
        rows = self.dataset.samples
        yield from super().remarks()
        if drafts := sum(row.draft for row in rows):
            are = "is a draft" if drafts == 1 else "are drafts"
            yield f"{drafts} of {len(rows)} rows {are} that no person has verified."
        missing = sum(not row.focus_points for row in rows)
        if missing and self.options.focus_points and not self.options.generate_only:
            yield (
                f"{missing} of {len(rows)} rows without focus points: their creation turns are "
                "judged without them."
            )
        for place, problems in [*self.dataset.other_problems.items()][:1]:
            count = len(self.dataset.other_problems)
            yield f"Unused annotations and columns: {count}, e.g. {place}: {problems[0]}."
        options = self.options
        if "pairwise" in options.grading and options.order != "both" and not options.generate_only:
            yield ONE_ORDER
        if options.positions and options.order != "authors":
            yield "The file of sides (positions) was not used: only order: authors reads it."

    def tags(self, sample: Row, turn: int | None) -> dict[str, str]:
        """The category of the turn, if it has one."""
        category = sample.categories[turn - 1] if turn else None
        return {} if category is None else {"category": category}

    def references(self, sample: Row, condition: str) -> dict[str, str]:
        """The human's answers to the turns that the candidate answers itself."""
        turns = own_turns(condition)
        return {f"turn_{n}": text for n in turns if (text := sample.references[n - 1]) is not None}

    def least_pass(self, score: str) -> float | None:
        """The threshold of failures, which the options set."""
        thresholds = {"rating": self.options.failure_rating, "win": self.options.failure_win}
        return thresholds.get(score)

    def metadata(self, sample: Row) -> dict[str, str]:
        """The caption, the references and the focus points, as far as there are any."""
        names = ("caption", "perception", "reasoning", "creation", "focus points")
        texts = (sample.caption, *sample.references, sample.focus_points)
        return {name: text for name, text in zip(names, texts, strict=True) if text}

    # --- plan ----------------------------------------------------------------------------------

    def plan(self, sample: Row, condition: str) -> Iterator[Call]:
        """The candidate's own turns under the condition, and their judgements."""
        sampling = Sampling(max_tokens=self.options.max_tokens)
        system = self.options.candidate_system
        if condition in ALONE:
            first = ALONE[condition]
            instruction = Text(text=sample.instructions[first - 1])
            turns = [Turn(user=(sample.image, instruction))]
        else:
            first, given = 1, GIVEN[condition]
            turns = [
                Turn(
                    user=(sample.image, Text(text=text)) if n == 1 else (Text(text=text),),
                    answer=reference(sample, n) if n <= given else None,
                    generate=n > given,
                )
                for n, text in enumerate(sample.instructions, start=1)
            ]
        yield from chain(turns, model="candidate", sampling=sampling, system=system, first=first)
        if self.options.generate_only:
            return
        for judgement in self.judgements(sample, condition):
            name, slots = self._fill(sample, condition, judgement)
            yield self._judges[judgement.grading].call(
                judgement.call, self.prompt(name), slots, picture=sample.image
            )

    def judgements(self, sample: Row, condition: str) -> Iterator[Judgement]:
        """What is judged: the candidate's own turns and, unless it has only one, the whole."""
        own = own_turns(condition)
        turns = own if condition in ALONE else (*own, OVERALL)
        if "direct" in self.options.grading:
            yield from (Judgement(grading="direct", turn=turn) for turn in turns)
        if "pairwise" in self.options.grading:
            for side in self.sides(sample):
                yield from (Judgement(grading="pairwise", turn=turn, side=side) for turn in turns)

    def sides(self, sample: Row) -> tuple[Side, ...]:
        """The sides on which the candidate's conversation is shown."""
        if self.options.order == "both":
            return ("A", "B")
        if sample.position is not None:
            return (sample.position,)
        if self.options.order == "random":
            digest = hashlib.sha256(f"{self.options.side_seed}/{sample.id}".encode()).digest()
            return ("A",) if digest[0] % 2 == 0 else ("B",)
        raise PlanError(f"row {sample.id} has no position in the authors' file")

    @cached_property
    def prompt_set(self) -> PromptSet:
        """An offline judge has prompt files of its own."""
        if self.is_offline and self.spec.prompts is not None:
            raise ConfigError("an offline judge has prompt files of its own; leave out --prompts")
        return PromptSet("convbench_reference", None) if self.is_offline else super().prompt_set

    @cached_property
    def _judges(self) -> dict[GradingName, Judge]:
        return build_judges(self.options, self.prompt_set, offline=self.is_offline)

    def _fill(self, sample: Row, condition: str, judgement: Judgement) -> tuple[str, Slots]:
        """The prompt of a judgement, and what fills its slots.

        Every judge reads the caption, all instructions and both whole conversations; that of the
        creation turn also the focus points, the overall one the judgements of the turns (paper,
        sections 4.1 to 4.3).
        """
        if sample.caption is None:
            raise PlanError(f"row {sample.id} has no caption, and judges see nothing else")
        slots: Slots = {"caption": sample.caption}
        names = {None: ("answer", "reference"), "A": ("a", "b"), "B": ("b", "a")}
        model, human = names[judgement.side]
        for n, instruction in enumerate(sample.instructions, start=1):
            slots[f"instruction_{n}"] = instruction
            slots[f"{model}_{n}"] = _answer(sample, condition, n)
            slots[f"{human}_{n}"] = reference(sample, n)
        name = f"{judgement.grading}_turn_{judgement.turn}"
        if judgement.turn == OVERALL:
            name = f"{judgement.grading}_overall"
            if not self.options.turn_judgements:
                return f"{name}_without_judgements", slots
            return name, slots | self._turn_judgements(condition, judgement)
        if judgement.turn < 3:
            return name, slots
        if not (self.options.focus_points and sample.focus_points):
            return f"{name}_without_focus_points", slots
        return name, {**slots, "focus_points": sample.focus_points}

    def _turn_judgements(self, condition: str, overall: Judgement) -> Slots:
        """What the overall judge reads of the turns, or what stands for skipped ones.

        It is the judge's first reply, as in the authors' code, even if only a later one could be
        read as a verdict. If it was cut off, the prompt says so.
        """
        own = own_turns(condition)
        return {
            f"judgement_{turn}": Ref(call=replace(overall, turn=turn).call, cut_off=CUT_OFF_HERE)
            if turn in own
            else self._skipped(overall)
            for turn in (1, 2, 3)
        }

    def _skipped(self, overall: Judgement) -> str:
        if self.options.skipped_turns == "none" or overall.side is None:
            return NOT_JUDGED
        human = "B" if overall.side == "A" else "A"
        [message] = self.prompt("pairwise_skipped_turn").fill({"human": human})
        return message.text

    # --- scores and tables ---------------------------------------------------------------------

    def score(self, sample: Row, results: Results) -> Iterator[Score]:
        """The rating or win of each judgement."""
        for judgement in self.judgements(sample, results.condition):
            yield judgement.score(results)

    def metrics(self) -> Iterator[Metric]:
        """See `mmconv.benchmarks.convbench.metrics`."""
        return metrics(self.options, self._convention)

    def layouts(self) -> Iterable[Layout | Build]:
        """See `mmconv.benchmarks.convbench.layouts`."""
        return layouts(self.options, self._convention)

    def corrected(
        self, frame: ScoreFrame, fails_right: Callable[[str, int], Rate | None]
    ) -> Iterable[Table]:
        """The attribution of failures."""
        return corrected_attribution(gradings(self.options), frame, fails_right)

    def leaderboard(self) -> Iterable[Layout]:
        """Scores, deltas and attribution for each grading."""
        return boards()

    @property
    def _convention(self) -> Convention | None:
        """What the authors' win rates are over; None without the dataset."""
        if not hasattr(self, "dataset"):
            return None
        dataset = self.dataset
        rows = len(dataset.samples) + dataset.beyond + dataset.choice.passed_over
        left_out = len(dataset.bad)
        return Convention(
            denominator=self.options.denominator or constant_for(rows + left_out),
            rows=rows,
            samples=len(dataset.samples),
            orders=2 if self.options.order == "both" else 1,
            trials=self.spec.trials,
            left_out=left_out,
        )


def build_judges(
    options: ConvBenchOptions, prompts: PromptSet, *, offline: bool = False
) -> dict[GradingName, Judge]:
    """The judge of each grading; an offline one always gives a verdict and is not retried."""
    sampling = Sampling(max_tokens=options.judge_max_tokens)
    gradings: Mapping[GradingName, Any] = {
        "direct": (parsers.rating, parsers.extracted_rating),
        "pairwise": (parsers.choice, parsers.extracted_choice),
    }
    judges: dict[GradingName, Judge] = {}
    for grading, (parser, extracted) in gradings.items():
        extraction = None
        if options.extraction and not offline:
            extraction = Extraction(prompt=prompts[f"{grading}_extract"], parser=extracted)
        judges[grading] = Judge(
            parser=parser,
            sampling=sampling,
            retries=0 if offline else options.judge_retries,
            extraction=extraction,
            image=options.judge_sees_image,
        )
    return judges


def reference(row: Row, number: int) -> str:
    """The human's answer to turn `number` (1-3); loading has made sure that there is one."""
    text = row.references[number - 1]
    if text is None:
        raise PlanError(f"row {row.id} has no reference for turn {number}")
    return text


def _answer(row: Row, condition: str, number: int) -> str | Ref:
    """The candidate's side of turn `number`: its own answer, or what stands for it."""
    if number in own_turns(condition):
        return Ref(call=f"turn_{number}")
    return NOT_ASKED if condition in ALONE else reference(row, number)
