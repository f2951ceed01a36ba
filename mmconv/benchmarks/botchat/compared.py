"""What runs of BotChat are compared by: UniEval, GTEval, PairEval and loops of the candidates.

By our reading of judgements; comparisons by the judge alone, and with DupDetect first. Columns are
those of `mmconv.benchmarks.botchat.layout`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mmconv.benchmarks.botchat.layout import Match, entrants, matches
from mmconv.benchmarks.botchat.players import GTEVAL, PAIREVAL
from mmconv.benchmarks.botchat.quantities import PERCENT, RATES, indicator
from mmconv.benchmarks.botchat.scoring import DUP, JUDGE, OURS
from mmconv.stats import Column, Quantity, ScoreFrame

UNIT = "%"


def compared_quantities(frame: ScoreFrame, candidate: str) -> Iterator[Quantity]:
    """The rates of the main tables that are the candidate's own."""
    yield from _alone(frame, candidate)
    for protocol in (GTEVAL, PAIREVAL):
        for match in dict(matches(frame, protocol)).values():
            if match.model == candidate:
                yield from _compared(frame, protocol, match)


def _alone(frame: ScoreFrame, candidate: str) -> Iterator[Quantity]:
    for _, entrant in entrants(frame, "non_loop"):
        if entrant.model != candidate:
            continue
        mark = _mark(frame, entrant.condition)
        for length in frame.turns():
            column = entrant.column(frame, "pass", turn=length, reading=OURS)
            yield from _share(f"UniEval, N={length}{mark}", column)
        cut = entrant.column(frame, "pass_at_human_length")
        yield from _share(f"UniEval, human length{mark}", cut)
        yield from _share(f"non-loop dialogues{mark}", entrant.column(frame, "non_loop"))


def _compared(frame: ScoreFrame, protocol: str, match: Match) -> Iterator[Quantity]:
    versus = "" if match.length is None else f" against {match.opponent}, N={match.length}"
    mark = _mark(frame, match.condition)
    for dup, told in ((JUDGE, ""), (DUP, ", DupDetect first")):
        points = _by_order(frame, protocol, match, dup)
        for rate, wanted in RATES.items():
            name = f"{protocol}{versus}{told}{mark}: {rate}"
            yield from _share(name, indicator(points, wanted))


def _by_order(frame: ScoreFrame, protocol: str, match: Match, dup: str) -> Column:
    """One row per comparison: a sample that was judged in both orders is two samples here."""
    orders = frame.distinct("order")
    columns = {order: match.column(frame, protocol, OURS, dup, order=order) for order in orders}
    named = [
        replace(column, samples=tuple(f"{sample}, order {order}" for sample in column.samples))
        for order, column in columns.items()
    ]
    return Column.joined(named)


def _share(name: str, column: Column) -> Iterator[Quantity]:
    if len(column):
        yield Quantity(
            name=name,
            columns={name: column},
            group=UNIT,
            scale=PERCENT,
            reach=1.0,
            shares=(name,),
        )


def _mark(frame: ScoreFrame, condition: str) -> str:
    return f" ({condition})" if len(frame.distinct("condition")) > 1 else ""
