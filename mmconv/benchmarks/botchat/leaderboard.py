"""What a leaderboard shows of BotChat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mmconv.benchmarks.botchat.compared import UNIT
from mmconv.benchmarks.botchat.layout import AUTHORS_COLUMN, named
from mmconv.benchmarks.botchat.options import CONDITIONS
from mmconv.benchmarks.botchat.players import GTEVAL
from mmconv.benchmarks.botchat.quantities import RATES
from mmconv.benchmarks.leaderboards import CANDIDATE_LABEL, Board, BoardPart, CellPlace, Tables


def boards(runs: Sequence[Tables]) -> Iterator[Board]:
    """Each condition."""
    return (_board(runs, condition) for condition in CONDITIONS)


def _board(runs: Sequence[Tables], condition: str) -> Board:
    """By UniEval at the largest length; with GTEval, which the judge decides alone here."""
    row = named(CANDIDATE_LABEL, condition)

    def place(table: str, column: str, name: str) -> CellPlace:
        return CellPlace(table=table, row=row, column=column, quantity=(name, UNIT))

    found = [name for tables in runs if "unieval" in tables for name in tables["unieval"].columns]
    lengths = [name for name in dict.fromkeys(found) if not name.startswith(AUTHORS_COLUMN)]
    dialogues = {
        name: place("unieval", name, named(f"UniEval, {name}", condition)) for name in lengths
    }
    loops = named("non-loop dialogues", condition)
    dialogues["non-loop (%)"] = place("loops", "non-loop (%)", loops)
    compared = {
        rate: place("gteval", rate, f"{named(GTEVAL, condition)}: {rate}") for rate in RATES
    }
    return Board(
        name=condition,
        headline=max((name for name in lengths if name[2:].isdigit()), key=_length, default=""),
        parts=(
            BoardPart(title=f"BotChat, UniEval (%), {condition}", columns=dialogues),
            BoardPart(name="gteval", title=f"BotChat, GTEval (%), {condition}", columns=compared),
        ),
    )


def _length(name: str) -> int:
    return int(name.removeprefix("N="))
