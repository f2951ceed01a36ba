"""A canvas whose pixels depend on its calls alone: shipped fonts, basic text layout, whole numbers.

Everything is drawn at twice its size and halved by averaging. Coordinates are in pixels of the
finished image, with y downwards. Directions are in degrees, clockwise from twelve o'clock.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, TypeAlias

from PIL import Image, ImageDraw, ImageFont

from images.drawn.words import Colour, load_table

Point: TypeAlias = tuple[float, float]
Ink: TypeAlias = Colour | None
Edge: TypeAlias = tuple[Ink, float]
"""The colour of an outline and its width in pixels."""
Face: TypeAlias = Literal["sans", "bold", "serif", "mono"]

INK: Final[Colour] = (38, 40, 46)
PALE: Final[Colour] = (205, 208, 214)
WHITE: Final[Colour] = (255, 255, 255)

BARE: Final[Edge] = (None, 0)

FINGERPRINT: Final = "a55fa631c14a4dad"
"""That of the machine on which the shipped tests pass."""

_SCALE = 2
_FONTS: Final[dict[Face, str]] = {
    "sans": "Sans",
    "bold": "Sans-Bold",
    "serif": "Serif",
    "mono": "SansMono",
}
_CORNERS: Final[dict[str, list[Point]]] = load_table("outlines")["marks"]


class Canvas:
    """An image in the making, of `width` times `height` pixels."""

    def __init__(self, width: int, height: int, ground: Colour = WHITE) -> None:
        self.width, self.height = width, height
        self._image = Image.new("RGB", (width * _SCALE, height * _SCALE), ground)
        self._draw = ImageDraw.Draw(self._image)

    def box(
        self, corner: Point, opposite: Point, fill: Ink = None, edge: Edge = BARE, radius: float = 0
    ) -> None:
        """An upright rectangle from its upper left corner to the opposite one."""
        left, top, right, bottom = *_scaled(corner), *_scaled(opposite)
        place = (left, top, max(left, right - 1), max(top, bottom - 1))
        rounding, thick = round(radius * _SCALE), round(edge[1] * _SCALE)
        self._draw.rounded_rectangle(place, rounding, fill, edge[0], thick)

    def disc(self, centre: Point, radius: float, fill: Ink = None, edge: Edge = BARE) -> None:
        """A circle, filled or not."""
        (x, y), r, thick = _scaled(centre), round(radius * _SCALE), round(edge[1] * _SCALE)
        self._draw.ellipse((x - r, y - r, x + r, y + r), fill, edge[0], thick)

    def sector(self, centre: Point, radius: float, start: float, end: float, fill: Colour) -> None:
        """A slice of a pie between two directions."""
        steps = max(2, math.ceil((end - start) / 2))
        turns = [start + (end - start) * step / steps for step in range(steps + 1)]
        self.polygon([centre, *(polar(centre, radius, turn) for turn in turns)], fill)

    def polygon(self, points: Sequence[Point], fill: Colour) -> None:
        """A filled polygon."""
        self._draw.polygon([_scaled(point) for point in points], fill)

    def mark(self, shape: str, centre: Point, radius: float, fill: Colour) -> None:
        """A circle or a shape of `outlines.toml`; those of one radius have about equal areas."""
        if shape == "circle":
            self.disc(centre, radius * 0.95, fill, (INK, 1.5))
        else:
            points = [polar(centre, radius * far, turn) for turn, far in _CORNERS[shape]]
            self.polygon(points, fill)
            self.line([*points, points[0]], INK, 1.5)

    def line(self, points: Sequence[Point], colour: Colour = INK, width: float = 1) -> None:
        """A line through points, with round ends if it is thick."""
        for start, end in pairwise(points):
            thick = max(1, round(width * _SCALE))
            self._draw.line((*_scaled(start), *_scaled(end)), colour, thick)
        if width > 2:
            for point in points:
                self.disc(point, width / 2 - 0.25, colour)

    def dashes(self, start: Point, end: Point, colour: Colour = INK, width: float = 1) -> None:
        """A dashed line."""
        count = max(1, round(math.dist(start, end) / 10))
        for step in range(count):
            shares = step / count, (step + 0.55) / count
            (x, y), (across, down) = start, (end[0] - start[0], end[1] - start[1])
            self.line([(x + across * s, y + down * s) for s in shares], colour, width)

    def text(
        self,
        place: Point,
        text: str,
        size: float,
        *,
        face: Face = "sans",
        colour: Colour = INK,
        anchor: str = "mm",
    ) -> None:
        """One line of text; `anchor` is Pillow's, "mm" for the middle and "lm" for the left end."""
        self._draw.text(_scaled(place), text, colour, _font(face, size), anchor)

    def finish(self) -> bytes:
        """The image in its size as a PNG file."""
        return png(self.image)

    @property
    def image(self) -> Image.Image:
        """The image in its size."""
        return self._image.reduce(_SCALE)


def text_width(text: str, size: float, face: Face = "sans") -> float:
    """The width of a line of text in pixels."""
    return _font(face, size).getlength(text) / _SCALE


def polar(centre: Point, radius: float, direction: float) -> Point:
    """The point at a distance from `centre` in a direction."""
    angle = math.radians(direction)
    return centre[0] + radius * math.sin(angle), centre[1] - radius * math.cos(angle)


def mixed(colour: Colour, other: Colour, share: float) -> Colour:
    """A colour moved towards another by a share from 0 to 1."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(colour, other, strict=True))
    return red, green, blue


def png(image: Image.Image) -> bytes:
    """The image as a file."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=4)
    return buffer.getvalue()


def fingerprint() -> str:
    """A hash of a test card: machines with equal fingerprints draw equal pixels."""
    canvas = Canvas(200, 120, (250, 244, 230))
    canvas.box((10, 10), (60, 50), (200, 40, 40), (INK, 2), radius=6)
    canvas.disc((100, 40), 25.5, (40, 90, 200), (WHITE, 3))
    canvas.sector((160, 40), 30, 20, 200, (40, 150, 70))
    canvas.line([(10, 110), (40, 66), (70, 109)], width=3)
    canvas.dashes((80, 110), (190, 70), PALE, 2)
    for number, face in enumerate(_FONTS):
        canvas.text((60, 72 + 12 * number), "Quartz 0123456789 \u00b0\u20ac", 9.5, face=face)
    return hashlib.sha256(canvas.image.tobytes()).hexdigest()[:16]


@cache
def hash_code() -> str:
    """A hash of this folder, which decides what is drawn and asked, and how it is checked."""
    hashed = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.*")):
        if path.suffix != ".pyc":
            hashed.update(path.name.encode() + b"\0" + path.read_bytes())
    return hashed.hexdigest()[:16]


@cache
def _font(face: Face, size: float) -> ImageFont.FreeTypeFont:
    path = Path(__file__).with_name("fonts") / f"DejaVu{_FONTS[face]}.ttf"
    return ImageFont.truetype(path, round(size * _SCALE), layout_engine=ImageFont.Layout.BASIC)


def _scaled(point: Point) -> tuple[int, int]:
    return round(point[0] * _SCALE), round(point[1] * _SCALE)
