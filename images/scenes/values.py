"""What a scene is: a few coloured things on a plain ground. Values only; nothing is drawn here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Size: TypeAlias = Literal["small", "large"]
Difficulty: TypeAlias = Literal["easy", "normal", "hard"]

SHAPES: Final = ("circle", "square", "triangle", "star", "diamond", "cross")
COLOURS: Final = ("red", "orange", "yellow", "green", "blue", "purple", "black")
SIZES: Final[tuple[Size, ...]] = ("small", "large")
GROUNDS: Final = ("white", "grey", "beige", "mint")
DIFFICULTIES: Final[tuple[Difficulty, ...]] = ("easy", "normal", "hard")


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """One drawn thing.

    `x`, `y` (the middle, from the top left) and `radius` are shares of the picture's side. `shade`
    moves the colour off its plain tone, -1 to 1; `turn` is a rotation in degrees.
    """

    shape: str
    colour: str
    size: Size
    x: float
    y: float
    radius: float
    shade: float = 0.0
    turn: float = 0.0

    @property
    def name(self) -> str:
        """Colour and shape: no two things of a scene share both."""
        return f"{self.colour} {self.shape}"

    @property
    def upper(self) -> bool:
        """Whether the middle lies in the upper half."""
        return self.y < 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Two to five things from left to right, their ground, and what makes them hard to see.

    `noise` is the share of grain in every pixel, 0 to 1; `grain` seeds it. `front` numbers the
    things from back to front: where two overlap, the later one hides the earlier.
    """

    things: tuple[Thing, ...]
    ground: str
    noise: float
    grain: int
    front: tuple[int, ...]
