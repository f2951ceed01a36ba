"""BotChat's tables of judgements: UniEval, GTEval, PairEval and the arena.

Every cell carries n, what is missing by reason, and ours a 95 % interval. The authors' convention
stands beside ours, labelled. Comparisons are told twice: by the judge alone, as the authors'
leaderboard, and with DupDetect before it, as the paper. The tables of the dialogues themselves are
made in `dialogue_tables`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from judges.parsers.botchat import AUTHORS_UTTERANCES
from mmconv.benchmarks.botchat.arena import Game, games, is_available, rate_players, tell_ratings
from mmconv.benchmarks.botchat.dialogue_tables import dialogue_tables
from mmconv.benchmarks.botchat.document_effect import changes_table
from mmconv.benchmarks.botchat.players import GTEVAL, PAIREVAL
from mmconv.benchmarks.botchat.quantities import (
    RATES,
    mean_points,
    official_points,
    official_rates,
    official_share,
    rate,
    share,
)
from mmconv.benchmarks.botchat.scoring import AUTHORS, DUP, JUDGE, OURS, UNKNOWN
from mmconv.benchmarks.botchat.table_rows import (
    AUTHORS_COLUMN,
    Match,
    TableContext,
    entrants,
    matches,
    named,
)
from mmconv.core.types import SAME_TEXT, Cell, Table
from mmconv.stats import ScoreFrame

Matches: TypeAlias = Mapping[str, Match]
"""The rows of a protocol's table by their names."""

_HUMAN_LENGTH = "human length"
_SUFFIX = {JUDGE: "", DUP: "_dupdetect"}
_BEFORE = {JUDGE: "the judge alone", DUP: "DupDetect before the judge"}
_SIXTEEN = (
    f"The authors' code takes a dialogue without AI for one of {AUTHORS_UTTERANCES} human "
    "utterances, and has no rate beyond."
)
_NOT_INSTALLED = "Elo and Bradley-Terry ratings need the package evalica, which is not installed."


def build_tables(frame: ScoreFrame, context: TableContext) -> list[Table]:
    """All tables that the scores have something for."""
    compared = {protocol: dict(matches(frame, protocol)) for protocol in (GTEVAL, PAIREVAL)}
    made = [
        _unieval(frame, context),
        *_comparisons(frame, context, compared),
        changes_table(frame, context),
        *(_arena(frame, context, compared[PAIREVAL], dup) for dup in (JUDGE, DUP)),
        _points(frame, context, compared),
        _judgements(frame, context, compared),
        *dialogue_tables(frame, context),
    ]
    return [table for table in made if table.rows]


def _unieval(frame: ScoreFrame, context: TableContext) -> Table:
    rows: dict[str, dict[str, Cell]] = {}
    lengths: dict[str, None] = {}
    official: dict[str, None] = {}
    for label, entrant in entrants(frame, "pass"):
        ours, theirs = {}, {}
        for length in frame.turns():
            column = entrant.column(frame, "pass", turn=length, reading=OURS)
            if len(column):
                read = entrant.column(frame, "pass", turn=length, reading=AUTHORS)
                ours[f"N={length}"] = share(column)
                if len(read):
                    theirs[f"{AUTHORS_COLUMN}N={length}"] = official_share(read)
        lengths |= dict.fromkeys(ours)
        official |= dict.fromkeys(theirs)
        cut = entrant.column(frame, "pass_at_human_length")
        rows[label] = ours | ({_HUMAN_LENGTH: share(cut)} if len(cut) else {}) | theirs
    cut_columns = (_HUMAN_LENGTH,) if any(_HUMAN_LENGTH in row for row in rows.values()) else ()
    return Table(
        name="unieval",
        title=f"UniEval: dialogues not taken for AI in their first N utterances (%), "
        f"{context.judge}",
        columns=(*lengths, *cut_columns, *official),
        rows=rows,
        digits=1,
        notes=(
            "The authors' code takes a reply without an index for one that finds no AI, even "
            'after "Choice: Yes".',
            *((_SIXTEEN,) if len(official) < len(lengths) else ()),
            *((context.human_length_note,) if cut_columns else ()),
            *context.notes,
        ),
    )


def _comparisons(
    frame: ScoreFrame, context: TableContext, compared: Mapping[str, Matches]
) -> Iterator[Table]:
    """The rates of each protocol, without and with DupDetect."""
    for protocol, rows_of in compared.items():
        for dup in (JUDGE, DUP):
            yield Table(
                name=f"{protocol.lower()}{_SUFFIX[dup]}",
                title=f"{protocol}, {_BEFORE[dup]} (%), {context.judge}",
                columns=(*RATES, *(f"{AUTHORS_COLUMN}{name}" for name in RATES)),
                rows={
                    label: _rates(frame, match, protocol, dup) for label, match in rows_of.items()
                },
                digits=1,
                notes=(
                    "Not bad: wins, and ties in which both are taken for human. The authors' "
                    "denominator has unread replies; their win+tie adds two rounded rates.",
                    *_loop_notes(context, dup),
                    context.compared_note,
                    *context.notes,
                ),
            )


def _rates(frame: ScoreFrame, match: Match, protocol: str, dup: str) -> dict[str, Cell]:
    ours = match.column(frame, protocol, OURS, dup)
    theirs = match.column(frame, protocol, AUTHORS, dup)
    row = {name: rate(ours, wanted) for name, wanted in RATES.items()}
    return row | {f"{AUTHORS_COLUMN}{name}": cell for name, cell in official_rates(theirs).items()}


def _arena(frame: ScoreFrame, context: TableContext, rows_of: Matches, dup: str) -> Table:
    """The ratings of all players, by the length and condition that they are compared at."""
    groups: dict[tuple[str, str], list[Game]] = {}
    for match in rows_of.values():
        group = groups.setdefault((str(match.length), match.condition), [])
        group += games(match.model, match.opponent, match.column(frame, PAIREVAL, OURS, dup))
    rows: dict[str, dict[str, Cell]] = {}
    columns: dict[str, None] = {}
    told: dict[str, None] = {}
    for (length, condition), played in groups.items() if is_available() else ():
        rated = rate_players(played)
        told |= dict.fromkeys(tell_ratings(played, rated))
        for player, cells in rated.items():
            row = {named(f"{name}, N={length}", condition): cell for name, cell in cells.items()}
            rows.setdefault(player, {}).update(row)
            columns |= dict.fromkeys(row)
    return Table(
        name=f"arena{_SUFFIX[dup]}",
        title=f"Arena of PairEval: ratings, {_BEFORE[dup]}, {context.judge}",
        columns=tuple(columns),
        rows=rows,
        digits=1,
        notes=(
            "Elo: from 1000, K = 32, scale 400; the median over draws of dialogues, played in "
            "random orders (the authors' order is not public). Bradley-Terry: on Elo's scale with "
            "a mean of 1000. A tie is half a win for each. Computed by evalica.",
            "Brackets hold the middle 95 % of the draws of dialogues.",
            *told,
            *_loop_notes(context, dup),
            *context.notes,
        ),
    )


def _points(frame: ScoreFrame, context: TableContext, compared: Mapping[str, Matches]) -> Table:
    readings = {
        f"{mark}{dup}": (reading, dup)
        for reading, mark in ((OURS, ""), (AUTHORS, AUTHORS_COLUMN))
        for dup in (JUDGE, DUP)
    }
    means = {OURS: mean_points, AUTHORS: official_points}
    return Table(
        name="points",
        title="Score of comparisons (-3 to 3)",
        columns=tuple(readings),
        rows={
            label: {
                name: means[reading](match.column(frame, protocol, reading, dup))
                for name, (reading, dup) in readings.items()
            }
            for label, protocol, match in _all(compared)
        },
        notes=(
            "(3 win + both taken for human - both taken for AI - 3 lose) / n. Two dialogues that "
            "loop count as both taken for AI.",
            *_loop_notes(context, DUP),
            context.compared_note,
            *context.notes,
        ),
    )


def _judgements(frame: ScoreFrame, context: TableContext, compared: Mapping[str, Matches]) -> Table:
    """What was read of the comparisons, by us and by the authors, and what needed no judge."""
    rows = {}
    for label, protocol, match in _all(compared):
        ours = match.column(frame, protocol, OURS, JUDGE)
        theirs = match.column(frame, protocol, AUTHORS, JUDGE)
        rows[label] = {
            "comparisons": Cell(value=float(len(ours))),
            "read": Cell(value=float(ours.present.sum()), missing=dict(ours.missing)),
            "unread by the authors": Cell(value=float(theirs.missing[UNKNOWN])),
            "of the same text": Cell(value=float(ours.missing[SAME_TEXT])),
        }
    notes = ["A dialogue is not compared with itself: as the authors, we leave such pairs out."]
    if compared[PAIREVAL] and not is_available():
        notes.append(_NOT_INSTALLED)
    return Table(
        name="judgements",
        title="What was read of the comparisons",
        columns=("comparisons", "read", "unread by the authors", "of the same text"),
        rows=rows,
        notes=(*notes, *context.notes),
        digits=0,
    )


def _all(compared: Mapping[str, Matches]) -> Iterator[tuple[str, str, Match]]:
    """Every comparison with the name of its row, and its protocol."""
    for protocol, rows_of in compared.items():
        for label, match in rows_of.items():
            yield f"{protocol}: {label}", protocol, match


def _loop_notes(context: TableContext, dup: str) -> tuple[str, ...]:
    return (context.loops,) if dup == DUP else ()
