"""How a run of ConvBench is shown: scores under three conditions, deltas, attribution, categories.

All numbers are those of the run's tables, set side by side; see
`mmconv.benchmarks.convbench.layouts` for how they are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from mmconv.benchmarks.convbench.layouts import IN_SHARES, LOST
from mmconv.benchmarks.convbench.options import GIVEN
from mmconv.benchmarks.convbench.quantities import (
    DELTAS,
    DIRECT,
    DUE,
    GRADINGS,
    LEVELS,
    PAIRWISE,
    QUANTITIES,
    Grading,
)
from mmconv.core.types import Cell, Table
from mmconv.report.page.content import Section, View
from mmconv.report.page.grids import Grid, Line, Shown, grid, same_size, shown, why_missing
from mmconv.report.page.plots import Plot, Point, Series, point_of, sideways, span, upright
from mmconv.report.page.views.convbench_sentences import (
    Keys,
    attribution_sentences,
    count_failures,
    delta_sentences,
    no_failures,
)
from mmconv.report.page.views.ratings import Scale
from mmconv.report.tables.convbench_names import (
    MARK,
    mark_name,
    typeset,
    typeset_name,
    typeset_table,
)
from mmconv.stats.estimates import FEWEST_CLUSTERS

CONDITIONS = {
    "free": "free",
    "perception": "perfect perception",
    "reasoning": "perfect reasoning",
    "reasoning_alone": "reasoning alone",
    "creation_alone": "creation alone",
}
"""Condition -> what the page calls it."""

TURNS = {**LEVELS, 0: "overall"}
RATINGS = Scale(
    metric=DIRECT.metric,
    lowest=int(DIRECT.lowest),
    highest=int(DIRECT.highest),
    turns=TURNS,
    titles=CONDITIONS,
)
COLOURS = {"free": "series-1", "perception": "series-2", "reasoning": "series-3"}
RUN_COLOURS = ("series-1", "series-2", "series-3", "series-4", "series-5")
USED = frozenset(
    {"scores", "deltas", "attribution_net", "failures", "attribution", "attribution_samples"}
)

_NAMES = {place: name for name, place in QUANTITIES.items()}
_GAINS = {goal: name for name, (_, goal) in DELTAS.items()}
_SIDE = re.compile(r"pairwise_([AB])/")


def lead_sentences(tables: Sequence[Table], equal: Keys | None = None) -> tuple[str, ...]:
    """The paper's question, which level caused the failures; else what perfect turns change.

    For `equal` see `mmconv.report.page.views.convbench_sentences.delta_sentences`.
    """
    net = next((table for table in tables if table.name == "attribution_net"), None)
    return _causes(net) or delta_sentences(tables, equal)[:1]


def view(tables: Sequence[Table], equal: Keys | None = None) -> View:
    """The sections of a run, from its tables; for `equal` see `lead_sentences`."""
    named = {table.name: table for table in tables}
    lead = lead_sentences(tables, equal)
    told = [sentence for sentence in delta_sentences(tables, equal) if sentence not in lead]
    sections = [*_scores(named, told), *_attribution(named, lead), *_categories(named)]
    return View(
        lead=lead,
        sections=tuple(sections),
        words=verdict_words,
        marks=_marks(named.get("attribution_samples")),
        levels=TURNS,
        labels={**CONDITIONS, "rating": "direct rating", "win": "pairwise win"},
        scale="rating",
        given="reference",
        used=USED,
    )


def verdict_words(call: str, label: str | None, scores: Mapping[str, float]) -> str:
    """A rating, or who won: the label of a pairwise verdict is a side, not a party."""
    side = _SIDE.match(call)
    if side is not None:
        return f"{'won' if label == side[1] else 'lost'} (shown as {side[1]})"
    return label or ", ".join(f"{value:g}" for value in scores.values())


def _scores(named: Mapping[str, Table], sentences: Sequence[str]) -> Iterator[Section]:
    scores, deltas = named.get("scores"), named.get("deltas")
    if scores is None:
        return
    gradings = [grading for grading in GRADINGS if grading.title in scores.columns]
    plots = [
        draw(table, grading)
        for table, draw in ((scores, _levels_plot), (deltas, _deltas_plot))
        if table is not None
        for grading in gradings
        if any(map(point_of, _in_column(table, grading.title)))
    ]
    printed = [typeset_table(table) for table in (scores, deltas) if table is not None]
    yield Section(
        id="scores",
        title="Scores under the three conditions",
        short="Scores",
        sentences=tuple(sentences),
        plots=tuple(plots),
        grids=tuple(_headline(scores, deltas, grading) for grading in gradings),
        folded=tuple(grid(table, notes=()) for table in printed),
        notes=(
            *dict.fromkeys(note for each in printed for note in each.notes),
            *(told for each in printed for told in why_missing(each)),
        ),
    )


def _own_notes(*tables: Table | None) -> tuple[str, ...]:
    """All notes of the tables, each once."""
    return tuple(dict.fromkeys(typeset(note) for table in tables if table for note in table.notes))


def _headline(scores: Table, deltas: Table | None, grading: Grading) -> Grid:
    """One grading: a line per level, a column per condition, and what each condition adds."""
    conditions = [
        condition
        for condition in GIVEN
        if any(_NAMES.get((condition, turn)) in scores.rows for turn in TURNS)
    ]
    gains = conditions[1:] if deltas is not None else []
    lines = [
        Line(
            name=level.capitalize(),
            beside=typeset(_NAMES["free", turn]),
            cells=(
                *(_cell(scores, _NAMES.get((each, turn)), grading) for each in conditions),
                *(_gain(deltas, _NAMES.get((each, turn)), grading) for each in gains),
            ),
        )
        for turn, level in TURNS.items()
    ]
    nothing = (None,) * (len(conditions) + len(gains) - 1)
    for name, meaning in (("R2", "Mean of the turns"), ("R1", "Mean of R2 and overall")):
        if name in scores.rows:
            cells = (_cell(scores, name, grading), *nothing)
            lines.append(Line(name=meaning, beside=name, cells=cells))
    note, lines = same_size(lines)
    titles = [CONDITIONS[each] for each in conditions]
    return Grid(
        id=f"headline-{grading.name}",
        title=grading.title.capitalize(),
        columns=(*titles, *(CONDITIONS[each] for each in gains)),
        groups=(("", 1), ("score", len(conditions)), ("gained by", len(gains))) if gains else (),
        lines=tuple(line for line in lines if any(line.cells)),
        notes=(note,) if note else (),
    )


def _cell(table: Table, row: str | None, grading: Grading) -> Shown | None:
    return shown(table.rows.get(row or "", {}).get(grading.title), table)


def _gain(deltas: Table | None, goal: str | None, grading: Grading) -> Shown | None:
    name = _GAINS.get(goal or "", "")
    cell = None if deltas is None else _cell(deltas, name, grading)
    if cell is None or mark_name(name) == name:
        return cell
    return replace(cell, value=f"{cell.value} {MARK}")


def _levels_plot(scores: Table, grading: Grading) -> Plot:
    series = [
        Series(
            name=CONDITIONS[condition],
            colour=COLOURS[condition],
            points=_by_level(scores, grading, condition),
        )
        for condition in GIVEN
    ]
    return _of_levels(f"Scores, {grading.title}", series, grading)


def run_plots(scores: Mapping[str, Table]) -> Iterator[Plot]:
    """The scores of several runs side by side, a plot per grading and condition.

    `scores` are the runs' tables of that name, by label. There are no plots of more runs than there
    are colours.
    """
    if len(scores) > len(RUN_COLOURS):
        return
    for grading, condition in product(GRADINGS, GIVEN):
        series = [
            Series(name=label, colour=colour, points=_by_level(table, grading, condition))
            for (label, table), colour in zip(scores.items(), RUN_COLOURS, strict=False)
        ]
        if any(any(each.points) for each in series):
            yield _of_levels(f"{grading.title}, {CONDITIONS[condition]}", series, grading)


def _by_level(scores: Table, grading: Grading, condition: str) -> tuple[Point | None, ...]:
    """A condition's score of each level."""
    names = [_NAMES.get((condition, turn), "") for turn in TURNS]
    return tuple(point_of(scores.rows.get(name, {}).get(grading.title)) for name in names)


def _of_levels(title: str, series: Sequence[Series], grading: Grading) -> Plot:
    """Scores over the levels; those without a score of any level are left out."""
    scale = grading.scale
    ends = grading.lowest * scale - 0.04 * scale, grading.highest * scale * 1.04
    there = [each for each in series if any(each.points)]
    return upright(title, list(TURNS.values()), there, ends)


def _deltas_plot(deltas: Table, grading: Grading) -> Plot:
    names = list(deltas.rows)
    points = tuple(point_of(deltas.rows[name].get(grading.title)) for name in names)
    turns = [QUANTITIES[DELTAS[name][1]][1] for name in names]
    titles = [
        f"{TURNS[turn]}, {typeset_name(name)}" for turn, name in zip(turns, names, strict=True)
    ]
    series = Series(name="difference", colour="series-2", points=points)
    return sideways(f"Gains, {grading.title}", titles, series, span(points), zero=True)


def _in_column(table: Table, column: str) -> list[Cell | None]:
    return [row.get(column) for row in table.rows.values()]


def _attribution(named: Mapping[str, Table], said: Sequence[str]) -> Iterator[Section]:
    table = named.get("attribution_net")
    if table is None:
        return
    below = [each for name in ("failures", "attribution") if (each := named.get(name))]
    column = table.columns[0]
    told = (LOST,) if _is_of_chances(table) else attribution_sentences(table, column)
    none = no_failures(table, named.get("failures"), column)
    yield Section(
        id="attribution",
        title="Which level the failures come from",
        short="Attribution",
        sentences=tuple(sentence for sentence in (*none, *told) if sentence not in said),
        plots=tuple(_blame_plots(table)),
        folded=tuple(grid(each, notes=()) for each in (table, *below)),
        notes=tuple(note for note in _own_notes(table, *below) if note not in told),
    )


def _causes(table: Table | None) -> tuple[str, ...]:
    """Which level the failures come from, by the first grading, if that is known of any."""
    if table is None or _is_of_chances(table) or not count_failures(table, table.columns[0]):
        return ()
    return attribution_sentences(table, table.columns[0])


def _is_of_chances(table: Table) -> bool:
    """Whether even perfect answers fail by the first grading: compared in one order alone."""
    # the note's beginning, since folders of before word the rest otherwise
    is_noted = any(note.startswith(LOST.partition(" is")[0]) for note in table.notes)
    return is_noted and not table.columns[0].startswith(DIRECT.name)


def _blame_plots(table: Table) -> Iterator[Plot]:
    """Net shares may be below 0 or above 100, so they are points and no parts of a whole.

    Those without an interval are of very few failures and may lie anywhere: they are left out.
    """
    columns = {
        column: {
            name: point_of(row[column])
            for name, row in table.rows.items()
            if column in row and row[column].low is not None
        }
        for column in table.columns
    }
    everywhere = [point for told in columns.values() for point in told.values()]
    for column, told in columns.items():
        if told:
            titles = [name.replace(DUE, " \N{LEFTWARDS ARROW} ").capitalize() for name in told]
            points = tuple(told.values())
            series = Series(name="share of the failures", colour="series-2", points=points)
            title = f"Source of {column} (%), n = {count_failures(table, column)}"
            yield sideways(title, titles, series, span(everywhere), zero=True)


def _categories(named: Mapping[str, Table]) -> Iterator[Section]:
    maps = [
        _heat_map(table, turn)
        for turn, level in LEVELS.items()
        if (table := named.get(f"categories_{level}")) is not None
        and any(point_of(cell) for column in table.columns for cell in _in_column(table, column))
    ]
    if maps:
        yield Section(
            id="categories",
            title="Scores by task category",
            short="Categories",
            sentences=(
                "The stronger the colour, the higher the score; the small number is n (2/3 where 1 "
                f"of 3 is missing), and cells of fewer than {FEWEST_CLUSTERS} are hatched. The "
                "name of a category leads to its samples.",
            ),
            maps=tuple(maps),
        )


def _heat_map(table: Table, turn: int) -> Grid:
    """The categories of one turn, shaded by their place on the grading's scale."""
    by_name = {grading.name: grading for grading in GRADINGS}
    columns = [tuple(column.split(", ", 1)) for column in table.columns]
    lines = []
    for category, row in table.rows.items():
        cells = tuple(
            _shaded(row.get(column), table, by_name[name])
            for column, (name, _) in zip(table.columns, columns, strict=True)
        )
        lines.append(Line(name=category, cells=cells, link=f"category={turn}:{category}"))
    groups = [("", 1)]
    for grading in GRADINGS:
        span = sum(name == grading.name for name, _ in columns)
        groups += [(grading.name, span)] if span else []
    return Grid(
        id=table.name,
        title=f"Turn {turn}, {LEVELS[turn]}",
        columns=tuple(CONDITIONS.get(condition, condition) for _, condition in columns),
        groups=tuple(groups),
        lines=tuple(lines),
    )


def _shaded(cell: Cell | None, table: Table, grading: Grading) -> Shown | None:
    text = shown(cell, table)
    if text is None or cell is None:
        return None
    size, missing = cell.n or 0, sum(cell.missing.values())
    of_all = f"/{size + missing:,}" if missing else ""
    counted = f"{size:,}{of_all}" if size or missing else ""
    bare = replace(text, interval="", counts="", why=_hint(text), size=counted)
    if not isinstance(cell.value, float):
        return bare
    length = (grading.highest - grading.lowest) * grading.scale
    shade = (cell.value - grading.lowest * grading.scale) / length
    return replace(bare, shade=shade, few=size < FEWEST_CLUSTERS)


def _hint(cell: Shown) -> str:
    """What the pointer tells of a shaded cell: its interval and what stands behind it."""
    return "; ".join(filter(None, (cell.interval, cell.counts, cell.why)))


def _marks(table: Table | None) -> dict[str, tuple[str, ...]]:
    """Sample -> what its failures are attributed to."""
    marks: dict[str, list[str]] = {}
    for name, row in table.rows.items() if table else ():
        grading, level, sample = name.split("/", 2)
        # runs of before have another title there
        blamed = str(row[table.columns[0]].value) if table else ""
        if not blamed.startswith("unknown"):
            failed = "lost" if grading == PAIRWISE.name else "failed"
            counted = row.get(IN_SHARES)
            apart = ", not in the shares" if counted and counted.value != "yes" else ""
            mark = f"{level} {failed}, attributed to {blamed} ({grading}{apart})"
            marks.setdefault(sample, []).append(mark)
    return {sample: tuple(found) for sample, found in marks.items()}
