"""MT-Bench-101 (Bai et al., 2024): 13 multi-turn tasks, every answer rated 1 to 10 by a judge.

A sample is one dialogue. Its history holds the dataset's own answers (`golden`) or the model's
(`self`). A task is the mean of its dialogues, everything above the plain mean of its tasks (paper,
section 4.2). The authors' own reading of the same judgements has columns of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from statistics import fmean
from typing import Literal, NamedTuple

from pydantic import Field, model_validator

from judges import Judge, Slot
from judges.parsers.mtbench101 import bracketed_rating, first_bracketed_integer, is_out_of_range
from mmconv.benchmarks.base.benchmark import Benchmark
from mmconv.benchmarks.base.judges import CANDIDATE_AND_JUDGE
from mmconv.benchmarks.base.layouts import Build, Layout
from mmconv.benchmarks.base.metrics import (
    Delta,
    Group,
    Mean,
    MeanOf,
    Metric,
    Official,
    Select,
)
from mmconv.benchmarks.base.results import Result, Results, reduce_scores
from mmconv.benchmarks.base.sample import Fields, Sample
from mmconv.benchmarks.options import ChatOptions, Condition, Display, Ratings
from mmconv.core.turns import Turn, chain
from mmconv.core.types import UNPARSED, Axis, Call, Cell, Part, Ref, Sampling, Score, Table, Text
from mmconv.stats import Column, Kind, ScoreFrame

LOWEST, HIGHEST = 1, 10


class Task(NamedTuple):
    """A task of the paper's Figure 2; turns before `first` are history only (Appendix C)."""

    name: str
    ability: str
    group: str
    first: int


TASKS = {
    "CM": Task("context memory", "memory", "perceptivity", 2),
    "SI": Task("separate input", "understanding", "perceptivity", 1),
    "AR": Task("anaphora resolution", "understanding", "perceptivity", 2),
    "TS": Task("topic shift", "interference", "perceptivity", 1),
    "CC": Task("content confusion", "interference", "perceptivity", 1),
    "CR": Task("content rephrasing", "rephrasing", "adaptability", 2),
    "FR": Task("format rephrasing", "rephrasing", "adaptability", 2),
    "SC": Task("self-correction", "reflection", "adaptability", 2),
    "SA": Task("self-affirmation", "reflection", "adaptability", 2),
    "MR": Task("mathematical reasoning", "reasoning", "adaptability", 1),
    "GR": Task("general reasoning", "reasoning", "adaptability", 1),
    "IC": Task("instruction clarification", "questioning", "interactivity", 1),
    "PI": Task("proactive interaction", "questioning", "interactivity", 1),
}
REFERENCED = ("MR", "GR")
"""The tasks whose judge reads a reference solution (Figures 31 and 32)."""

AVERAGE = "average"
GROUPS = tuple(dict.fromkeys(task.group for task in TASKS.values()))
ABILITIES = tuple(dict.fromkeys(task.ability for task in TASKS.values()))
MEANS: dict[str, tuple[str, ...]] = {AVERAGE: tuple(TASKS)} | {
    tier: tuple(code for code, task in TASKS.items() if tier in (task.group, task.ability))
    for tier in (*GROUPS, *ABILITIES)
}
"""The means over tasks: the average, the groups, the abilities."""
MEANINGS = {code: task.name for code, task in TASKS.items()}
MEANINGS |= {name: f"mean of {', '.join(codes)}" for name, codes in MEANS.items()}
MEANINGS[AVERAGE] = "mean of all tasks"


class Exchange(Fields):
    """One turn as published: what the user says, and the golden answer."""

    user: str
    bot: str


class Dialogue(Sample):
    """One line of the authors' mtbench101.jsonl."""

    task: Literal[tuple(TASKS)]  # type: ignore[valid-type]
    history: tuple[Exchange, ...]

    @model_validator(mode="after")
    def _has_a_judged_turn(self) -> Dialogue:
        if not self.judged:
            turns, first = len(self.history), TASKS[self.task].first
            raise ValueError(f"history has {turns} turns, {self.task} is judged from {first} on")
        return self

    @property
    def judged(self) -> Sequence[int]:
        """The turns that are generated and judged, counted from 1."""
        return range(TASKS[self.task].first, len(self.history) + 1)


class MTBench101Options(ChatOptions):
    """The paper's Table 5 studies `guidelines` and `minimum`."""

    guidelines: bool = True
    """Whether the judge's prompt holds the scoring guidelines."""
    minimum: bool = True
    """Whether a dialogue's score is the minimum of its turns, or their mean."""
    reference: Literal["answer", "messages"] = "answer"
    """What the judge of MR and GR reads: the golden answer of the turn, or all golden messages."""
    judge_max_tokens: int = Field(default=4096, gt=0)
    """The judge's longest reply in tokens, as in the authors' code."""
    max_tokens: int = Field(default=4096, gt=0)
    """The candidate's longest reply in tokens, as in the authors' code."""


AUTHORS_TITLE = "authors: first [n], unread turns dropped"
MEAN_TITLE, MINIMUM_TITLE = "mean of turns", "minimum of turns"
GOLDEN, SELF, HISTORIES = "golden", "self", "own history - golden"
ENDINGS = {GOLDEN: ("", ""), SELF: ("_self", ", self history")}
"""Condition -> how the names of its tables end, and the titles of its numbers."""

MOST_TURNS = 20  # histories are compared up to here; the authors' dialogues have at most 7 turns
OUT_OF_RANGE, NO_INTEGER = "out of range", "no [n]"
SAME, OTHER = "same as ours", "another number"
ONLY_AUTHORS, NEITHER = "read by the authors only", "not read"
"""The tag `reading` of an `authors` score: how it compares with our reading."""

CONVENTION = (
    "Our reading takes the last “Rating: [[n]]” with a whole n. A dialogue with an unscored turn "
    "is not scored. The authors take the first [n] anywhere, of any size, and drop unread turns "
    "before the minimum; only the average is rounded."
)
MEANS_NOTE = (
    "Average, groups and abilities are plain means of the tasks that were judged. They have no "
    "interval if one of these tasks has none."
)

_group = partial(Group, lowest=LOWEST, highest=HIGHEST)


class MTBench101(Benchmark[Dialogue, MTBench101Options]):
    """The benchmark. Scores: `rating` and `authors` per turn, `dialogue` for the whole (turn 0)."""

    name, title = "mtbench101", "MT-Bench-101"
    conditions = (
        Condition(GOLDEN, "The history holds the dataset's own answers."),
        Condition(SELF, "The history holds the candidate's answers (Figure 6)."),
    )
    default_conditions = (GOLDEN,)
    roles = CANDIDATE_AND_JUDGE
    prompts = "mtbench101"
    scale = dict.fromkeys(("rating", "dialogue"), (float(LOWEST), float(HIGHEST)))
    display = Display(
        labels={
            GOLDEN: "golden history",
            SELF: "self history",
            "rating": "rating of a turn",
            "authors": "rating, the authors' reading",
            "dialogue": "score of the dialogue",
        },
        ratings=(Ratings(metric="rating", lowest=LOWEST, highest=HIGHEST),),
    )
    judging = frozenset({"guidelines", "reference", "judge_retries", "judge_max_tokens"})

    def tags(self, sample: Dialogue, turn: int | None) -> dict[str, str]:
        """Task, ability and group, by which tables are split."""
        task = TASKS[sample.task]
        return {"task": sample.task, "ability": task.ability, "group": task.group}

    def references(self, sample: Dialogue, condition: str) -> dict[str, str]:
        """The answers of the golden history to the judged turns."""
        return {f"turn_{n}": sample.history[n - 1].bot for n in sample.judged}

    def metadata(self, sample: Dialogue) -> dict[str, str]:
        """The answers of the golden history, by turn."""
        return {f"golden answer {n}": each.bot for n, each in enumerate(sample.history, start=1)}

    def data_table(self) -> Table:
        """The statistics of the paper's Table 6; golden answers count among the words."""
        tasks = {task: [each for each in self.load() if each.task == task] for task in TASKS}
        tasks["all"] = [*self.load()]
        rows = {task: _statistics(each) for task, each in tasks.items() if each}
        return Table.of("data", "The data by task (paper, Table 6)", rows)

    def remarks(self) -> Iterator[str]:
        """What differs from the paper's setting."""
        if len(self.conditions) > 1:
            yield "Where no history is named, it is the golden one."
        if [*self.conditions] == [SELF]:
            yield "The history is the candidate's own; the paper's results have the golden one."
        if not self.options.guidelines:
            yield "The judge was given no scoring guidelines."

    def plan(self, sample: Dialogue, condition: str) -> Iterator[Call]:
        """One request for each judged turn, and its judgement."""
        turns = [
            Turn(
                user=(Text(text=each.user),),
                answer=each.bot if condition == GOLDEN or n not in sample.judged else None,
                generate=n in sample.judged,
            )
            for n, each in enumerate(sample.history, start=1)
        ]
        sampling = Sampling(max_tokens=self.options.max_tokens)
        system = self.options.candidate_system
        yield from chain(turns, model="candidate", sampling=sampling, system=system)
        history: tuple[Part, ...] = ()
        for n, (each, turn) in enumerate(zip(sample.history, turns, strict=True), start=1):
            if n in sample.judged:
                yield self._judgement(sample, n, history)
            answer = Ref(call=f"turn_{n}") if turn.answer is None else turn.answer
            history = self._text("turn", history=history, user=each.user, answer=answer)

    def _judgement(self, sample: Dialogue, n: int, history: tuple[Part, ...]) -> Call:
        """The judge reads what the candidate saw, its answer, and for MR and GR a reference."""
        prompt = "judge"
        slots: dict[str, Slot] = {
            "criteria": self._text(f"criteria_{sample.task}"),
            "history": history,
            "question": sample.history[n - 1].user,
            "answer": Ref(call=f"turn_{n}"),
        }
        if sample.task in REFERENCED:
            prompt += "_with_reference"
            slots["reference"] = self._reference(sample, n)
        if self.options.guidelines:
            slots["guidelines"] = self._text(f"guidelines_{sample.task}")
        else:
            prompt += "_without_guidelines"
        options = self.options
        sampling = Sampling(max_tokens=options.judge_max_tokens)
        judge = Judge(parser=bracketed_rating, sampling=sampling, retries=options.judge_retries)
        return judge.call(f"judge/turn_{n}", self.prompt(prompt), slots)

    def _text(self, name: str, **slots: Slot) -> tuple[Part, ...]:
        [message] = self.prompt(name).fill(slots)
        return message.parts

    def _reference(self, sample: Dialogue, n: int) -> str:
        if self.options.reference == "answer":
            return sample.history[n - 1].bot
        messages = []
        for each in sample.history[:n]:
            messages.append({"role": "user", "content": each.user})
            messages.append({"role": "assistant", "content": each.bot})
        return repr(messages)

    def score(self, sample: Dialogue, results: Results) -> Iterator[Score]:
        """Each turn by our reading and the authors', then the dialogue."""
        ratings = []
        for n in sample.judged:
            judgement = results[f"judge/turn_{n}"]
            rating, text = judgement.score("rating", turn=n), judgement.text
            if rating.value is None and text is not None and is_out_of_range(text):
                rating = replace(rating, why=OUT_OF_RANGE)
            ratings.append(rating)
            yield rating
            yield authors_rating(judgement, n, ours=rating.value)
        yield reduce_scores(results, "dialogue", ratings, "min" if self.options.minimum else "mean")

    def metrics(self) -> Iterator[Metric]:
        """Tasks and their means by three readings; turns; what the history changes."""
        for condition, (_, after) in ENDINGS.items():
            if self.options.minimum:
                dialogues = Select("dialogue", condition=condition, reduce="rows")
                yield from _means(dialogues, f"{MINIMUM_TITLE}{after}")
            yield from _means(Select("rating", condition=condition), f"{MEAN_TITLE}{after}")
            group = Group(title=f"{AUTHORS_TITLE}{after}")
            for name in (*MEANS, *TASKS):
                digits = 2 if name == AVERAGE else None  # they round nothing else
                compute = partial(authors_score, name=name, condition=condition, digits=digits)
                yield Official(name, compute=compute, group=group, meaning=MEANINGS[name])
        ratings = Select("rating", reduce="rows")
        yield Mean("rating", of=ratings, group=_group(title="rating"), table="turns", compare=None)
        yield _history_effect(HISTORIES, Select("rating"), table="histories")
        for task, turn in product(TASKS, range(1, MOST_TURNS + 1)):
            ratings = Select("rating", turn=turn, where={"task": task})
            yield _history_effect(f"{task}, turn {turn}", ratings)

    @property
    def _title(self) -> str:
        return MINIMUM_TITLE if self.options.minimum else MEAN_TITLE

    def layouts(self) -> Iterator[Layout | Build]:
        """Scores, the paper's Table 3 and Figures 4 and 6, unscored turns, endings."""
        yield Layout(
            "scores",
            "MT-Bench-101 scores of {candidate} (1-10), judged by {judge}",
            notes=(CONVENTION, MEANS_NOTE),
        )
        readings = {"paper": self._title, "paper_authors": AUTHORS_TITLE}
        for (suffix, after), (name, reading) in product(ENDINGS.values(), readings.items()):
            title = f"{reading}{after}"
            yield Layout(
                f"{name}{suffix}",
                f"The paper's layout, {title}",
                of="scores",
                rows="candidate",
                columns="name",
                names=(AVERAGE, *TASKS),
                groups=(title,),
                notes=(CONVENTION,),
                detail=True,
            )
        axis = Axis(title="turn")
        by_turn = partial(Layout, columns={"turn": None}, column_label="turn {turn}", axis=axis)
        turns = by_turn("turns", "Mean rating by turn", of="turns", row_label="{task}")
        yield from _by_history(turns)
        yield by_turn(
            "histories",
            "What the candidate's own history changes, against the golden one",
            rows={"task": tuple(TASKS)},
            row_label="{task}",
            notes=("Differences are paired by dialogue.",),
        )
        yield _unscored
        title = "How the answers of {candidate} ended"
        answers = Layout("answers", title, of="answers", columns="name", row_label="{task}")
        yield from _by_history(answers)

    def leaderboard(self) -> Iterator[Layout]:
        """The groups and the abilities, for each history."""
        for suffix, after in ENDINGS.values():
            name, title = suffix.removeprefix("_"), f"{self._title}{after}"
            board = partial(Layout, of="scores", groups=(title,), rank=AVERAGE)
            yield board(name, f"MT-Bench-101 (1-10), {title}", names=(AVERAGE, *GROUPS))
            heading = f"MT-Bench-101 (1-10) by ability, {title}"
            yield board(f"{name}_abilities", heading, names=ABILITIES)


def _statistics(dialogues: Sequence[Dialogue]) -> dict[str, Cell]:
    words = [[len(f"{turn.user} {turn.bot}".split()) for turn in one.history] for one in dialogues]
    totals = [sum(turns) for turns in words]
    count = sum(map(len, words))
    return {
        "dialogues": Cell(value=str(len(dialogues))),
        "turns": Cell(value=str(count)),
        "judged turns": Cell(value=str(sum(len(dialogue.judged) for dialogue in dialogues))),
        "turns/dialogue": Cell(value=count / len(dialogues)),
        "words/dialogue": Cell(value=sum(totals) / len(dialogues)),
        "words/turn": Cell(value=sum(totals) / count),
        "max words/dialogue": Cell(value=str(max(totals))),
        "max words/turn": Cell(value=str(max(map(max, words)))),
    }


def authors_rating(judgement: Result, turn: int, *, ours: float | None) -> Score:
    """The authors' reading of the first reply; they request nothing again."""
    value, reading = None, NEITHER
    verdict, reason = judgement.read_first(first_bracketed_integer, NO_INTEGER)
    if verdict is not None:
        value = verdict.scores["rating"]
        reading = ONLY_AUTHORS if ours is None else SAME if value == ours else OTHER
    return judgement.results.score("authors", value, reason, turn=turn, reading=reading)


def _means(select: Select, title: str) -> Iterator[Metric]:
    group = _group(title=title)
    tasks = {
        code: Mean(code, of=replace(select, where={"task": code}), group=group, meaning=task.name)
        for code, task in TASKS.items()
    }
    for name, codes in MEANS.items():
        of = [tasks[code] for code in codes]
        yield MeanOf(name, of=of, group=group, meaning=MEANINGS[name])
    yield from tasks.values()


def _history_effect(name: str, ratings: Select, *, table: str = "") -> Delta:
    """What the candidate's own history changes, paired by dialogue (paper, Figure 6)."""
    golden, own = (
        Mean(name, of=replace(ratings, condition=condition), group=_group(title=condition))
        for condition in (GOLDEN, SELF)
    )
    compare: Kind | None = None if table else "change"
    group = _group(title=HISTORIES)
    return Delta(name, start=golden, goal=own, group=group, table=table, compare=compare)


def _by_history(layout: Layout) -> Iterator[Layout]:
    for condition, (suffix, after) in ENDINGS.items():
        rows = {"task": tuple(TASKS), "condition": (condition,)}
        name, title = f"{layout.name}{suffix}", f"{layout.title}{after}"
        yield replace(layout, name=name, title=title, rows=rows)


def authors_score(
    frame: ScoreFrame, name: str, condition: str, digits: int | None = None
) -> Cell | None:
    """A number by the authors' convention; None if no dialogue of its tasks was judged.

    Unread turns do not take part in a dialogue's minimum, unread dialogues in a task, unread tasks
    in a mean. Source: `get_final_results` in the authors' code.
    """
    authors = Select("authors", condition=condition, reduce="min", partial=True)
    tasks = [replace(authors, where={"task": each})(frame) for each in MEANS.get(name, (name,))]
    tasks = [dialogues for dialogues in tasks if len(dialogues)]
    if not tasks:
        return None
    means = [fmean(each.numbers[each.present].tolist()) for each in tasks if each.present.any()]
    mean = fmean(means) if means else None
    mean = mean if mean is None or digits is None else round(mean, digits)
    dialogues = Column.joined(tasks)
    return Cell(value=mean, n=int(dialogues.present.sum()), missing=dialogues.missing)


def _unscored(frame: ScoreFrame) -> Table:
    rows = {}
    for condition in frame.distinct("condition"):
        before = "" if condition == GOLDEN else f"{condition} history: "
        run = frame.only(condition=condition)
        judged = [task for task in TASKS if len(run.select(metric="rating", task=task))]
        for name, tasks in {**{task: [task] for task in judged}, "all": judged}.items():
            if tasks:
                rows[f"{before}{name}"] = _count_turns(run.only(task=tasks))
    return Table.of("unscored", "Turns scored and not scored", rows, digits=0)


def _count_turns(frame: ScoreFrame) -> dict[str, Cell]:
    ratings, authors = frame.select(metric="rating"), frame.only(metric="authors")
    reasons = Counter({UNPARSED: 0, OUT_OF_RANGE: 0})
    for why, number in ratings.missing.items():
        # other tables list "failed: timeout" and "skipped: turn_2" one by one
        reasons[why.partition(":")[0]] += number
    numbers = [number for number in authors.select().values if number is not None]
    counts = {
        "turns": len(ratings),
        "scored": int(ratings.present.sum()),
        **reasons,
        "authors: dropped": len(authors.select(reading=NEITHER)),
        "authors: outside 1-10": sum(not LOWEST <= number <= HIGHEST for number in numbers),
        "authors: another number than ours": len(authors.select(reading=OTHER)),
        "authors: read, and not by us": len(authors.select(reading=ONLY_AUTHORS)),
    }
    return {name: Cell(value=float(count)) for name, count in counts.items()}
