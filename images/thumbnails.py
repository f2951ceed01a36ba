"""Images for pages that people read: a WebP of a few kilobytes, and a JPEG to enlarge it to.

Both are upright, on white and without metadata. Models never see them (see
`images.policy`). The bytes must have passed `images.decode.inspect`, as those in a store have.
"""

from __future__ import annotations

import io

import PIL.Image

from images.decode import PASSED, decode

SIDE = 192
"""Pixels of the longer side."""

MAX_BYTES = 4096
"""The limit that a thumbnail of an ordinary image stays below."""

LARGER_SIDE = 1024
"""Pixels of the longer side of the larger image."""

_LARGER_QUALITY = 70
_QUALITIES = (50, 25, 10, 1)


def thumbnail(data: bytes, where: str) -> bytes:
    """A WebP file of at most `SIDE` pixels a side; raises `ImageError`, in which `where` names it.

    The quality is the best of a few that keep below `MAX_BYTES`, and the lowest if none does.
    """
    return _small(decode(data, PASSED, where, SIDE))


def renditions(data: bytes, where: str) -> tuple[bytes, bytes]:
    """The thumbnail and the larger image; raises `ImageError` as `thumbnail` does.

    The larger one is a JPEG of at most `LARGER_SIDE` pixels a side. Pages are passed on, so neither
    image says when, where or by whom a photograph was taken.
    """
    picture = decode(data, PASSED, where, LARGER_SIDE)
    picture.thumbnail((LARGER_SIDE, LARGER_SIDE), PIL.Image.Resampling.BOX, reducing_gap=1.0)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=_LARGER_QUALITY, comment=b"")
    return _small(picture), file.getvalue()


def _small(picture: PIL.Image.Image) -> bytes:
    """The thumbnail's file; resizes `picture` in place."""
    picture.thumbnail((SIDE, SIDE), PIL.Image.Resampling.BILINEAR, reducing_gap=None)
    for quality in _QUALITIES:
        file = io.BytesIO()
        picture.save(file, "WEBP", quality=quality, method=2)
        if file.tell() <= MAX_BYTES:
            break
    return file.getvalue()
