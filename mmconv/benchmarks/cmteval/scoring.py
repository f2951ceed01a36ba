"""From a judgement to scores: IS, Adp and TLS by turn, DLS by dialogue.

Metrics by turn: `IS` and `Adp` (1 to 5), `TLS` (their mean), `merged` (1 if the judge scored the
turn together with others). By dialogue (turn 0): `DLS` and `DLS_min`, the mean and the least TLS of
its turns, and `surplus`, how many turns were scored that the dialogue has not. A dialogue with an
unscored turn has no DLS and no DLS_min: the turns that are left out are not like the others, and
the least of the rest could only flatter it. `authors_IS` and `authors_Adp` follow the authors'
script: a number is taken whatever it is, and 3 stands for one that is not there. For each reply of
a live run: those of `mmconv.benchmarks.shared.endings`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from judges import Reading, read_verdict
from judges.parsers.cmteval import DIMENSIONS, HIGHEST, LOWEST, is_on_scale
from mmconv.benchmarks.cmteval.data import Dialogue, UserTurn
from mmconv.benchmarks.cmteval.fields import ACTS, PATTERNS, PERSONAS, STRATEGIES
from mmconv.benchmarks.cmteval.grading import JUDGEMENT
from mmconv.benchmarks.cmteval.options import CONDITION
from mmconv.benchmarks.shared.endings import endings
from mmconv.benchmarks.shared.scoring import Calls, Outcomes
from mmconv.core.types import UNPARSED, Call, Score

AUTHORS_DEFAULT = 3.0
"""What the authors' script gives to a turn, or a whole reply, without a score that it can read."""

MISSING = "missing in the judgement"
OFF_SCALE = f"not a whole number from {LOWEST} to {HIGHEST}"
DEFAULTED = (MISSING, UNPARSED)
"""Why a turn has no score that the authors' script can read, and gets `AUTHORS_DEFAULT`."""


def score_dialogue(
    dialogue: Dialogue, calls: Calls, outcomes: Outcomes, model: str
) -> Iterator[Score]:
    """All scores of one dialogue of a live run; without a judgement those of the replies."""
    scored = _Scored(dialogue=dialogue, model=model)
    for turn in dialogue.turns:
        for metric, value, why in endings(outcomes[f"turn_{turn.number}"]):
            yield scored.by_turn(turn, metric, value, why)
    if JUDGEMENT in calls:
        yield from score_judgement(dialogue, calls[JUDGEMENT], outcomes, model)


def score_judgement(
    dialogue: Dialogue, call: Call, outcomes: Outcomes, model: str
) -> Iterator[Score]:
    """The scores that the judgement of one dialogue leads to, live or published."""
    reading = read_verdict(call, outcomes)
    scored = _Scored(dialogue=dialogue, model=model)
    turn_scores = []
    for turn in dialogue.turns:
        made = list(scored.turn(turn, reading))
        turn_scores += [score for score in made if score.metric == "TLS"]
        yield from made
    values = [score.value for score in turn_scores if score.value is not None]
    why = next((score.why for score in turn_scores if score.why is not None), None)
    yield scored.whole("DLS", None if why else math.fsum(values) / len(values), why)
    yield scored.whole("DLS_min", None if why else min(values), why)
    if reading.verdict is None:
        yield scored.whole("surplus", None, reading.why)
    else:
        judged = {int(name.partition("/")[0]) for name in reading.verdict.scores}
        surplus = judged - {turn.number for turn in dialogue.turns}
        yield scored.whole("surplus", float(len(surplus)), None)


def act_tag(act: str) -> str:
    """The tag that a turn has for one of its speech acts; it tells how often the label names it."""
    return f"act {act}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    """Makes the scores of one dialogue, each with the tags that tables group by."""

    dialogue: Dialogue
    model: str

    def turn(self, turn: UserTurn, reading: Reading) -> Iterator[Score]:
        """The scores that one turn has from the judgement."""
        values = []
        for name in DIMENSIONS:
            value, why = _on_scale(reading, turn.number, name)
            yield self.by_turn(turn, name, value, why)
            values.append((value, why))
        (synthesis, lack), (adaptability, other_lack) = values
        if synthesis is None or adaptability is None:
            yield self.by_turn(turn, "TLS", None, lack or other_lack)
        else:
            yield self.by_turn(turn, "TLS", (synthesis + adaptability) / 2, None)
        for name in DIMENSIONS:
            yield self.by_turn(turn, f"authors_{name}", *_as_authors(reading, turn.number, name))
        yield self.by_turn(turn, "merged", *_found(reading, turn.number, "merged"))

    def by_turn(self, turn: UserTurn, metric: str, value: float | None, why: str | None) -> Score:
        """A score of one turn, with its speech acts and challenge strategy."""
        tags = self._tags()
        for act in turn.acts:
            tags[act_tag(ACTS[act])] = str(turn.acts.count(act))
        if self.dialogue.subset == "hard":
            tags["strategy"] = STRATEGIES[turn.strategy] if turn.strategy else "none"
        return self._score(metric, turn.number, tags, (value, why))

    def whole(self, metric: str, value: float | None, why: str | None) -> Score:
        """A score of the whole dialogue."""
        return self._score(metric, 0, self._tags(), (value, why))

    def _score(
        self, metric: str, turn: int, tags: dict[str, str], found: tuple[float | None, str | None]
    ) -> Score:
        value, why = found
        return Score(
            sample=self.dialogue.key,
            condition=CONDITION,
            metric=metric,
            turn=turn,
            tags=tags,
            value=value,
            why=why,
        )

    def _tags(self) -> dict[str, str]:
        dialogue = self.dialogue
        return {
            "model": self.model,
            "subset": dialogue.subset,
            "pattern": PATTERNS.get(dialogue.pattern, dialogue.pattern),
            "persona": PERSONAS.get(dialogue.persona, dialogue.persona),
        }


def _found(reading: Reading, turn: int, name: str) -> tuple[float | None, str | None]:
    if reading.verdict is None:
        return None, reading.why
    value = reading.verdict.scores.get(f"{turn}/{name}")
    return value, MISSING if value is None else None


def _on_scale(reading: Reading, turn: int, name: str) -> tuple[float | None, str | None]:
    value, why = _found(reading, turn, name)
    if value is not None and not is_on_scale(value):
        return None, OFF_SCALE
    return value, why


def _as_authors(reading: Reading, turn: int, name: str) -> tuple[float | None, str | None]:
    value, why = _found(reading, turn, name)
    return (AUTHORS_DEFAULT, None) if why in DEFAULTED else (value, why)
