"""What runs of BotChat are compared by: UniEval, GTEval, PairEval and loops of the candidates.

By our reading of judgements; comparisons by the judge alone, and with DupDetect first. What the
document changes follows. Columns are those of `mmconv.benchmarks.botchat.table_rows`.
"""

from __future__ import annotations

from collections.abc import Iterator

from mmconv.benchmarks.botchat.document_effect import condition_changes
from mmconv.benchmarks.botchat.players import GTEVAL, PAIREVAL
from mmconv.benchmarks.botchat.quantities import PERCENT, RATES, indicator
from mmconv.benchmarks.botchat.scoring import DUP, JUDGE, OURS
from mmconv.benchmarks.botchat.table_rows import Match, entrants, matches, named
from mmconv.core.config import CANDIDATE, RunSpec
from mmconv.stats import Column, Quantity, ScoreFrame

UNIT = "%"
CHANGE = "con - uncon (points)"


def compared_quantities(frame: ScoreFrame, spec: RunSpec) -> Iterator[Quantity]:
    """The rates of the main tables that are the candidate's own."""
    candidate = spec.seats[CANDIDATE].label
    yield from _alone(frame, candidate)
    for protocol in (GTEVAL, PAIREVAL):
        for match in dict(matches(frame, protocol)).values():
            if match.model == candidate:
                yield from _compared(frame, protocol, match)
    for name, column in condition_changes(frame, candidate):
        yield Quantity(
            name=name,
            columns={name: column},
            group=CHANGE,
            scale=PERCENT,
            reach=2.0,
            kind="change",
        )


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
        points = match.by_order(frame, protocol, dup)
        for rate, wanted in RATES.items():
            name = named(f"{protocol}{versus}{told}", match.condition)
            yield from _share(f"{name}: {rate}", indicator(points, wanted))


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
