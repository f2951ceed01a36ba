"""Pictures made worse on purpose, to see whom a report blames: blurred ones and blank ones."""

from __future__ import annotations

import io

import PIL.Image
import PIL.ImageFilter
import PIL.ImageStat

from images.door import Limits, decode

_LIMITS = Limits()


def blur(data: bytes, share: float) -> bytes:
    """The picture as a PNG file, blurred (Gauss) by a radius of `share` of its longer side."""
    picture = decode(data, _LIMITS, "the picture to blur")
    return _png(picture.filter(PIL.ImageFilter.GaussianBlur(share * max(picture.size))))


def blank(data: bytes) -> bytes:
    """A PNG file of the picture's size in its mean colour."""
    picture = decode(data, _LIMITS, "the picture to blank")
    red, green, blue = (round(channel) for channel in PIL.ImageStat.Stat(picture).mean)
    return _png(PIL.Image.new("RGB", picture.size, (red, green, blue)))


def _png(picture: PIL.Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()
