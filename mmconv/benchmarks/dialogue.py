"""A user's own dialogues: ConvBench's method on any number of turns, images and references.

Each dialogue is held once under each condition: freely, or with the references in place of the
first turns. A judge rates each turn and the whole, or compares them with the references. POST
/v1/dialogues is a run of this benchmark with one sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any, Literal, TypeAlias

from pydantic import Field

from judges import Judge, PromptSet
from judges.template import Slot
from mmconv.benchmarks.ablations.metrics import DELTAS, GIVEN, MEANINGS, QUANTITIES, ladder
from mmconv.benchmarks.base.benchmark import Benchmark
from mmconv.benchmarks.base.judges import CANDIDATE_AND_JUDGE
from mmconv.benchmarks.base.layouts import Build, Layout
from mmconv.benchmarks.base.metrics import Delta, Mean, Metric
from mmconv.benchmarks.base.results import Results
from mmconv.benchmarks.base.sample import Fields, ImageFiles, Sample
from mmconv.benchmarks.convbench.benchmark import OVERALL, ConvBench, Judgement, build_judges
from mmconv.benchmarks.convbench.data import Row, Side
from mmconv.benchmarks.convbench.layouts import REFERENCES_COUNT, attribution
from mmconv.benchmarks.convbench.metrics import DIRECT, PAIRWISE
from mmconv.benchmarks.convbench.options import SCALE, GradingName
from mmconv.benchmarks.options import ChatOptions, Condition, ImageOptions, Several
from mmconv.core.documents import Place
from mmconv.core.errors import ConfigError
from mmconv.core.turns import Turn, chain
from mmconv.core.types import Call, Part, Ref, Sampling, Score, Text

__all__ = [
    "CONVBENCH_TURNS",
    "OVERALL",
    "Dialogue",
    "DialogueOptions",
    "DialogueSample",
    "DialogueTurn",
    "GradingName",
    "Judgement",
    "condition_name",
    "count_given",
]

MOST_GIVEN = 16
"""The most leading turns that a condition of a run may give."""

CONVBENCH_TURNS = 3

Block: TypeAlias = tuple[Part, ...]
"""A piece of what a judge reads; each begins where the one before it ends."""


def condition_name(given: int) -> str:
    """The name of the condition in which so many leading turns are the reference's."""
    names = {number: name for name, number in GIVEN.items()}
    return names.get(given, f"given_{given}")


def count_given(condition: str) -> int:
    """How many leading turns are the reference's under the condition of this name."""
    return GIVEN[condition] if condition in GIVEN else int(condition.removeprefix("given_"))


def score_name(turn: int, given: int) -> str:
    """The name of a turn's score (0: the conversation), as in ConvBench's tables."""
    return f"S{turn}" + {0: "", 1: "_hat", 2: "_tilde"}.get(given, f"_given_{given}")


def _meaning(turn: int, given: int) -> str:
    what = "conversation" if turn == OVERALL else f"turn {turn}"
    turns = {0: "", 1: ", turn 1 given"}.get(given, f", turns 1-{given} given")
    return what + turns


_MEANINGS = {
    name: _meaning(turn, GIVEN[condition]) for name, (condition, turn) in QUANTITIES.items()
}


class DialogueTurn(Fields):
    """What the user says, the answer that counts as right, and what a good answer satisfies."""

    instruction: str
    reference: str | None = None
    focus_points: str | None = None
    images: ImageFiles = ()


class DialogueSample(Sample):
    """A dialogue; `caption` says what its images show, for a judge that does not see them."""

    turns: tuple[DialogueTurn, ...] = Field(min_length=1)
    caption: str | None = None

    def faults(self, options: DialogueOptions, given: int) -> Iterator[tuple[Place, str]]:
        """What is wrong for a run in which up to so many leading turns are the reference's.

        A place and a message each.
        """
        count = len(self.turns)
        if given >= count:
            condition = condition_name(given)
            yield ("turns",), f"the condition {condition} leaves none of {count} to the model"
        by_convbench = options.prompts == "convbench" and not options.generate_only
        reasons = ["a condition puts it in the model's place"] * given
        if by_convbench:
            reasons = ["ConvBench's prompts contain it"] * count
        elif "pairwise" in options.gradings and not options.generate_only:
            reasons = ["pairwise grading compares with it"] * count
        for place, (turn, reason) in enumerate(zip(self.turns, reasons, strict=False)):
            if turn.reference is None:
                yield ("turns", place, "reference"), f"needed: {reason}"
        if by_convbench:
            if count != CONVBENCH_TURNS:
                yield ("turns",), f"ConvBench's prompts judge {CONVBENCH_TURNS} turns"
            counts = [len(turn.images) for turn in self.turns]
            if counts[0] != 1 or any(counts[1:]):
                yield ("images",), "ConvBench's prompts judge a dialogue about one image, in turn 1"
            if self.caption is None:
                yield ("caption",), "ConvBench's prompts contain it"


class DialogueOptions(ChatOptions, ImageOptions):
    """`prompts: convbench` judges by ConvBench's own prompts.

    These know three turns, one image with turn 1, a caption and all references.
    """

    gradings: Several[GradingName] = ("direct",)
    """Ratings from 1 to 10, and comparisons with the references."""
    order: Literal["A", "B", "both"] = "both"
    """The candidate's side in comparisons, or both in turn."""
    prompts: Literal["dialogue", "convbench"] = "dialogue"
    """The prompts of the judge."""
    judge_sees_images: bool = False
    """Whether the judge is sent the images."""
    judge_max_tokens: int = Field(default=1024, gt=0)
    """The judge's longest reply, in tokens."""
    max_tokens: int = Field(default=1024, gt=0)
    """The candidate's longest reply, in tokens."""


class Dialogue(Benchmark[DialogueSample, DialogueOptions]):
    """The benchmark. Scores: `rating` and `win` by turn, 0 for the whole conversation."""

    name, title = "dialogue", "Dialogues"
    conditions = tuple(
        Condition(
            condition_name(given),
            f"The first {given} turns are the reference." if given else "Freely.",
        )
        for given in range(MOST_GIVEN + 1)
    )
    default_conditions = ("free",)
    prompts = "dialogue"
    roles = CANDIDATE_AND_JUDGE
    scale = SCALE
    offline_judges = ConvBench.offline_judges
    judging = frozenset(
        {"gradings", "order", "prompts", "judge_sees_images", "judge_retries", "judge_max_tokens"}
    )

    @classmethod
    def prompt_folder(cls, options: Mapping[str, Any]) -> str:
        """ConvBench's, if they judge."""
        # not any other text of a client's, as folders are found by it
        is_own = options.get("prompts") != "convbench"
        return super().prompt_folder(options) if is_own else "convbench"

    @cached_property
    def prompt_set(self) -> PromptSet:
        """ConvBench's, if they judge."""
        is_own = self.options.prompts != "convbench"
        return super().prompt_set if is_own else self._convbench.prompt_set

    def faults(self, sample: DialogueSample) -> Iterator[tuple[Place, str]]:
        """What the conditions and the judge need."""
        return sample.faults(self.options, max(map(count_given, self.conditions)))

    def references(self, sample: DialogueSample, condition: str) -> dict[str, str]:
        """The reference of each turn that has one."""
        return {f"turn_{n}": turn.reference for n, turn in _numbered(sample) if turn.reference}

    def metadata(self, sample: DialogueSample) -> dict[str, str]:
        """The caption and the references."""
        references = {f"reference {n}": turn.reference for n, turn in _numbered(sample)}
        texts = {"caption": sample.caption, **references}
        return {name: text for name, text in texts.items() if text}

    def plan(self, sample: DialogueSample, condition: str) -> Iterator[Call]:
        """The candidate's own turns, and their judgements."""
        given = count_given(condition)
        turns = [
            Turn(
                user=(*turn.images, Text(text=turn.instruction)),
                answer=reference(sample, n) if n <= given else None,
                generate=n > given,
            )
            for n, turn in _numbered(sample)
        ]
        sampling = Sampling(max_tokens=self.options.max_tokens)
        system = self.options.candidate_system
        yield from chain(turns, model="candidate", sampling=sampling, system=system)
        if self.options.generate_only:
            return
        if self.options.prompts == "convbench":
            calls = self._convbench.plan(self._row(sample), condition)
            yield from (call for call in calls if call.model == "judge")
            return
        for judgement in self.judgements(sample, condition):
            name, material = self._material(sample, given, judgement)
            slots: dict[str, Slot] = {"material": material}
            if judgement.turn != OVERALL:
                slots["number"] = str(judgement.turn)
            judge = self._judges[judgement.grading]
            yield judge.call(judgement.call, self.prompt(name), slots)

    def judgements(self, sample: DialogueSample, condition: str) -> Iterator[Judgement]:
        """Each of the candidate's turns and, of several turns, the whole, in each grading."""
        count = len(sample.turns)
        turns = [*range(count_given(condition) + 1, count + 1), *([OVERALL] if count > 1 else [])]
        if "direct" in self.options.gradings:
            yield from (Judgement(grading="direct", turn=turn) for turn in turns)
        if "pairwise" in self.options.gradings:
            sides: tuple[Side, ...] = ("A", "B")
            for side in sides if self.options.order == "both" else (self.options.order,):
                yield from (Judgement(grading="pairwise", turn=turn, side=side) for turn in turns)

    def score(self, sample: DialogueSample, results: Results) -> Iterator[Score]:
        """The rating or win of each judgement."""
        for judgement in self.judgements(sample, results.condition):
            yield judgement.score(results)

    def metrics(self) -> Iterator[Metric]:
        """Scores of each turn under each condition, deltas, and the attribution of failures.

        Those that ConvBench has too have its names.
        """
        for grading in (DIRECT, PAIRWISE):
            yield from ladder(grading, MEANINGS | _MEANINGS)
            means: dict[int, dict[int, Mean]] = {}
            for condition in self.conditions:
                given = count_given(condition)
                for turn in (*range(given + 1, MOST_GIVEN + 1), OVERALL):
                    name = score_name(turn, given)
                    meaning = _meaning(turn, given)
                    of = grading.select(condition, turn)
                    mean = Mean(name, of=of, group=grading.group, meaning=meaning)
                    means.setdefault(given, {})[turn] = mean
                    if name not in QUANTITIES:
                        yield mean
            for start, goal in combinations(means, 2):
                for turn, mean in means[goal].items():
                    before = means[start][turn]
                    name = f"{mean.name} - {before.name}"
                    if name not in DELTAS:
                        yield Delta(name, start=before, goal=mean, group=grading.group)

    def layouts(self) -> Iterator[Layout | Build]:
        """Scores, deltas between conditions, attribution, and how the answers ended."""
        judged = [each for each in (DIRECT, PAIRWISE) if each.name in self.options.gradings]
        yield Layout("scores", "Scores of {candidate}, judged by {judge}")
        yield Layout(
            "deltas",
            "What given turns change",
            notes=("Deltas are paired per sample.", REFERENCES_COUNT),
        )
        yield from attribution(judged)
        yield Layout(
            "answers",
            "How the answers of {candidate} ended",
            rows={"condition": self.conditions, "turn": None},
            row_label="{condition}, turn {turn}",
            columns="name",
            detail=True,
        )

    def _row(self, sample: DialogueSample) -> Row:
        first, second, third = sample.turns
        return Row(
            id=sample.id,
            image=first.images[0],
            instructions=(first.instruction, second.instruction, third.instruction),
            caption=sample.caption,
            references=(first.reference, second.reference, third.reference),
            focus_points=third.focus_points,
            position=None if self.options.order == "both" else self.options.order,
        )

    @cached_property
    def _judges(self) -> Mapping[GradingName, Judge]:
        if self.is_offline:
            raise ConfigError("an offline judge needs ConvBench's prompts; set prompts: convbench")
        # ConvBench's prompts also extract unreadable verdicts
        return build_judges(self._convbench.options, self._convbench.prompt_set)

    @cached_property
    def _convbench(self) -> ConvBench:
        """ConvBench with these options, of which nothing is loaded."""
        options: dict[str, Any] = {
            "data": "unused",
            "images": "unused",
            "grading": list(self.options.gradings),
            "order": "both",
            "judge_sees_image": self.options.judge_sees_images
            and self.options.prompts == "convbench",
            "judge_retries": self.options.judge_retries,
            "judge_max_tokens": self.options.judge_max_tokens,
        }
        if self.options.order != "both":
            options |= {"order": "authors", "positions": "unused"}
        fields: dict[str, Any] = {"benchmark": "convbench", "options": options, "conditions": None}
        if self.options.prompts != "convbench":
            fields["prompts"] = None
        return ConvBench(self.spec.model_copy(update=fields))

    # --- what a judge reads --------------------------------------------------------------------

    def _material(
        self, sample: DialogueSample, given: int, judgement: Judgement
    ) -> tuple[str, Block]:
        count = len(sample.turns)
        turn = judgement.turn
        if judgement.side is not None:
            block = self._description(sample)
            for side in ("A", "B"):
                answers = _answers(sample, given if side == judgement.side else count)
                turns = self._conversation(sample, (), answers, turn)
                block = self._piece("side", {"before": block, "side": side, "turns": turns})
            if turn == OVERALL:
                return "pairwise_overall", block
            return "pairwise_turn", self._with_focus_points(sample, block, turn)
        block = self._conversation(sample, self._description(sample), _answers(sample, given), turn)
        if turn == OVERALL:
            if any(each.reference is None for each in sample.turns):
                return "direct_overall_without_references", block
            for number in range(1, count + 1):
                block = self._with_reference(sample, block, number)
            return "direct_overall", block
        if sample.turns[turn - 1].reference is None:
            block = self._with_focus_points(sample, block, turn)
            return "direct_turn_without_reference", block
        block = self._with_reference(sample, block, turn)
        return "direct_turn", self._with_focus_points(sample, block, turn)

    def _images(self, sample: DialogueSample, turn: int) -> Block:
        return sample.turns[turn - 1].images if self.options.judge_sees_images else ()

    def _description(self, sample: DialogueSample) -> Block:
        """The images that the judge sees first, and what the caption says of them."""
        images = self._images(sample, 1)
        if sample.caption is None:
            return images
        return self._piece("description", {"before": images, "caption": sample.caption})

    def _conversation(
        self, sample: DialogueSample, block: Block, answers: Sequence[str | Ref], turn: int
    ) -> Block:
        """The conversation up to the turn; all of it for the judge of the whole."""
        last = len(answers) if turn == OVERALL else turn
        for n, each in _numbered(sample):
            if n <= last:
                images = self._images(sample, n) if n > 1 else ()
                slots: dict[str, Slot] = {
                    "before": block,
                    "number": str(n),
                    "instruction": (*images, each.instruction),
                    "answer": answers[n - 1],
                }
                block = self._piece("turn", slots)
        return block

    def _with_reference(self, sample: DialogueSample, block: Block, number: int) -> Block:
        text = reference(sample, number)
        slots: dict[str, Slot] = {"before": block, "number": str(number), "reference": text}
        return self._piece("reference", slots)

    def _with_focus_points(self, sample: DialogueSample, block: Block, number: int) -> Block:
        points = sample.turns[number - 1].focus_points
        if points is None:
            return block
        slots: dict[str, Slot] = {"before": block, "number": str(number), "focus_points": points}
        return self._piece("focus_points", slots)

    def _piece(self, name: str, slots: Mapping[str, Slot]) -> Block:
        [message] = self.prompt(name).fill(slots)
        return message.parts


def reference(sample: DialogueSample, number: int) -> str:
    """The reference of turn `number`, counted from 1; `DialogueSample.faults` has seen it."""
    text = sample.turns[number - 1].reference
    assert text is not None
    return text


def _numbered(sample: DialogueSample) -> Iterator[tuple[int, DialogueTurn]]:
    return enumerate(sample.turns, start=1)


def _answers(sample: DialogueSample, given: int) -> list[str | Ref]:
    """Every turn's answer: the reference of the given ones, else a `Ref` to the call for it."""
    return [
        reference(sample, n) if n <= given else Ref(call=f"turn_{n}") for n, _ in _numbered(sample)
    ]
