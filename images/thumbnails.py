"""Small pictures for pages that people read: WebP of a few kilobytes, upright and on white.

No model is ever shown one: what models see is `images.policy`'s matter. The bytes are taken to have
passed the door (`images.door.inspect`), as those in a library have.
"""

from __future__ import annotations

import io

import PIL.Image
import PIL.ImageOps

from images.door import PASSED, decode
from mmconv.errors import ImageError

SIDE = 192
"""Pixels of the longer side."""

MAX_BYTES = 4096
"""A thumbnail of an ordinary picture stays below."""

_JPEG = b"\xff\xd8\xff"
_QUALITIES = (50, 25, 10, 1)


def thumbnail(data: bytes, where: str) -> bytes:
    """A WebP file of at most `SIDE` pixels a side; raises `ImageError`, in which `where` names it.

    The quality is the best of a few that keep below `MAX_BYTES`, and the lowest if none does.
    """
    picture = _small_jpeg(data, where) if data.startswith(_JPEG) else decode(data, PASSED, where)
    picture.thumbnail((SIDE, SIDE), PIL.Image.Resampling.BILINEAR, reducing_gap=None)
    for quality in _QUALITIES:
        file = io.BytesIO()
        picture.save(file, "WEBP", quality=quality, method=2)
        if file.tell() <= MAX_BYTES:
            break
    return file.getvalue()


def _small_jpeg(data: bytes, where: str) -> PIL.Image.Image:
    """A JPEG read at a fraction of its size, which takes a fifth of the time."""
    try:
        with PIL.Image.open(io.BytesIO(data), formats=("JPEG",)) as image:
            image.draft("RGB", (SIDE, SIDE))
            return PIL.ImageOps.exif_transpose(image).convert("RGB")
    except (OSError, SyntaxError, ValueError, TypeError, LookupError) as error:
        raise ImageError(f"{where}: the image does not decode ({error}); replace it") from error
