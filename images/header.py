"""What a file's own bytes say before any decoder is let near them: its type and its frames.

A declared size is read here only for WebP, whose decoder allocates its canvas when it is opened;
the other decoders tell it from their header without allocating. Nothing here decodes a pixel.
"""

from __future__ import annotations

import re
import struct

from mmconv.core.errors import ImageError

_SIGNATURES = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
)

# JPEG (ITU-T T.81). The segments are all that stand before the pixels of a sequential picture coded
# by Huffman: a frame of another kind (progressive, arithmetic, lossless) is not among them.
_START, _END = b"\xff\xd8", b"\xff\xd9"
_SCAN = 0xDA
_SEGMENTS = frozenset({0xC0, 0xC1, 0xC4, _SCAN, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)})

# Among pixels 0xFF stands before a zero, which escapes it, or as one of the restart markers.
_BEHIND_PIXELS = re.compile(rb"\xff[^\x00\xd0-\xd7]", re.DOTALL)


def read_media_type(data: bytes, where: str) -> str:
    """The media type that the content shows, whatever the file's suffix claims.

    Raises `ImageError` for anything but JPEG, PNG, GIF, WebP, BMP and (classic) TIFF.
    """
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    for signature, media_type in _SIGNATURES:
        if data.startswith(signature):
            return media_type
    found = "is empty" if not data else f"is of another kind (it starts with {data[:8]!r})"
    raise ImageError(f"{where}: {found}; give a JPEG, PNG, GIF, WebP, BMP or TIFF file")


def read_webp_size(data: bytes) -> tuple[int, int]:
    """Width and height in pixels of a WebP file's canvas.

    Raises `ValueError` where the first chunk is none that holds a size.
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


def count_scans(data: bytes) -> int:
    """The number of scans of a JPEG file, those of embedded previews included.

    Inside a scan 0xFF is always escaped, so that the marker's bytes are the marker.
    """
    return data.count(b"\xff\xda")


def without_pixels(data: bytes) -> bytes:
    """A JPEG file less the pixels of its only, sequential scan; any other file as it is.

    Decoders refuse the two alike. To libjpeg no bytes are wrong as pixels: it makes do with what
    comes, as long as an end comes. What it refuses stands before them: sizes and tables. A file
    without its end, or with anything behind it, is returned as it is.
    """
    pixels = _start_of_pixels(data)
    behind = _BEHIND_PIXELS.search(data, pixels) if pixels else None
    if behind is None or data[behind.start() :] != _END:
        return data
    return data[:pixels] + _END


def _start_of_pixels(data: bytes) -> int:
    """Where the pixels of a JPEG's first scan start; 0 where anything else stands before them."""
    at = len(_START) if data.startswith(_START) else len(data)
    while at + 4 <= len(data) and data[at] == 0xFF and data[at + 1] in _SEGMENTS:
        marker = data[at + 1]
        at += 2 + int.from_bytes(data[at + 2 : at + 4])
        if marker == _SCAN:
            return at
    return 0


def count_gif_frames(data: bytes, most: int) -> int:
    """The number of frames of a GIF file; stops counting above `most`.

    Raises `IndexError` or `ValueError` where the file ends within a block or holds another byte
    where a block starts. A missing trailer is let pass, as every reader does.
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

    Files whose directories run in a circle therefore have more than `most`. Raises
    `struct.error` where a directory lies outside the file.
    """
    order = "<" if data.startswith(b"II") else ">"
    (at,) = struct.unpack_from(order + "I", data, 4)
    frames = 0
    while at and frames <= most:
        frames += 1
        (entries,) = struct.unpack_from(order + "H", data, at)
        (at,) = struct.unpack_from(order + "I", data, at + 2 + 12 * entries)
    return frames
