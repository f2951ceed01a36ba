"""Rescoring: judgements from files through the parsers, scores and tables of a live run.

What the files hide is a table of its own, and notes where a file's own means are not those of its
judgements. Reading files is `published`'s part.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from judges.parsers.mtbench101 import bracketed_rating
from mmconv.benchmarks.layouts import Context
from mmconv.benchmarks.mtbench101.grading import judgement_call
from mmconv.benchmarks.mtbench101.known_dialogues import known_dialogues
from mmconv.benchmarks.mtbench101.metrics import AuthorsScore, build_tables
from mmconv.benchmarks.mtbench101.options import GOLDEN
from mmconv.benchmarks.mtbench101.published import Published, PublishedJudgement, read_published
from mmconv.benchmarks.mtbench101.scoring import (
    RATING,
    Judged,
    authors_rating,
    dialogue_score,
    turn_rating,
)
from mmconv.benchmarks.mtbench101.taxonomy import TASKS, Task
from mmconv.benchmarks.shared.rescore import Rescoring
from mmconv.core.types import Call, Cell, Reply, Score, Table
from mmconv.stats import ScoreFrame

MISSING = "not in the file"
REPEATED = "repeated"
HISTORY = "turns that are history only"
FAULTS = (
    "dialogues",
    "dialogues missing",
    "dialogues unknown",
    "judgements",
    "judgements missing",
    "judgements unknown",
    REPEATED,
    HISTORY,
)
"""What is counted of every task, by the name of its column."""

_NAMED = 5
"""How many unknown judgements of a model a note names."""
_CLOSE = 0.0005
"""Files state their average rounded to three digits."""


def rescore(files: Sequence[Path], *, skip_bad: bool = False) -> tuple[Table, ...]:
    """The tables of judgements in files, a model for each file or OpenCompass folder.

    Raises `DataError` for what is no judgement; `skip_bad` leaves it out. A turn that
    is absent is unscored if the authors' dialogue has it or if it lies before a judged one. Of a
    turn that is judged twice we read the first judgement; by the authors' convention all count, and
    those of turns that are history only.
    """
    rescoring = Rescoring(skip_bad=skip_bad)
    models = read_published(files, rescoring)
    frames = {model.name: ScoreFrame(_scores(model)) for model in models}
    one = models[0].name if len(models) == 1 else f"{len(models)} models"
    context = Context(candidate=one, judge="the judge of the files")
    faults = _faults(models, tuple(_differences(models, frames)))
    return rescoring.rescored((*build_tables(frames, {}, context), faults))


def _scores(model: Published) -> Iterator[Score]:
    dialogues = _by_dialogue(model)
    known = {
        code: known_dialogues(code, [dialogue for task, dialogue in dialogues if task == code])
        for code in TASKS
    }
    for (code, dialogue), turns in dialogues.items():
        task = TASKS[code]
        # files may count the dialogues of each task anew
        judged = Judged(sample=f"{code}/{dialogue}", task=task, condition=GOLDEN)
        ratings: list[Score] = []
        # of a dialogue that is none of the authors', nobody knows what a file lacks at its end
        last = known[code].get(dialogue, max(turns))
        for turn in sorted({*range(1, last + 1), *turns}):
            texts = turns.get(turn, [])
            ours = None
            if turn >= task.first:
                ratings.append(_rating(judged, turn, texts))
                yield ratings[-1]
                ours = ratings[-1].value
            yield from _authors(judged, turn, texts, ours)
        if ratings:
            yield dialogue_score(judged, ratings, minimum=True)


def _by_dialogue(model: Published) -> dict[tuple[str, str], dict[int, list[str]]]:
    """Task and dialogue -> turn -> its judgements."""
    found: dict[tuple[str, str], dict[int, list[str]]] = {}
    for each in model.judgements:
        turns = found.setdefault((each.task.code, each.dialogue), {})
        turns.setdefault(each.turn, []).append(each.text)
    return found


def _rating(judged: Judged, turn: int, texts: Sequence[str]) -> Score:
    if not texts:
        return judged.score(RATING, turn, None, MISSING)
    return turn_rating(judged, turn, _call(turn), _outcomes(turn, texts[0]))


def _authors(
    judged: Judged, turn: int, texts: Sequence[str], ours: float | None
) -> Iterator[Score]:
    for text in texts:
        yield authors_rating(judged, turn, _call(turn), _outcomes(turn, text), ours=ours)


def _call(turn: int) -> Call:
    """The call that would have been asked for the judgement."""
    return Call(id=judgement_call(turn), seat="judge", messages=(), parser=bracketed_rating)


def _outcomes(turn: int, text: str) -> dict[str, Reply]:
    return {judgement_call(turn): Reply(text=text)}


def _faults(models: Sequence[Published], notes: tuple[str, ...]) -> Table:
    """What is not there, there twice, unknown, or beyond the paper's protocol, by task."""
    rows = {}
    for model in models:
        before = f"{model.name}: " if len(models) > 1 else ""
        by_task = {task: _task_faults(model, task) for task in TASKS.values()}
        total: Counter[str] = Counter()
        for task, counts in by_task.items():
            total.update(counts)
            rows[before + task.code] = counts
        rows[before + "all"] = dict(total)
    return Table(
        name="faults",
        title="What the files do not show at once",
        columns=FAULTS,
        rows={
            name: {what: Cell(value=float(number)) for what, number in row.items()}
            for name, row in rows.items()
        },
        notes=(
            "Missing is what the authors' dialogues have more than the files; unknown is what "
            "they do not have, and the scores count it.",
            *filter(None, map(_unknown_note, models)),
            *notes,
        ),
        digits=0,
    )


def _task_faults(model: Published, task: Task) -> dict[str, int]:
    found: list[PublishedJudgement] = [each for each in model.judgements if each.task is task]
    dialogues = {each.dialogue for each in found}
    turns = {(each.dialogue, each.turn) for each in found}
    unknown = _unknown(found, task)
    early = {(dialogue, turn) for dialogue, turn in turns if turn < task.first}
    known = dialogues & known_dialogues(task.code, dialogues).keys()
    counts = (
        len(dialogues),
        task.dialogues - len(known),
        len(dialogues - known),
        len(found),
        task.turns - len(turns - unknown - early),
        len(unknown),
        len(found) - len(turns),
        len(early),
    )
    return dict(zip(FAULTS, counts, strict=True))


def _unknown(found: Sequence[PublishedJudgement], task: Task) -> set[tuple[str, int]]:
    """The dialogues and turns of a task's judgements that the authors' file does not have."""
    known = known_dialogues(task.code, {each.dialogue for each in found})
    return {(each.dialogue, each.turn) for each in found if each.turn > known.get(each.dialogue, 0)}


def _unknown_note(model: Published) -> str:
    """Which judgements of a model are of no dialogue and turn of the authors'; empty without."""
    unknown = [
        f"{task.code} {dialogue} turn {turn}"
        for task in TASKS.values()
        for dialogue, turn in sorted(
            _unknown([each for each in model.judgements if each.task is task], task)
        )
    ]
    if not unknown:
        return ""
    more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
    return f"{model.name}: unknown are {', '.join(unknown[:_NAMED])}{more}."


def _differences(models: Sequence[Published], frames: Mapping[str, ScoreFrame]) -> Iterator[str]:
    """The means that a file states and that are not those of its judgements."""
    for model in models:
        frame = frames[model.name]
        for name, stated in model.means.items():
            value = _mean_of_tasks(frame) if name == "avg" else _authors_score(frame, name)
            if value is None or abs(value - stated) > _CLOSE:
                found = "none" if value is None else f"{value:.4f}"
                yield f"{model.name} states {name} {stated:.4f}; its judgements give {found}."


def _mean_of_tasks(frame: ScoreFrame) -> float | None:
    means = [_authors_score(frame, task) for task in TASKS]
    found = [mean for mean in means if mean is not None]
    return math.fsum(found) / len(found) if found else None


def _authors_score(frame: ScoreFrame, name: str) -> float | None:
    cell = AuthorsScore(name=name, condition=GOLDEN)(frame)
    return cell.value if cell is not None and isinstance(cell.value, float) else None
