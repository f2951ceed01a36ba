"""Decoding: every image that mmconv takes in is checked and decoded here.

Sizes are checked before anything is allocated for them: bytes, frames, then pixels. The result is
upright 8-bit RGB. Colour profiles are not applied, and of several frames only the first is used.

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

from mmconv.core.errors import ImageError
from mmconv.core.keys import hash_bytes
from mmconv.core.types import Image

_SIGNATURES = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
)

# The formats' own classes, since `PIL.Image.open` would try every format that Pillow knows.
_READERS: dict[str, type[ImageFile]] = {
    "image/jpeg": JpegImageFile,
    "image/png": PngImageFile,
    "image/gif": GifImageFile,
    "image/webp": WebPImageFile,
    "image/bmp": BmpImageFile,
    "image/tiff": TiffImageFile,
}

# A usual progressive JPEG has ten scans. Each costs time for the whole image and may be a few bytes
# long: 35 ms at 100 megapixels, so that a small file could keep a decoder busy for hours.
_MOST_SCANS = 100

# Pillow's exceptions for damaged files, by its source and by fuzzing it with all six formats.
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

# Signed and 32-bit grey: the file does not say which values are black and white. Pillow cannot
# convert LAB to RGB without a colour profile.
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


def read_media_type(data: bytes, where: str) -> str:
    """The media type by content, whatever the file's suffix claims.

    Raises `ImageError` for anything but JPEG, PNG, GIF, WebP, BMP and (classic) TIFF.
    """
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    for signature, media_type in _SIGNATURES:
        if data.startswith(signature):
            return media_type
    problem = "is empty" if not data else f"is of another kind (it starts with {data[:8]!r})"
    raise ImageError(f"{where}: {problem}; give a JPEG, PNG, GIF, WebP, BMP or TIFF file")


def read_webp_size(data: bytes) -> tuple[int, int]:
    """Width and height in pixels of a WebP file's canvas.

    Raises `ValueError` if the first chunk does not hold a size.
    """
    match data[12:16]:
        case b"VP8X":
            wide, high = (int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
            return wide + 1, high + 1
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            wide, high = struct.unpack_from("<HH", data, 26)
            return wide & 0x3FFF, high & 0x3FFF
        case other:
            raise ValueError(f"a WebP file cannot start with the chunk {other!r}")


def count_gif_frames(data: bytes, most: int) -> int:
    """The number of frames of a GIF file; stops counting above `most`.

    Raises `IndexError` or `ValueError` if the file ends within a block or if a block starts with
    an unknown byte. A missing trailer is accepted, as by every reader.
    """
    at = _after_palette(data, 13, data[10])
    frames = 0
    while frames <= most and at < len(data) and data[at] != 0x3B:
        if data[at] == 0x21:
            at = _after_blocks(data, at + 2)
        elif data[at] == 0x2C:
            frames += 1
            at = _after_blocks(data, _after_palette(data, at + 10, data[at + 9]) + 1)
        else:
            raise ValueError(f"byte {at} starts no GIF block")
    return frames


def _after_palette(data: bytes, at: int, flags: int) -> int:
    return at + (3 << (flags & 7) + 1 if flags & 0x80 else 0)


def _after_blocks(data: bytes, at: int) -> int:
    while data[at]:
        at += data[at] + 1
    return at + 1


def count_tiff_frames(data: bytes, most: int) -> int:
    """The number of images in a classic TIFF file; stops counting above `most`.

    Files whose directories form a circle therefore have more than `most`. Raises `struct.error` if
    a directory is outside the file.
    """
    order = "<" if data.startswith(b"II") else ">"
    (at,) = struct.unpack_from(order + "I", data, 4)
    frames = 0
    while at and frames <= most:
        frames += 1
        (entries,) = struct.unpack_from(order + "H", data, at)
        (at,) = struct.unpack_from(order + "I", data, at + 2 + 12 * entries)
    return frames


_FRAME_COUNTERS = {"image/gif": count_gif_frames, "image/tiff": count_tiff_frames}
"""For formats of which Pillow would walk through all frames to count them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest image that is accepted: bytes of the file, pixels of a frame, frames.

    `max_ratio` bounds the longer side divided by the shorter one: processors that enlarge the
    shorter side to a fixed size would make gigabytes of a line of pixels.
    """

    max_bytes: int = 50_000_000
    max_pixels: int = 100_000_000
    max_frames: int = 1000
    max_ratio: int = 200


PASSED = Limits(
    max_bytes=sys.maxsize, max_pixels=sys.maxsize, max_frames=sys.maxsize, max_ratio=sys.maxsize
)
"""No limits: for files that were accepted before, by the limits of that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The properties of an image file.

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
        """The image as part of a message."""
        return Image(
            sha256=self.sha256, media_type=self.media_type, width=self.width, height=self.height
        )


def inspect(data: bytes, limits: Limits, where: str, sha256: str | None = None) -> Facts:
    """Check a file and that its whole (first) image decodes; `where` names it in messages.

    `sha256` is the file's hash, if the caller has it already. A JPEG is read at an eighth of its
    size. Raises `ImageError`.
    """
    media_type, image, frames = _open(data, limits, where)
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
            f"{where}: {value:,} {unit}, and at most {most:,} are allowed; make the image smaller"
        )


def check(facts: Facts, limits: Limits, where: str) -> None:
    """Check an image's properties against the limits; raises `ImageError`."""
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


def decode(data: bytes, limits: Limits, where: str, side: int | None = None) -> PIL.Image.Image:
    """The image as upright 8-bit RGB; raises `ImageError`.

    Transparency becomes white; 16-bit grey is scaled. With `side`, a JPEG is read at a fraction of
    its size, with at least so many pixels a side, which takes a fifth of the time.
    """
    _, image, _ = _open(data, limits, where)
    with _damage_named(where), image:
        if side is not None:
            image.draft("RGB", (side, side))
        image.load()
        orientation = _orientation(image)
        picture = _to_rgb(image)
        return picture.transpose(_UPRIGHT[orientation]) if orientation in _UPRIGHT else picture


def is_plain(data: bytes, limits: Limits, where: str) -> bool:
    """Whether every reader shows the file alike: upright, one frame, 8 bits, nothing transparent.

    Also not CMYK, which some readers invert. Raises `ImageError`.
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
            # Inside a scan 0xFF is always escaped; scans of embedded previews count too.
            bound(where, "scans", data.count(b"\xff\xda"), _MOST_SCANS)
        if media_type == "image/webp":
            wide, high = read_webp_size(data)
            _bound_size(where, wide, high, limits)
        frames = 0
        if count_frames := _FRAME_COUNTERS.get(media_type):
            frames = count_frames(data, limits.max_frames)
        image = _READERS[media_type](io.BytesIO(data))
        _bound_size(where, image.width, image.height, limits)
        if isinstance(image, TiffImageFile):
            # A decoder may allocate a whole tile, which may be larger than the image.
            tile = image.tag_v2.get(TILEWIDTH, 0) * image.tag_v2.get(TILELENGTH, 0)
            bound(where, "pixels", int(tile), limits.max_pixels)
        frames = frames or int(getattr(image, "n_frames", 1))
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


def _orientation(image: ImageFile) -> int:
    """The EXIF orientation, 1 to 8; 1 if none can be read, as in every viewer."""
    if isinstance(image, TiffImageFile):
        return 1  # Pillow turns TIFF files itself, and gives the size after that.
    if isinstance(image, PngImageFile):
        image.load()  # Otherwise Pillow does so below, and damaged pixels would pass for no EXIF.
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
