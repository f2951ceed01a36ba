"""BotChat's own options: what the paper fixes, and what it leaves open.

Nothing is read or computed here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from mmconv.benchmarks.shared.options import (
    ANY_SEAT,
    CANDIDATE,
    JUDGE,
    BenchmarkOptions,
    Description,
    Several,
)

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


class DupDetect(BenchmarkOptions):
    """When an utterance repeats an earlier one: the paper names neither measure nor threshold.

    An utterance repeats another if their similarity is above the threshold.
    """

    similarity: Similarity = "characters"
    """What difflib's ratio is taken over, without case."""
    threshold: float = Field(default=0.9, ge=0, le=1)
    """The similarity above which an utterance repeats another; `mmconv calibrate` fits it."""
    scope: Scope = "compared"
    """Whether a comparison looks at what is compared, cut to its length, or at whole dialogues."""

    def __str__(self) -> str:
        where = "the compared utterances" if self.scope == "compared" else "whole dialogues"
        return f"difflib's ratio over {self.similarity} above {self.threshold!r}, in {where}"


class BotChatOptions(BenchmarkOptions):
    """Options under `options:` of a run file."""

    data: Path
    """The human dialogues: MuTual_test.xlsx, or a file of records in its layout."""
    utterances: int = Field(default=UTTERANCES, gt=SEED, le=1000)
    """How many utterances a generated dialogue has, the two of its seed included."""
    protocols: Several[Protocol] = ("unieval", "gteval", "paireval")
    """What the judge is asked for; PairEval needs opponents."""
    opponents: Several[Path] = ()
    """PairEval's other models: folders of earlier runs, or files like MuTualTest-convs.tsv."""
    pairs: Literal["candidate", "all"] = "candidate"
    """Whether PairEval compares the candidate with each opponent, or everybody with everybody."""
    pair_lengths: Several[int] = ()
    """The lengths that paired dialogues are cut to; none stands for `utterances`."""
    dup_detect: DupDetect = DupDetect()
    """When a dialogue counts as a loop."""
    prompt_role: Literal["system", "user"] = "system"
    """Who says the prompt; `user` is for chat templates without a place for a system prompt."""
    judge_retries: int = Field(default=1, ge=0, le=5)
    """How often an unreadable verdict is asked for again; at temperature 0 it may come again."""
    generate_only: bool = False
    """Ask the candidate only, and no judge."""
    skip_bad_records: bool = False
    """Go on without incomplete or unreadable records; the report lists them."""
    max_tokens: int = Field(default=1024, gt=0)
    """The longest utterance, in tokens."""
    judge_max_tokens: int = Field(default=1024, gt=0)
    """The judge's longest reply, in tokens."""

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


DESCRIPTION = Description(
    options=BotChatOptions,
    conditions={
        UNCON: "Dialogues go on from two utterances.",
        CON: "The prompt holds the record's reference document too, its title and text.",
    },
    unnamed="uncon, and con where all records have a document",
    seats={
        "candidate": CANDIDATE,
        "judge": JUDGE,
        ANY_SEAT: "Any other seat, of any name: an opponent, which talks in the run itself.",
    },
    judging=frozenset({"dup_detect", "judge_retries", "judge_max_tokens"}),
)
"""What `mmconv options botchat` prints."""
