"""What a simulated candidate and its judge are told: rates, and what draws have in common.

A rate is the probability that a level fails if the answer before it is made right, or made wrong.
That holds whatever `alike` and the seed say. Among answers that simply came out wrong, the rate is
another where `alike.levels` ties the levels together: hard samples are over-represented.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

Rate: TypeAlias = Annotated[float, Field(ge=0, le=1)]

LOWEST_RATING = 1
HIGHEST_RATING = 10


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Propagation(_Frozen):
    """How often a level fails if the level before it is right, and if it is wrong."""

    after_right: Rate = 0.15
    """How often it fails after an answer that is right."""
    after_wrong: Rate = 0.7
    """How often it fails after an answer that is wrong."""


class Alike(_Frozen):
    """What the draws of a sample, or of a picture, have in common; each is a share."""

    levels: Rate = 0.0
    """Of the samples, those that draw once for all levels and conditions, so that one which is hard
    to perceive is also hard to reason about."""
    conditions: Rate = 0.0
    """Of the levels of the other samples, those that keep their draw whatever was said before and
    in every trial; the rest is drawn anew in each condition and trial."""
    image: Rate = 0.0
    """Of the pictures, those whose samples share all draws."""


class CandidateOptions(_Frozen):
    """Options of `simulated/candidate`: how often each level fails, given the level before it."""

    perception: Rate = 0.4
    """How often the first level fails."""
    reasoning: Propagation = Propagation()
    creation: Propagation = Propagation()
    alike: Alike = Alike()
    seed: int = 0
    """Another one draws all failures anew."""

    def rate(self, level: int, *, after_wrong: bool) -> float:
        """The rate at which turn `level` (1-3) fails; perception has nothing before it."""
        if level == 1:
            return self.perception
        known = self.reasoning if level == 2 else self.creation
        return known.after_wrong if after_wrong else known.after_right


class Ratings(_Frozen):
    """Direct ratings: whole numbers drawn evenly from `spread` below to `spread` above a centre."""

    right: int = 8
    """The centre of the ratings of an answer that is right."""
    wrong: int = 4
    """The centre of the ratings of an answer that is wrong."""
    spread: int = Field(default=1, ge=0)
    """How far a rating may lie from its centre."""

    @model_validator(mode="after")
    def _on_the_scale(self) -> Ratings:
        for centre in (self.right, self.wrong):
            drawn = self.drawn(centre)
            if drawn[0] < LOWEST_RATING or drawn[-1] > HIGHEST_RATING:
                raise ValueError(f"{centre} with a spread of {self.spread} leaves the scale 1-10")
        return self

    def drawn(self, centre: int) -> range:
        """The ratings that are drawn around a centre."""
        return range(centre - self.spread, centre + self.spread + 1)


class Wins(_Frozen):
    """How often an answer is preferred to the human's, where it is right and where it is wrong."""

    right: Rate = 0.8
    """How often an answer that is right is preferred."""
    wrong: Rate = 0.1
    """How often an answer that is wrong is preferred."""


class JudgeOptions(_Frozen):
    """Options of `simulated/judge`: how it rates and compares answers that are right or wrong.

    Every verdict is drawn on its own, given whether the judged answer is right. A verdict on the
    whole conversation is one on a single turn, which is drawn; a given turn counts as right.
    """

    rating: Ratings = Ratings()
    win: Wins = Wins()
    seed: int = 0
    """Another one draws all verdicts anew."""
