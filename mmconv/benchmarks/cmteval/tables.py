"""CMT-Eval's tables: scores by subset, speech acts, personas, strategies, patterns, judgements.

Every estimate carries n, what is missing by reason, and a 95 % interval where there is one. The
authors' own aggregation, a table of its own, is in `mmconv.benchmarks.cmteval.official`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

from mmconv.benchmarks.cmteval.fields import ACTS, PATTERNS, PERSONAS, STRATEGIES, SUBSETS
from mmconv.benchmarks.cmteval.official import paper_scores
from mmconv.benchmarks.cmteval.quantities import (
    OVERALL,
    WHOLE,
    Group,
    Place,
    column_labels,
    find_places,
    on_scale,
    overall,
)
from mmconv.benchmarks.cmteval.scoring import act_tag
from mmconv.benchmarks.shared.endings import TRUNCATED, endings_table
from mmconv.benchmarks.shared.scoring import Scores
from mmconv.core.types import Cell, Table
from mmconv.stats import ScoreFrame, summarise

MAIN = {"IS": "IS", "Adp": "Adp", "DLS": "DLS", "DLS by the lowest turn": "DLS_min"}
"""Column -> metric of the main table."""

UNSCORED_NOTE = (
    "A dialogue with an unscored turn is missing: its other turns would stand for the one left "
    "out, and the lowest of fewer turns is higher. Its scored turns count by speech act and by "
    "strategy."
)
MEAN_NOTE = "In a mean over models n counts dialogues."


def build_tables(scores: Scores, *, judge: str, notes: tuple[str, ...] = ()) -> list[Table]:
    """All tables that the scores have something for, each with the notes."""
    frame = ScoreFrame.of(scores)
    places = find_places(frame, "TLS")
    made = []
    if places:
        made = [
            _scores(frame, places, judge, notes),
            paper_scores(frame, places, notes),
            *_breakdowns(frame, places, notes),
            _act_counts(frame, places, notes),
            _judgements(frame, places, notes),
        ]
    made.append(_replies(frame, notes))
    return [table for table in made if table.rows]


def _scores(frame: ScoreFrame, places: list[Place], judge: str, notes: tuple[str, ...]) -> Table:
    rows = {}
    for model in dict.fromkeys(place.model for place in places):
        own = [place for place in places if place.model == model]
        for place in own:
            rows[place.label] = {
                title: on_scale(summarise(place.by_dialogue(frame, metric)))
                for title, metric in MAIN.items()
            }
        if len(own) > 1:
            rows[f"{model}, {OVERALL}"] = {
                title: overall(frame, metric, own) for title, metric in MAIN.items()
            }
    return Table(
        name="scores",
        title=f"CMT-Eval scores, judged by {judge}",
        columns=tuple(MAIN),
        rows=rows,
        notes=(
            "Means over dialogues, of each dialogue's mean over its turns; for DLS a turn has the "
            "mean of IS and Adp. Overall: the plain mean of the subsets that are there, unrounded, "
            "and without an interval where one of them has none.",
            UNSCORED_NOTE,
            *notes,
        ),
    )


def _breakdowns(frame: ScoreFrame, places: list[Place], notes: tuple[str, ...]) -> list[Table]:
    acts = {act: Group(metric="TLS", act=act_tag(act)) for act in ACTS.values()}
    by_turn = {
        f"{act}, turn {turn}": Group(metric="TLS", turn=turn, act=act_tag(act))
        for act in ACTS.values()
        for turn in frame.turns()
        if turn != WHOLE
    }
    strategies = {name: _turns(strategy=name) for name in (*STRATEGIES.values(), "none")}
    personas = dict.fromkeys((*PERSONAS.values(), *frame.distinct("persona")))
    tables = {
        ("speech_acts", "TLS by speech act"): acts,
        ("speech_acts_by_turn", "TLS by speech act and turn"): by_turn,
        ("personas", "DLS by user persona"): {name: _dialogues(persona=name) for name in personas},
        ("strategies", "TLS by challenge strategy"): strategies,
        ("patterns", "DLS by speech act pattern"): {
            name: _dialogues(pattern=name) for name in PATTERNS.values()
        },
    }
    return [_breakdown(frame, places, notes, heading, groups) for heading, groups in tables.items()]


def _breakdown(
    frame: ScoreFrame,
    places: list[Place],
    notes: tuple[str, ...],
    heading: tuple[str, str],
    groups: Mapping[str, Group],
) -> Table:
    """A row per group; columns where no group has a score are left out."""
    cells = {name: group.cells(frame, places) for name, group in groups.items()}
    filled = {label for row in cells.values() for label in row}
    name, title = heading
    several = len({place.model for place in places}) > 1
    return Table(
        name=name,
        title=title,
        columns=tuple(label for label in column_labels(places) if label in filled),
        rows={name: row for name, row in cells.items() if row},
        notes=(*((MEAN_NOTE,) if several else ()), *notes),
        detail=name == "speech_acts_by_turn",
    )


def _act_counts(frame: ScoreFrame, places: list[Place], notes: tuple[str, ...]) -> Table:
    """How often turns have a speech act (paper, Table 11)."""
    turns = [turn for turn in frame.turns() if turn != WHOLE]
    subsets = {place.subset: place for place in reversed(places)}
    rows = {}
    for act in ACTS.values():
        total: Counter[int] = Counter()
        for subset in SUBSETS:
            if subset not in subsets:
                continue
            counts = {turn: _act_count(frame, subsets[subset], act, turn) for turn in turns}
            total.update(counts)
            rows[f"{act}, {subset}"] = _counted(counts)
        rows[f"{act}, all"] = _counted(total)
    return Table(
        name="speech_act_counts",
        title="Turns by speech act",
        columns=tuple(f"turn {turn}" for turn in turns),
        rows={name: row for name, row in rows.items() if row},
        notes=(
            "A label that names an act twice counts twice. The paper's Table 11 says that it "
            "counts Standard, but holds the counts of all three subsets.",
            *notes,
        ),
        digits=0,
        detail=True,
    )


def _act_count(frame: ScoreFrame, place: Place, act: str, turn: int) -> int:
    """How often the turn of this number has the act; trials repeat a dialogue and count once."""
    tag = act_tag(act)
    turns = {
        times: place.column(frame, "TLS", turn=turn, **{tag: times})
        for times in frame.distinct(tag)
    }
    return sum(int(times) * len(set(found.clusters)) for times, found in turns.items())


def _counted(counts: Mapping[int, int]) -> dict[str, Cell]:
    return {f"turn {turn}": Cell(value=float(count)) for turn, count in counts.items() if count}


def _judgements(frame: ScoreFrame, places: list[Place], notes: tuple[str, ...]) -> Table:
    """What the judge left out, merged, or scored without there being such a turn."""
    rows = {}
    for place in places:
        turns = place.column(frame, "TLS")
        merged = place.column(frame, "merged")
        dialogues = place.column(frame, "surplus", turn=WHOLE)
        whole, any_turn = (turns.per_sample("mean", partial=part) for part in (False, True))
        rows[place.label] = {
            "dialogues": Cell(value=float(len(dialogues))),
            "dialogues scored in part": Cell(
                value=float(any_turn.present.sum() - whole.present.sum())
            ),
            "dialogues not scored": Cell(value=float((~any_turn.present).sum())),
            "turns": Cell(value=float(len(turns))),
            "scored turns": Cell(value=float(turns.present.sum()), missing=turns.missing),
            "merged turns": Cell(value=_total(merged.values)),
            "dialogues with merged turns": Cell(
                value=_total(merged.per_sample("max", partial=True).values)
            ),
            "turns scored that are not there": Cell(value=_total(dialogues.values)),
        }
    return Table(
        name="judgements",
        title="What the judge scored",
        columns=tuple(next(iter(rows.values()))),
        rows=rows,
        notes=notes,
        digits=0,
    )


def _replies(frame: ScoreFrame, notes: tuple[str, ...]) -> Table:
    rows = ((place.label, partial(place.column, frame)) for place in find_places(frame, TRUNCATED))
    return endings_table("replies", "How the replies ended", rows, notes)


def _turns(**where: str) -> Group:
    return Group(metric="TLS", where=where)


def _dialogues(**where: str) -> Group:
    return Group(metric="DLS", turn=WHOLE, where=where)


def _total(values: Iterable[float | None]) -> float:
    return sum((value for value in values if value is not None), start=0.0)
