"""What runs of BotChat are compared by: UniEval, GTEval, PairEval and loops of the candidates.

By our reading of judgements; comparisons by the judge alone, and with DupDetect first. Columns are
those of `mmconv.benchmarks.botchat.layout`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mmconv.benchmarks.botchat.layout import Match, entrants, matches, named
from mmconv.benchmarks.botchat.players import GTEVAL, PAIREVAL
from mmconv.benchmarks.botchat.quantities import PERCENT, RATES, indicator
from mmconv.benchmarks.botchat.scoring import DUP, JUDGE, OURS
from mmconv.config import CANDIDATE, RunSpec
from mmconv.stats import Column, Quantity, ScoreFrame

UNIT = "%"


def compared_quantities(frame: ScoreFrame, spec: RunSpec) -> Iterator[Quantity]:
    """The rates of the main tables that are the candidate's own."""
    candidate = spec.seats[CANDIDATE].label
    yield from _alone(frame, candidate)
    for protocol in (GTEVAL, PAIREVAL):
        for match in dict(matches(frame, protocol)).values():
            if match.model == candidate:
                yield from _compared(frame, protocol, match)


def _alone(frame: ScoreFrame, candidate: str) -> Iterator[Quantity]:
    for _, entrant in entrants(frame, "non_loop"):
        if entrant.model != candidate:
            continue
        condition = entrant.condition
        for length in frame.turns():
            column = entrant.column(frame, "pass", turn=length, reading=OURS)
            yield from _share(named(f"UniEval, N={length}", condition), column)
        cut = entrant.column(frame, "pass_at_human_length")
        yield from _share(named("UniEval, human length", condition), cut)
        loops = entrant.column(frame, "non_loop")
        yield from _share(named("non-loop dialogues", condition), loops)


def _compared(frame: ScoreFrame, protocol: str, match: Match) -> Iterator[Quantity]:
    versus = "" if match.length is None else f" against {match.opponent}, N={match.length}"
    for dup, told in ((JUDGE, ""), (DUP, ", DupDetect before the judge")):
        points = _by_order(frame, protocol, match, dup)
        for rate, wanted in RATES.items():
            name = named(f"{protocol}{versus}{told}", match.condition)
            yield from _share(f"{name}: {rate}", indicator(points, wanted))


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
