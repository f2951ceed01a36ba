"""How many tokens an image takes, by the rules that providers publish.

The figures stand in model files. They serve to estimate what a run would cost: nothing that is
asked depends on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil

from pydantic import BaseModel, ConfigDict, Field, model_validator

PIXELS_PER_TOKEN = 750.0
"""Of a model whose file tells no rule: most take about so many pixels for one token."""

_TILE = 512
"""OpenAI's tiles, in pixels; what follows bounds the image that is cut into them."""
_LONGER = 2048
_SHORTER = 768


class ImageTokens(BaseModel):
    """The tokens that an image takes: the sum of what is set, `most` at the most."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    each: int = Field(default=0, ge=0)
    """Of an image of any size."""
    patch: int | None = Field(default=None, gt=0)
    """One for each square of so many pixels a side."""
    tile: int = Field(default=0, ge=0)
    """So many for each of OpenAI's tiles, which are cut after the image was scaled down."""
    most: int | None = Field(default=None, gt=0)
    """The bound that the server scales larger images down to."""

    @model_validator(mode="after")
    def _counts(self) -> ImageTokens:
        if not (self.each or self.patch or self.tile):
            raise ValueError("set each, patch or tile")
        return self

    def count(self, width: int, height: int) -> int:
        """The tokens of an image that is sent in this size, in pixels."""
        tokens = self.each
        if self.patch is not None:
            tokens += ceil(width / self.patch) * ceil(height / self.patch)
        if self.tile:
            tokens += self.tile * _count_tiles(width, height)
        return tokens if self.most is None else min(tokens, self.most)

    def __str__(self) -> str:
        bound = "" if self.most is None else f", at most {self.most:,}"
        return " and ".join(self._terms()) + bound

    def _terms(self) -> Iterator[str]:
        if self.each:
            yield f"{self.each:,}"
        if self.patch is not None:
            yield f"one for each {self.patch} x {self.patch} pixels"
        if self.tile:
            yield f"{self.tile:,} for each tile of {_TILE} x {_TILE} pixels"


def _count_tiles(width: int, height: int) -> int:
    # Fractions: a side of 2048 pixels must not become a hair more, and so another tile.
    longer, shorter = max(width, height), min(width, height)
    scale = min(Fraction(1), Fraction(_LONGER, longer), Fraction(_SHORTER, shorter))
    return ceil(width * scale / _TILE) * ceil(height * scale / _TILE)
