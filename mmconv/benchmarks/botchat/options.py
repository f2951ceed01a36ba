"""BotChat's own options: what the paper fixes, and what it leaves open.

Nothing is read or computed here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from mmconv.benchmarks.several import Several

Protocol: TypeAlias = Literal["unieval", "gteval", "paireval"]
Similarity: TypeAlias = Literal["characters", "words"]
Scope: TypeAlias = Literal["compared", "whole"]

UNCON = "uncon"
CON = "con"
CONDITIONS = (UNCON, CON)
"""Without and with the record's reference document in the system prompt (paper, section 3.1)."""

SEED = 2
"""How many utterances of the human dialogue begin each generated one (paper: ChatSEED)."""

UTTERANCES = 16
"""How many utterances a generated dialogue has, the seed included (paper, section 4.1)."""

CHECKPOINTS = (4, 8, 12, 16)
"""The lengths at which UniEval's pass rate is told (paper, Figure 3)."""

SHORTEST_HUMAN = 4
"""Pairs are made of dialogues whose human original has so many utterances (paper: N = 4)."""


class DupDetect(BaseModel):
    """When an utterance repeats an earlier one: the paper names neither measure nor threshold.

    `similarity` is difflib's ratio over characters or over words, both without case; an utterance
    repeats another if their similarity is above `threshold`. Before a comparison it looks at what
    is `compared`, cut to its length, or at the `whole` dialogues; the paper can be read both ways.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    similarity: Similarity = "characters"
    threshold: float = Field(default=0.9, ge=0, le=1)
    scope: Scope = "compared"

    def __str__(self) -> str:
        where = "the compared utterances" if self.scope == "compared" else "whole dialogues"
        return f"difflib's ratio over {self.similarity} above {self.threshold!r}, in {where}"


class BotChatOptions(BaseModel):
    """Options under `options:` of a run file.

    `opponents` are folders of earlier runs, or files of dialogues in the authors' layout
    (MuTualTest-convs.tsv), whose models take part in PairEval; so does every seat beside candidate
    and judge, which speaks in the run itself. `pairs` are the candidate with each opponent, or all
    pairs; `pair_lengths` the lengths that paired dialogues are cut to, by default `utterances`.
    `prompt_role` "user" sends the system prompt in the first user message, for models whose chat
    template has no place for one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: Path
    utterances: int = Field(default=UTTERANCES, gt=SEED)
    protocols: Several[Protocol] = ("unieval", "gteval", "paireval")
    opponents: Several[Path] = ()
    pairs: Literal["candidate", "all"] = "candidate"
    pair_lengths: Several[int] = ()
    dup_detect: DupDetect = DupDetect()
    prompt_role: Literal["system", "user"] = "system"
    judge_retries: int = Field(default=1, ge=0)
    generate_only: bool = False
    skip_bad_records: bool = False
    max_tokens: int = Field(default=1024, gt=0)
    judge_max_tokens: int = Field(default=1024, gt=0)

    @field_validator("protocols", "pair_lengths")
    @classmethod
    def _once(cls, value: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(dict.fromkeys(value))

    @model_validator(mode="after")
    def _pairs_fit(self) -> BotChatOptions:
        if any(not SEED < length <= self.utterances for length in self.pair_lengths):
            raise ValueError(
                f"pair_lengths: a pair has more than the {SEED} utterances of its seed "
                f"and at most {self.utterances}"
            )
        return self

    @property
    def judged(self) -> tuple[Protocol, ...]:
        """The protocols that a judge is asked for."""
        return () if self.generate_only else self.protocols

    @property
    def cuts(self) -> tuple[int, ...]:
        """The lengths that PairEval compares at."""
        return self.pair_lengths or (self.utterances,)

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """The lengths that UniEval tells a pass rate at: the paper's, and the whole dialogue."""
        below = tuple(length for length in CHECKPOINTS if length < self.utterances)
        return (*below, self.utterances)
