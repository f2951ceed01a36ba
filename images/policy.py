"""What a model is shown: its bounds, and the bytes or pixels that obey them.

The original bytes are sent untouched if the bounds allow it. Otherwise the image is resized here
and nowhere else, so that a served model and one in this process see the same. How a model cuts an
image into patches is left to its processor. Images made worse on purpose are made here too.
"""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from math import isqrt

import PIL.Image
import PIL.ImageFilter
import PIL.ImageStat

from images.decode import PASSED, decode, is_plain, read_media_type
from mmconv.core.errors import ConfigError
from mmconv.core.types import Image

LEAST_BYTES = 1000
"""The smallest limit for a file: an image of one pixel is smaller in either encoding."""

_LOSSY = ("image/jpeg", "image/webp")

_LONGEST_OF_JPEG = 65_500
"""Pixels of a side that Pillow's encoder accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A model's bounds: pixels in all, pixels of the longer side, media types its server takes.

    The upper bounds win: an image of extreme aspect may stay below `min_pixels`. Raises
    `ConfigError` for bounds that no image, or not every usual one, could obey.
    """

    max_pixels: int | None = None
    min_pixels: int | None = None
    max_side: int | None = None
    media_types: tuple[str, ...] = ("image/jpeg", "image/png", "image/webp", "image/gif")

    def __post_init__(self) -> None:
        # Rounding two sides to whole pixels can change their product by a factor of four.
        if self.min_pixels and self.max_pixels and self.min_pixels * 4 > self.max_pixels:
            raise ConfigError(
                f"image policy: min_pixels ({self.min_pixels}) is above a quarter of max_pixels "
                f"({self.max_pixels}); leave that much room for whole pixels"
            )
        if "image/png" not in self.media_types and "image/jpeg" not in self.media_types:
            raise ConfigError("image policy: media_types must have image/png or image/jpeg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An image file as a model's server gets it; sizes in pixels."""

    data: bytes
    media_type: str
    width: int
    height: int


def fit(policy: Policy, width: int, height: int) -> tuple[int, int]:
    """The size nearest to (width, height) that the policy allows, of the same aspect to a pixel.

    Sides are at least 1. Fitting a fitted size changes nothing.
    """
    if policy.min_pixels is not None and width * height < policy.min_pixels:
        return _grow(policy.min_pixels, policy.max_side, width, height)
    sizes = [(width, height)]
    if policy.max_side is not None:
        sizes.append(_with_side(policy.max_side, width, height))
    if policy.max_pixels is not None:
        sizes.append(_with_pixels(policy.max_pixels, width, height))
    return min(size[0] for size in sizes), min(size[1] for size in sizes)


def prepare(data: bytes, image: Image, policy: Policy, max_bytes: int | None = None) -> Prepared:
    """The file to send to a model's server, of `max_bytes` at most; `data` is that of `image`.

    The original bytes, if their number, size and media type are allowed and every server shows them
    alike (see `images.decode.is_plain`); else PNG, or JPEG of quality 95 for a lossy original. A
    PNG of too many bytes becomes such a JPEG if the server takes that. A file that is still too
    large is scaled to nine tenths of its sides again and again until it fits, whatever `min_pixels`
    says. `max_bytes` is at least `LEAST_BYTES`. Raises `ImageError`.
    """
    size = image.width, image.height
    most = sys.maxsize if max_bytes is None else max_bytes
    if (
        len(data) <= most
        and image.media_type in policy.media_types
        and fit(policy, *size) == size
        and is_plain(data, PASSED, _name(image))
    ):
        return Prepared(data=data, media_type=image.media_type, width=size[0], height=size[1])
    pixels = prepare_pixels(data, image, policy)
    media_type = _encoding(image.media_type, policy.media_types)
    pixels, file = _shrink(pixels, media_type, sys.maxsize)
    if len(file) > most:
        media_type = "image/jpeg" if "image/jpeg" in policy.media_types else media_type
        pixels, file = _shrink(pixels, media_type, most)
    return Prepared(data=file, media_type=media_type, width=pixels.width, height=pixels.height)


def prepare_pixels(data: bytes, image: Image, policy: Policy) -> PIL.Image.Image:
    """The RGB pixels to show to a model in this process; raises `ImageError`."""
    pixels = decode(data, PASSED, _name(image))
    width, height = fit(policy, pixels.width, pixels.height)
    if (width, height) == pixels.size:
        return pixels
    smaller = width < pixels.width or height < pixels.height
    resampling = PIL.Image.Resampling.LANCZOS if smaller else PIL.Image.Resampling.BICUBIC
    return pixels.resize((width, height), resampling)


def encode(pixels: PIL.Image.Image, media_type: str) -> bytes:
    """A file of any media type that `images.decode` reads, of quality 95 if that is lossy."""
    file = io.BytesIO()
    pixels.save(file, media_type.removeprefix("image/"), quality=95)
    return file.getvalue()


def _shrink(pixels: PIL.Image.Image, media_type: str, most: int) -> tuple[PIL.Image.Image, bytes]:
    """The largest of the sizes that `prepare` tries whose file has at most `most` bytes."""
    shown, side = pixels, max(pixels.size)
    longest = _LONGEST_OF_JPEG if media_type == "image/jpeg" else side
    while side > longest or len(file := encode(shown, media_type)) > most:
        side = side * 9 // 10
        shown = pixels.resize(_with_side(side, *pixels.size), PIL.Image.Resampling.LANCZOS)
    return shown, file


def _grow(least: int, max_side: int | None, width: int, height: int) -> tuple[int, int]:
    larger = _root_above(least, width, height), _root_above(least, height, width)
    if max_side is None or max(larger) <= max_side:
        return larger
    return _with_side(max_side, width, height)


def _root_above(pixels: int, side: int, other: int) -> int:
    """The square root of pixels * side / other, rounded up, without floating point."""
    return isqrt(-(-pixels * side // other) - 1) + 1


def _with_side(longer: int, width: int, height: int) -> tuple[int, int]:
    now = max(width, height)
    return max(1, width * longer // now), max(1, height * longer // now)


def _with_pixels(most: int, width: int, height: int) -> tuple[int, int]:
    # A side below one pixel becomes one pixel; the other must then not exceed `most`.
    return (
        max(1, min(most, isqrt(most * width // height))),
        max(1, min(most, isqrt(most * height // width))),
    )


def _encoding(original: str, accepted: tuple[str, ...]) -> str:
    preferred, other = "image/png", "image/jpeg"
    if original in _LOSSY:
        preferred, other = other, preferred
    return preferred if preferred in accepted else other


def _name(image: Image) -> str:
    return f"image {image.sha256[:12]}"


def blur(data: bytes, share: float) -> bytes:
    """The image blurred (Gauss) by a radius of `share` of its longer side, in its own format."""
    picture = decode(data, PASSED, "the image to blur")
    blurred = picture.filter(PIL.ImageFilter.GaussianBlur(share * max(picture.size)))
    return _file(blurred, data)


def blank(data: bytes) -> bytes:
    """An image of the same size and format in the image's mean colour."""
    picture = decode(data, PASSED, "the image to blank")
    red, green, blue = (round(channel) for channel in PIL.ImageStat.Stat(picture).mean)
    return _file(PIL.Image.new("RGB", picture.size, (red, green, blue)), data)


def _file(picture: PIL.Image.Image, original: bytes) -> bytes:
    """The image in the format of the original, as its media type stays."""
    return encode(picture, read_media_type(original, "the original"))
