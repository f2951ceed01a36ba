"""The one safe door: every image that mmconv takes in is checked and decoded here.

Sizes are checked before anything is allocated for them: bytes, frames, then pixels. What comes out
is upright 8-bit RGB. Colour profiles are not applied, and of several frames only the first is used.

Pillow's own limit (`PIL.Image.MAX_IMAGE_PIXELS`) belongs to the process and keeps its value. For
GIF, TIFF and WebP it holds as well as `Limits`: Pillow warns above it and refuses above twice that.
"""

from __future__ import annotations

import io
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import PIL.Image
from PIL.BmpImagePlugin import BmpImageFile
from PIL.ExifTags import Base
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TILELENGTH, TILEWIDTH, TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from images.header import (
    count_gif_frames,
    count_scans,
    count_tiff_frames,
    read_media_type,
    read_webp_size,
    without_pixels,
)
from mmconv.core.errors import ImageError
from mmconv.core.keys import hash_bytes
from mmconv.core.types import Image

# The formats' own classes, since `PIL.Image.open` would try every format that Pillow knows.
_READERS: dict[str, type[ImageFile]] = {
    "image/jpeg": JpegImageFile,
    "image/png": PngImageFile,
    "image/gif": GifImageFile,
    "image/webp": WebPImageFile,
    "image/bmp": BmpImageFile,
    "image/tiff": TiffImageFile,
}

# A usual progressive JPEG has ten scans. Each costs time for the whole picture and may be a few
# bytes long: 35 ms at 100 megapixels, so that a small file could keep a decoder busy for hours.
_MOST_SCANS = 100

# What Pillow raises on damaged files, by its source and by fuzzing it with all six formats.
_BROKEN = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    EOFError,
    struct.error,
)

# Signed and 32-bit grey: nothing in the file says which values are black and white. Pillow cannot
# turn LAB into RGB without a colour profile.
_UNSCALED = ("I", "F", "LAB")

_UPRIGHT = {
    2: PIL.Image.Transpose.FLIP_LEFT_RIGHT,
    3: PIL.Image.Transpose.ROTATE_180,
    4: PIL.Image.Transpose.FLIP_TOP_BOTTOM,
    5: PIL.Image.Transpose.TRANSPOSE,
    6: PIL.Image.Transpose.ROTATE_270,
    7: PIL.Image.Transpose.TRANSVERSE,
    8: PIL.Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest image that is let in: bytes of the file, pixels of a frame, frames.

    `max_ratio` is how many times the longer side may be as long as the shorter one: processors that
    enlarge the shorter side to a size of theirs would make gigabytes of a line of pixels.
    """

    max_bytes: int = 50_000_000
    max_pixels: int = 100_000_000
    max_frames: int = 1000
    max_ratio: int = 200


PASSED = Limits(
    max_bytes=sys.maxsize, max_pixels=sys.maxsize, max_frames=sys.maxsize, max_ratio=sys.maxsize
)
"""For files that were let in before, by limits that whoever opened the door had chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was found out about an image file.

    `sha256` (hex) and `byte_count` are the file's; `width` and `height` are pixels after EXIF
    orientation; `mode` is Pillow's name for the pixels as they are stored.
    """

    sha256: str
    media_type: str
    width: int
    height: int
    mode: str
    frames: int
    byte_count: int

    @property
    def image(self) -> Image:
        """The image as it stands in a message."""
        return Image(
            sha256=self.sha256,
            media_type=self.media_type,
            width=self.width,
            height=self.height,
        )


def inspect(data: bytes, limits: Limits, where: str, sha256: str | None = None) -> Facts:
    """Check a file and that its whole (first) picture decodes; `where` names it in messages.

    `sha256` is the file's hash, where the caller has it already. A JPEG is read at an eighth of
    its size, and without its pixels where they can hold no error. Raises `ImageError`.
    """
    bound(where, "bytes", len(data), limits.max_bytes)
    media_type, image, frames = _open(without_pixels(data), limits, where)
    with _damage_named(where), image:
        mode = image.mode
        width, height = image.size
        image.draft("L", (1, 1))
        image.load()
        if _orientation(image) >= 5:
            width, height = height, width
    return Facts(
        sha256=sha256 or hash_bytes(data),
        media_type=media_type,
        width=width,
        height=height,
        mode=mode,
        frames=frames,
        byte_count=len(data),
    )


def bound(where: str, unit: str, value: int, most: int) -> None:
    """Raise `ImageError` for a count of bytes, pixels or frames that is above `most`."""
    if value > most:
        raise ImageError(
            f"{where}: {value:,} {unit}, and at most {most:,} are allowed; "
            "make the image smaller or raise the limit"
        )


def check(facts: Facts, limits: Limits, where: str) -> None:
    """Hold what is known about an image against the limits; raises `ImageError`."""
    bound(where, "bytes", facts.byte_count, limits.max_bytes)
    bound(where, "frames", facts.frames, limits.max_frames)
    _bound_size(where, facts.width, facts.height, limits)


def _bound_size(where: str, width: int, height: int, limits: Limits) -> None:
    bound(where, "pixels", width * height, limits.max_pixels)
    short, long = sorted((width, height))
    if long > short * limits.max_ratio:
        raise ImageError(
            f"{where}: {width:,} x {height:,} pixels, and a side may be at most {limits.max_ratio} "
            "times as long as the other; crop the image"
        )


def decode(data: bytes, limits: Limits, where: str) -> PIL.Image.Image:
    """The picture as upright 8-bit RGB; raises `ImageError`.

    Transparency is laid on white; 16-bit grey is scaled.
    """
    _, image, _ = _open(data, limits, where)
    with _damage_named(where), image:
        image.load()
        orientation = _orientation(image)
        picture = _to_rgb(image)
        return picture.transpose(_UPRIGHT[orientation]) if orientation in _UPRIGHT else picture


def is_plain(data: bytes, limits: Limits, where: str) -> bool:
    """Whether every reader shows the file alike: upright, one frame, 8 bits, nothing transparent.

    And no inks (CMYK), which some readers take for inverted. Raises `ImageError`.
    """
    _, image, frames = _open(data, limits, where)
    with _damage_named(where), image:
        if frames > 1 or image.mode == "CMYK" or _is_wide(image) or _orientation(image) != 1:
            return False
        if not image.has_transparency_data:
            return True
        return image.convert("RGBA").getchannel("A").getextrema() == (255, 255)


def _open(data: bytes, limits: Limits, where: str) -> tuple[str, ImageFile, int]:
    """Media type, the file opened but not decoded, and its number of frames."""
    bound(where, "bytes", len(data), limits.max_bytes)
    media_type = read_media_type(data, where)
    with _damage_named(where):
        if media_type == "image/jpeg":
            bound(where, "scans", count_scans(data), _MOST_SCANS)
        if media_type == "image/webp":
            wide, high = read_webp_size(data)
            _bound_size(where, wide, high, limits)
        counted = _count_frames(data, media_type, limits.max_frames)
        image = _READERS[media_type](io.BytesIO(data))
        _bound_size(where, image.width, image.height, limits)
        bound(where, "pixels", _tile_pixels(image), limits.max_pixels)
        frames = int(getattr(image, "n_frames", 1)) if counted is None else counted
    if frames > limits.max_frames:
        # They are not counted to the end.
        raise ImageError(
            f"{where}: more than {limits.max_frames:,} frames; make the image smaller or raise the "
            "limit"
        )
    if image.mode in _UNSCALED:
        raise ImageError(
            f"{where}: pixels of mode {image.mode} have no known range; save it with 8 or 16 bits"
        )
    return media_type, image, frames


def _tile_pixels(image: ImageFile) -> int:
    """What a decoder may allocate for one tile of a TIFF picture, which may be larger than it."""
    if isinstance(image, TiffImageFile):
        return int(image.tag_v2.get(TILEWIDTH, 0) * image.tag_v2.get(TILELENGTH, 0))
    return 0


def _count_frames(data: bytes, media_type: str, most: int) -> int | None:
    """The frames, where Pillow would walk through all of them to tell; else None."""
    if media_type == "image/gif":
        return count_gif_frames(data, most)
    if media_type == "image/tiff":
        return count_tiff_frames(data, most)
    return None


def _orientation(image: ImageFile) -> int:
    """The EXIF orientation, 1 to 8; 1 where none can be read, as every viewer has it."""
    if isinstance(image, TiffImageFile):
        return 1  # Pillow turns TIFF files itself, and gives the size so turned.
    if isinstance(image, PngImageFile):
        image.load()  # Pillow would do so below, where damage to pixels would pass for no EXIF.
    try:
        value = image.getexif().get(Base.Orientation, 1)
    except _BROKEN:
        return 1
    return value if value in _UPRIGHT else 1


def _is_wide(image: PIL.Image.Image) -> bool:
    return image.mode.startswith("I;16")


def _to_rgb(image: PIL.Image.Image) -> PIL.Image.Image:
    if _is_wide(image):
        return image.convert("I").point(lambda value: value / 257 + 0.5).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    white = PIL.Image.new("RGBA", image.size, "white")
    white.alpha_composite(image.convert("RGBA"))
    return white.convert("RGB")


@contextmanager
def _damage_named(where: str) -> Iterator[None]:
    try:
        yield
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning) as error:
        raise ImageError(
            f"{where}: Pillow refuses an image of this size ({error}); make the image smaller"
        ) from error
    except _BROKEN as error:
        raise ImageError(
            f"{where}: the image does not decode ({error}); it is damaged or cut off: replace it"
        ) from error
