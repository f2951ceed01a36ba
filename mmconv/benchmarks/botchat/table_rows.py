"""What rows BotChat's tables have, and what all of them say: entrants, matches, context.

The cells are made in `tables` and `dialogue_tables`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mmconv.benchmarks.botchat.dialogue_files import HUMAN
from mmconv.benchmarks.botchat.options import SHORTEST_HUMAN, UNCON, DupDetect
from mmconv.benchmarks.botchat.players import GTEVAL
from mmconv.benchmarks.botchat.scoring import JUDGE, OURS
from mmconv.stats import Column, ScoreFrame

AUTHORS_COLUMN = "authors: "
"""What the columns of the authors' convention begin with."""

_LONG_ENOUGH = f"whose human dialogue has at least {SHORTEST_HUMAN} utterances"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContext:
    """What tables tell besides the scores: who judged, how loops were found, what to know.

    `compared` says how many samples are compared; `cut` is the length that longer human dialogues
    are cut to, None where none is longer.
    """

    judge: str
    dup_detect: DupDetect
    compared: str
    notes: tuple[str, ...] = ()
    cut: int | None = None

    @property
    def compared_note(self) -> str:
        """Why comparisons have another n than dialogues."""
        return (
            f"Compared are samples {_LONG_ENOUGH} ({self.compared}), each in both orders: n counts "
            "every comparison."
        )

    @property
    def human_length_note(self) -> str:
        """What the column of that name is, and why its n is another."""
        most = "" if self.cut is None else f", {self.cut} at most"
        return (
            f"Human length: N is the length of the human dialogue{most}, for samples "
            f"{_LONG_ENOUGH} ({self.compared})."
        )

    @property
    def human_note(self) -> str:
        """Who the human is among the rows."""
        whole = "of whatever length it has"
        return (
            f"{HUMAN} is the human dialogue, "
            f"{whole if self.cut is None else f'cut after {self.cut} utterances'}."
        )

    @property
    def loops(self) -> str:
        """How DupDetect was set."""
        return (
            f"DupDetect: an utterance repeats another by {self.dup_detect}. The paper publishes "
            "neither measure nor threshold; `mmconv calibrate botchat` fits the threshold."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """A row of a table of dialogues: a model under a condition."""

    model: str
    condition: str

    def column(
        self, frame: ScoreFrame, metric: str, *, turn: int | None = None, **tags: str
    ) -> Column:
        """Its scores of the metric."""
        return frame.select(
            turn=turn, metric=metric, model=self.model, condition=self.condition, **tags
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A row of a table of comparisons: a model against an opponent, at one length or at any."""

    model: str
    opponent: str
    condition: str
    length: str | None = None

    def column(
        self, frame: ScoreFrame, protocol: str, reading: str, dup: str, **tags: str
    ) -> Column:
        """The points of its comparisons, of those with the tags if any are given."""
        return frame.select(
            turn=None,
            metric="duel",
            model=self.model,
            opponent=self.opponent,
            condition=self.condition,
            length=frame.distinct("length") if self.length is None else self.length,
            protocol=protocol,
            reading=reading,
            dup=dup,
            **tags,
        )

    def by_order(self, frame: ScoreFrame, protocol: str, dup: str) -> Column:
        """One row per comparison: a sample that was judged in both orders is two samples here."""
        orders = frame.distinct("order")
        columns = {order: self.column(frame, protocol, OURS, dup, order=order) for order in orders}
        return Column.joined(
            [
                replace(each, samples=tuple(f"{sample}, order {order}" for sample in each.samples))
                for order, each in columns.items()
            ]
        )


def named(name: str, condition: str) -> str:
    """A name that tells the condition, unless it is the one that every record allows."""
    return name if condition == UNCON else f"{name} ({condition})"


def entrants(frame: ScoreFrame, metric: str) -> Iterator[tuple[str, Entrant]]:
    """The rows of a table of dialogues: who has scores of the metric, by their names."""
    for model in frame.distinct("model"):
        for condition in frame.distinct("condition"):
            entrant = Entrant(model=model, condition=condition)
            if len(entrant.column(frame, metric)):
                yield named(model, condition), entrant


def matches(frame: ScoreFrame, protocol: str) -> Iterator[tuple[str, Match]]:
    """The rows of a protocol's table: pairs of players with comparisons, by their names.

    GTEval's comparisons have the length of each human dialogue, and one row for all of them.
    """
    conditions = frame.distinct("condition")
    lengths: Sequence[str | None] = [None] if protocol == GTEVAL else frame.distinct("length")
    players = [
        (model, opponent)
        for model in frame.distinct("model")
        for opponent in frame.distinct("opponent")
        if (opponent == HUMAN) == (protocol == GTEVAL)
    ]
    for model, opponent in players:
        for length in lengths:
            for condition in conditions:
                match = Match(model=model, opponent=opponent, condition=condition, length=length)
                if len(match.column(frame, protocol, OURS, JUDGE)):
                    versus = "" if length is None else f" - {opponent}, N={length}"
                    yield named(f"{model}{versus}", condition), match


def rows_notes(frame: ScoreFrame, metric: str, context: TableContext) -> Iterator[str]:
    """Who GT is, where it has a row, and that rows are of different samples, where they are."""
    samples = {
        entrant.model: frozenset(entrant.column(frame, metric).samples)
        for _, entrant in entrants(frame, metric)
    }
    if HUMAN in samples:
        yield context.human_note
    if len({*samples.values()}) > 1:
        yield (
            f"Rows are not of the same samples: a run takes opponents and {HUMAN} only for samples "
            f"{_LONG_ENOUGH}."
        )
