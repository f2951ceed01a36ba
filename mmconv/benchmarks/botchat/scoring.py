"""From outcomes to scores, live and rescored alike.

Metrics of a dialogue: `human` (utterances before the first one taken for AI), `pass` (0 or 1, at
the length that is the turn), `pass_at_human_length`, `non_loop` (0 or 1), `non_loop_utterances`
(those up to the first repetition). Of an utterance, whose number is the turn: `characters`,
`words`, `dropped`, and those of `mmconv.benchmarks.shared.endings`. Of a comparison: `duel`, its
points from `WIN` to `LOSS`. The tag `reading` tells our reading of a judgement from the authors',
`dup` whether DupDetect went before the judge, `model` whose score it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from judges import read_verdict
from judges.parsers.botchat import (
    AUTHORS_UTTERANCES,
    FIRST,
    HUMAN,
    SECOND,
    authors_comparison,
    authors_human,
)
from mmconv.benchmarks.botchat.loops import first_repeat
from mmconv.benchmarks.botchat.options import DupDetect
from mmconv.benchmarks.botchat.players import Duel, spoken
from mmconv.benchmarks.shared.endings import endings
from mmconv.benchmarks.shared.scoring import Outcomes
from mmconv.core.errors import Unparsed
from mmconv.core.types import SAME_TEXT, Call, Outcome, Parser, Reply, Score, Skipped, Verdict

WIN, GOOD_TIE, BAD_TIE, LOSS = 3.0, 1.0, -1.0, -3.0
"""A win, both taken for human, both taken for AI, a loss: the weights of the authors' Score."""

OURS, AUTHORS = "ours", "authors"
JUDGE, DUP = "judge alone", "DupDetect first"
"""The tag `dup`: whether a loop decides a comparison before the judge does."""

UNKNOWN = "unknown"
"""Why a comparison has no points by the authors' reading; it stays in their denominator."""

UNFINISHED = "unfinished dialogue"
"""Why a dialogue without one of its utterances is not searched for loops."""

_Value = tuple[float | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What scores belong to: a sample, a condition and a model."""

    sample: str
    condition: str
    model: str

    def score(self, metric: str, value: _Value, turn: int | None = None, **tags: str) -> Score:
        """A score of it: a value, or None and why."""
        return Score(
            sample=self.sample,
            condition=self.condition,
            metric=metric,
            turn=turn,
            tags={"model": self.model, **tags},
            value=value[0],
            why=value[1],
        )


def score_alone(
    scored: Scored, call: Call, outcomes: Outcomes, lengths: Sequence[int], human_length: int | None
) -> Iterator[Score]:
    """UniEval by both readings: pass rates at `lengths`, and ours at the human dialogue's length.

    `human_length` is None for a dialogue that is not compared with a human one. The authors' code
    takes no dialogue for longer than `AUTHORS_UTTERANCES`, and has no rate beyond.
    """
    ours = _ours(call, outcomes)
    yield scored.score("human", ours, reading=OURS)
    if human_length is not None:
        yield scored.score("pass_at_human_length", _passed(ours, human_length), reading=OURS)
    theirs = _theirs(call, outcomes)
    for reading, value in ((OURS, ours), (AUTHORS, theirs)):
        for length in lengths:
            if reading == AUTHORS and length > AUTHORS_UTTERANCES:
                continue
            yield scored.score("pass", _passed(value, length), length, reading=reading)


def score_duel(
    scored: Scored, duel: Duel, call: Call | None, outcomes: Outcomes, settings: DupDetect
) -> Iterator[Score]:
    """A comparison by both readings, with the judge alone and with DupDetect first.

    A pair of the same text has no points, as the authors have it, and nobody is asked; `call` is
    None where that was known before, or where a dialogue is lacking.
    """
    own, other = spoken(duel.own, outcomes), spoken(duel.other, outcomes)
    why, void = SAME_TEXT, own is not None and own == other
    if duel.lacking is not None:
        why, void = Skipped(because=f"a whole dialogue of {duel.lacking}").why, True
    tags = {
        "protocol": duel.protocol,
        "opponent": duel.opponent,
        "length": str(duel.length),
        "order": duel.order,
    }
    decided = _looped(duel, outcomes, settings)
    for reading in (OURS, AUTHORS):
        value: _Value = (None, why)
        if call is not None and not void:
            value = _points(duel, call, outcomes, reading)
        yield scored.score("duel", value, None, reading=reading, dup=JUDGE, **tags)
        if decided is not None and not void:
            value = (decided, None)
        yield scored.score("duel", value, None, reading=reading, dup=DUP, **tags)


def score_loop(
    scored: Scored, utterances: tuple[str, ...] | None, settings: DupDetect
) -> Iterator[Score]:
    """Whether and when the dialogue begins to repeat itself; unscored where it is not whole (None).

    The utterance that repeats is the last that counts as non-looping; without one all do (paper,
    sections 3.2 and 4.3).
    """
    if utterances is None:
        yield scored.score("non_loop", (None, UNFINISHED))
        yield scored.score("non_loop_utterances", (None, UNFINISHED))
        return
    repeat = first_repeat(utterances, settings)
    yield scored.score("non_loop", (float(repeat is None), None))
    yield scored.score("non_loop_utterances", (float(repeat or len(utterances)), None))


def score_utterance(scored: Scored, number: int, outcome: Outcome) -> Iterator[Score]:
    """How long a generated utterance is, how it ended, and how many others its prompt lost.

    `words` are separated by blanks, `tokens` counted by the model's server.
    """
    for metric, value, why in endings(outcome):
        yield scored.score(metric, (value, why), number)
    if isinstance(outcome, Reply):
        yield from score_length(scored, number, outcome.text)
        yield scored.score("dropped", (float(outcome.dropped), None), number)
        return
    for metric in ("characters", "words", "dropped"):
        yield scored.score(metric, (None, outcome.why), number)


def score_length(scored: Scored, number: int, utterance: str | None) -> Iterator[Score]:
    """How long an utterance is, whoever said it; unscored where there is none."""
    for metric, counted in (("characters", utterance), ("words", utterance and utterance.split())):
        value = (None, UNFINISHED) if counted is None else (float(len(counted)), None)
        yield scored.score(metric, value, number)


def _ours(call: Call, outcomes: Outcomes) -> _Value:
    read = read_verdict(call, outcomes)
    return (None, read.why) if read.verdict is None else (read.verdict.scores[HUMAN], None)


def _theirs(call: Call, outcomes: Outcomes) -> _Value:
    verdict, why = _first_reply(call, outcomes, authors_human)
    return (None, why) if verdict is None else (verdict.scores[HUMAN], None)


def _first_reply(
    call: Call, outcomes: Outcomes, parser: Parser
) -> tuple[Verdict | None, str | None]:
    """The first reply by the authors' parser: they ask nothing again."""
    outcome = outcomes[call.id]
    if not isinstance(outcome, Reply):
        return None, outcome.why
    try:
        return parser(outcome.text), None
    except Unparsed:
        return None, UNKNOWN


def _passed(human: _Value, length: int) -> _Value:
    """Whether the first utterance taken for AI comes after `length` others."""
    return (None, human[1]) if human[0] is None else (float(human[0] >= length), None)


def _points(duel: Duel, call: Call, outcomes: Outcomes, reading: str) -> _Value:
    if reading == OURS:
        read = read_verdict(call, outcomes)
        verdict, why = read.verdict, read.why
    else:
        verdict, why = _first_reply(call, outcomes, authors_comparison)
    if verdict is None:
        return None, why
    match verdict.label:
        case "both":
            return BAD_TIE, None
        case "neither":
            return GOOD_TIE, None
    taken = {FIRST: "1", SECOND: "2"}[str(verdict.label)]
    return (LOSS if taken == duel.order else WIN), None


def _looped(duel: Duel, outcomes: Outcomes, settings: DupDetect) -> float | None:
    """What DupDetect decides: a tie if both loop, else a win for the one that does not.

    The paper's tie has no weight in the authors' Score; two loops count as two bad dialogues here.
    """
    own, other = (spoken(lines, outcomes) for lines in duel.searched)
    if own is None or other is None:
        return None
    own_loops, other_loops = (first_repeat(each, settings) is not None for each in (own, other))
    if own_loops:
        return BAD_TIE if other_loops else LOSS
    return WIN if other_loops else None
