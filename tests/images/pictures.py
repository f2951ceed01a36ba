"""Files of many kinds, made on the spot for the tests of `images`."""

import io
import struct
import zlib
from random import Random
from typing import Any

from PIL import Image, PngImagePlugin

ORIENTATION = 0x0112


def encode(picture: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def halves(size: tuple[int, int] = (32, 16), left: str = "red", right: str = "blue") -> Image.Image:
    """A picture whose left and right half differ, so that turning it shows."""
    picture = Image.new("RGB", size, left)
    picture.paste(right, (size[0] // 2, 0, *size))
    return picture


def noise(size: tuple[int, int] = (200, 150)) -> Image.Image:
    """Random pixels, the same ones for the same size."""
    return Image.frombytes("RGB", size, Random(0).randbytes(3 * size[0] * size[1]))


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return exif


def comment(length: int) -> PngImagePlugin.PngInfo:
    """What makes a PNG larger by so many bytes, and shows nowhere."""
    info = PngImagePlugin.PngInfo()
    info.add_text("Comment", "x" * length)
    return info


def png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width: int, height: int, pixels: bytes) -> bytes:
    """A grey PNG that claims this size, whatever `pixels` (with filter bytes) holds."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            png_chunk(b"IHDR", header),
            png_chunk(b"IDAT", zlib.compress(pixels, 9)),
            png_chunk(b"IEND", b""),
        )
    )


def webp_header(width: int, height: int) -> bytes:
    """The start of a WebP file that claims a canvas of this size."""
    body = bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    chunk = b"VP8X" + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


def disposed_gif(width: int, height: int) -> bytes:
    """A GIF of one frame of this claimed size, which the next frame would erase."""
    data = encode(Image.new("L", (8, 8)), "GIF")
    frame = data.index(b"\x2c\x00\x00\x00\x00")
    size = struct.pack("<HH", width, height)
    erase = b"\x21\xf9\x04" + bytes([2 << 2, 0, 0, 0, 0])
    return b"".join(
        (data[:6], size, data[10:frame], erase, data[frame : frame + 5], size, data[frame + 9 :])
    )


def tiled_tiff(side: int, tile: int) -> bytes:
    """A grey TIFF of side x side pixels whose one deflated tile claims tile x tile."""
    body = zlib.compress(bytes(side * side))
    tags = {256: side, 257: side, 258: 8, 259: 8, 262: 1, 322: tile, 323: tile}
    start = 8 + 2 + 12 * (len(tags) + 2) + 4
    tags |= {324: start, 325: len(body)}
    entries = [struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items()]
    return b"".join((b"II*\x00", struct.pack("<IH", 8, len(entries)), *entries, bytes(4), body))
