"""Pictures made worse on purpose, to see whom a report blames: blurred ones and blank ones."""

from __future__ import annotations

import PIL.Image
import PIL.ImageFilter
import PIL.ImageStat

from images.door import Limits, decode
from images.header import read_media_type
from images.policy import encode

_LIMITS = Limits()


def blur(data: bytes, share: float) -> bytes:
    """The picture blurred (Gauss) by a radius of `share` of its longer side, in its own format."""
    picture = decode(data, _LIMITS, "the picture to blur")
    blurred = picture.filter(PIL.ImageFilter.GaussianBlur(share * max(picture.size)))
    return _file(blurred, data)


def blank(data: bytes) -> bytes:
    """A picture of the same size and format in the picture's mean colour."""
    picture = decode(data, _LIMITS, "the picture to blank")
    red, green, blue = (round(channel) for channel in PIL.ImageStat.Stat(picture).mean)
    return _file(PIL.Image.new("RGB", picture.size, (red, green, blue)), data)


def _file(picture: PIL.Image.Image, original: bytes) -> bytes:
    """The picture in the format of the original, since its media type is told along with it."""
    return encode(picture, read_media_type(original, "the original"))
