"""What a leaderboard shows of BotChat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mmconv.benchmarks.botchat.dialogues import CONDITIONS, GTEVAL, PAIREVAL, UNCON, named
from mmconv.benchmarks.botchat.metrics import AUTHORS_COLUMN, PERCENT, RATES
from mmconv.benchmarks.shared.leaderboard import (
    CANDIDATE_LABEL,
    Board,
    BoardPart,
    CellPlace,
    Tables,
)

_OWN_ARENA = (
    "Ratings are those of each run's own arena: they can be compared where the other players were "
    "the same."
)


def boards(runs: Sequence[Tables]) -> Iterator[Board]:
    """Each condition."""
    return (_board(runs, condition) for condition in CONDITIONS)


def _board(runs: Sequence[Tables], condition: str) -> Board:
    """By UniEval at the largest length; comparisons are decided by the judge alone here."""
    row = named(CANDIDATE_LABEL, condition)

    def place(table: str, column: str, name: str) -> CellPlace:
        return CellPlace(table=table, row=row, column=column, quantity=(name, PERCENT.title))

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
            BoardPart(
                name="paireval",
                title=f"BotChat, PairEval (%), {condition}",
                columns=_wins(runs, condition),
            ),
            BoardPart(
                name="arena",
                title=f"BotChat, ratings in PairEval's arena, {condition}",
                columns=_ratings(runs, condition),
                notes=(_OWN_ARENA,),
            ),
        ),
    )


def _wins(runs: Sequence[Tables], condition: str) -> dict[str, CellPlace]:
    """The win rate against each opponent at each length; rows are called `model - opponent, N=L`.

    Names may hold such a dash too: what then stands for no opponent has no number in any run.
    """
    rows = [name for tables in runs if "paireval" in tables for name in tables["paireval"].rows]
    found = [name for name in rows if _condition(name) == condition]
    pairs = [name.removesuffix(f" ({condition})").split(" - ") for name in found]
    opponents = [" - ".join(pair[cut:]) for pair in pairs for cut in range(1, len(pair))]
    return {
        f"win against {opponent}": CellPlace(
            table="paireval",
            row=named(f"{CANDIDATE_LABEL} - {opponent}", condition),
            column="win",
            quantity=(f"{named(f'{PAIREVAL} against {opponent}', condition)}: win", PERCENT.title),
        )
        for opponent in dict.fromkeys(opponents)
    }


def _ratings(runs: Sequence[Tables], condition: str) -> dict[str, CellPlace]:
    found = [name for tables in runs if "arena" in tables for name in tables["arena"].columns]
    return {
        name.removesuffix(f" ({condition})"): CellPlace(
            table="arena", row=CANDIDATE_LABEL, column=name
        )
        for name in dict.fromkeys(found)
        if _condition(name) == condition
    }


def _condition(name: str) -> str:
    """The condition that `named` has put into a name."""
    return next((each for each in CONDITIONS if name.endswith(f" ({each})")), UNCON)


def _length(name: str) -> int:
    return int(name.removeprefix("N="))
