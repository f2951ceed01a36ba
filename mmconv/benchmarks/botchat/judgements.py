"""A finished dialogue, or a pair, judged as BotChat does: which utterances are a machine's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from mmconv.benchmarks.botchat.chains import written
from mmconv.benchmarks.botchat.grading import Grader
from mmconv.benchmarks.botchat.options import UNCON, DupDetect
from mmconv.benchmarks.botchat.players import GTEVAL, PAIREVAL, Duel
from mmconv.benchmarks.botchat.scoring import Scored, score_alone, score_duel
from mmconv.benchmarks.shared.judgements import SAMPLE, ByField, JudgementRequest, Supplies, Words
from mmconv.benchmarks.shared.scoring import Outcomes
from mmconv.core.types import Call, Sampling, Score

_PROTOCOLS = {"gteval": GTEVAL, "paireval": PAIREVAL}
"""The prompts that judge a pair, by the names that their comparisons go by."""


class BotChatJudgement(JudgementRequest):
    """Utterances of two speakers in turn, alone (`unieval`) or beside an `other` dialogue.

    In `gteval` the other one is people's. `order` says which conversation of the prompt the
    dialogue is. The judge says which is a machine's. The score of a pair is the dialogue's points:
    3 if only the other one is taken for a machine's, 1 if neither is, -1 if both are, -3 if only
    the dialogue is. Alone, its score is how many utterances come before the first that is taken
    for a machine's.
    """

    needing: ClassVar[ByField] = {"other": _PROTOCOLS}
    reading: ClassVar[ByField] = {"order": _PROTOCOLS}

    benchmark: Literal["botchat"]
    prompt: Literal["unieval", "gteval", "paireval"]
    utterances: tuple[Words, ...] = Field(min_length=1)
    other: tuple[Words, ...] | None = Field(default=None, min_length=1)
    order: Literal["1", "2"] = "1"

    def call(self, supplies: Supplies) -> Call:
        """The judgement of the dialogue, or of the pair."""
        grader = Grader(
            prompts=supplies.prompts,
            sampling=Sampling(max_tokens=self.max_tokens),
            retries=self.retries,
        )
        if self.other is None:
            return grader.alone(written(self.utterances))
        return grader.compared(self._duel(self.other))

    def scores(self, call: Call, outcomes: Outcomes) -> Iterator[Score]:
        """Utterances before the first one taken for AI; of a pair, the dialogue's points."""
        scored = Scored(sample=SAMPLE, condition=UNCON, model=SAMPLE)
        if self.other is None:
            lengths = (len(self.utterances),)
            yield from score_alone(scored, call, outcomes, lengths, human_length=None)
        else:
            yield from score_duel(scored, self._duel(self.other), call, outcomes, DupDetect())

    def _duel(self, other: Sequence[str]) -> Duel:
        pair = (written(self.utterances), written(other))
        return Duel(
            protocol=_PROTOCOLS[self.prompt],
            model=SAMPLE,
            opponent="other",
            length=len(self.utterances),
            order=self.order,
            own=pair[0],
            other=pair[1],
            searched=pair,
        )
