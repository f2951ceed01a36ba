import hashlib
import random
import tracemalloc
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import PIL.Image
import pytest
from PIL import Image

from images.decode import Facts, Limits, check, decode, inspect, is_plain, read_webp_size
from mmconv.core.errors import ImageError
from tests.images.pictures import (
    disposed_gif,
    encode,
    halves,
    noise,
    png,
    tiled_tiff,
    turned,
    webp_header,
)

LIMITS = Limits()
REAL = Path(__file__).parents[3] / "shared/data/convbench/visit_bench_images"

KINDS = [
    ("JPEG", "image/jpeg"),
    ("PNG", "image/png"),
    ("GIF", "image/gif"),
    ("WEBP", "image/webp"),
    ("BMP", "image/bmp"),
    ("TIFF", "image/tiff"),
]


def close(found: object, wanted: tuple[int, int, int]) -> bool:
    assert isinstance(found, tuple)
    return all(abs(a - b) <= 4 for a, b in zip(found, wanted, strict=True))


def grey16(values: list[int], mode: str = "I;16") -> Image.Image:
    picture = Image.new(mode, (len(values), 1))
    for column, value in enumerate(values):
        picture.putpixel((column, 0), value)
    return picture


def check_refused(data: bytes, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        inspect(data, LIMITS, "a")


@pytest.mark.parametrize(("kind", "media_type"), KINDS)
def test_facts_of_every_format(kind: str, media_type: str) -> None:
    data = encode(noise(), kind)
    facts = inspect(data, LIMITS, "a")
    assert facts == Facts(
        sha256=hashlib.sha256(data).hexdigest(),
        media_type=media_type,
        width=200,
        height=150,
        mode="P" if kind == "GIF" else "RGB",
        frames=1,
        byte_count=len(data),
    )
    assert decode(data, LIMITS, "a").size == (200, 150)


@pytest.mark.parametrize(
    ("picture", "kind", "expected"),
    [
        (Image.new("RGB", (2, 2), (10, 20, 30)), "PNG", (10, 20, 30)),
        (Image.new("L", (2, 2), 77), "PNG", (77, 77, 77)),
        (Image.new("1", (2, 2), 1), "PNG", (255, 255, 255)),
        (Image.new("1", (2, 2), 0), "TIFF", (0, 0, 0)),
        (Image.new("RGB", (2, 2), (10, 20, 30)).quantize(4), "PNG", (10, 20, 30)),
        (Image.new("LA", (2, 2), (77, 255)), "PNG", (77, 77, 77)),
        (Image.new("LA", (2, 2), (77, 0)), "PNG", (255, 255, 255)),
        (Image.new("RGBA", (2, 2), (0, 0, 0, 0)), "PNG", (255, 255, 255)),
        (Image.new("RGBA", (2, 2), (0, 0, 0, 128)), "PNG", (127, 127, 127)),
        (Image.new("RGBA", (2, 2), (10, 20, 30, 255)), "WEBP", (10, 20, 30)),
        (Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", (255, 0, 0)),
        (Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "TIFF", (255, 0, 0)),
        (Image.new("L", (8, 8), 77), "JPEG", (77, 77, 77)),
    ],
)
def test_every_mode_becomes_the_right_rgb(
    picture: Image.Image, kind: str, expected: tuple[int, int, int]
) -> None:
    decoded = decode(encode(picture, kind), LIMITS, "a")
    assert decoded.mode == "RGB"
    assert close(decoded.getpixel((0, 0)), expected)


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_transparent_palette_entries_become_white(kind: str) -> None:
    picture = halves().quantize(4)
    hidden = picture.getpixel((0, 0))
    decoded = decode(encode(picture, kind, transparency=hidden), LIMITS, "a")
    assert decoded.getpixel((0, 0)) == (255, 255, 255)
    assert close(decoded.getpixel((31, 0)), (0, 0, 255))


def test_a_palette_with_graded_transparency_raises_no_warning() -> None:
    picture = halves().quantize(4)
    hidden = picture.getpixel((0, 0))
    alphas = bytes(128 if index == hidden else 255 for index in range(4))
    decoded = decode(encode(picture, "PNG", transparency=alphas), LIMITS, "a")
    assert close(decoded.getpixel((0, 0)), (255, 127, 127))


@pytest.mark.parametrize("transparent", [(255, 0, 0), 76])
def test_a_transparent_colour_becomes_white(transparent: tuple[int, int, int] | int) -> None:
    picture = halves() if isinstance(transparent, tuple) else halves().convert("L")
    decoded = decode(encode(picture, "PNG", transparency=transparent), LIMITS, "a")
    assert decoded.getpixel((0, 0)) == (255, 255, 255)
    assert decoded.getpixel((31, 0)) != (255, 255, 255)


@pytest.mark.parametrize(("kind", "mode"), [("PNG", "I;16"), ("TIFF", "I;16"), ("TIFF", "I;16B")])
def test_16_bit_grey_is_scaled_not_clipped(kind: str, mode: str) -> None:
    values = [0, 257, 25700, 32768, 65535]
    data = encode(grey16(values, mode), kind)
    decoded = decode(data, LIMITS, "a")
    assert [decoded.getpixel((x, 0)) for x in range(5)] == [
        (value, value, value) for value in (0, 1, 100, 128, 255)
    ]
    assert inspect(data, LIMITS, "a").mode.startswith("I;16")


@pytest.mark.parametrize("mode", ["I", "F"])
def test_grey_of_unknown_range_is_refused_at_once(mode: str) -> None:
    data = encode(Image.new(mode, (4, 4)), "TIFF")
    with pytest.raises(ImageError, match=r"depth\.tif: pixels of mode . have no known range"):
        inspect(data, LIMITS, "depth.tif")


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_exif_orientation_is_applied(kind: str, orientation: int) -> None:
    data = encode(halves((64, 32)), kind, exif=turned(orientation))
    facts = inspect(data, LIMITS, "a")
    decoded = decode(data, LIMITS, "a")
    assert (facts.width, facts.height) == decoded.size
    assert decoded.size == ((32, 64) if orientation >= 5 else (64, 32))
    red_at_the_start = orientation in (1, 4, 5, 6)
    first = decoded.getpixel((2, 2))
    assert isinstance(first, tuple)
    assert (first[0] > 200) == red_at_the_start
    assert is_plain(data, LIMITS, "a") == (orientation == 1)


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw"])
@pytest.mark.parametrize(("orientation", "size"), [(1, (64, 32)), (3, (64, 32)), (6, (32, 64))])
def test_tiff_is_turned_once(compression: str, orientation: int, size: tuple[int, int]) -> None:
    data = encode(halves((64, 32)), "TIFF", compression=compression, tiffinfo={274: orientation})
    facts = inspect(data, LIMITS, "a")
    decoded = decode(data, LIMITS, "a")
    assert (facts.width, facts.height) == decoded.size == size
    assert (decoded.getpixel((2, 2)) == (255, 0, 0)) == (orientation != 3)


@pytest.mark.parametrize("exif", [b"Exif\x00\x00garbage!", b"Exif\x00\x00", b"nothing of the kind"])
def test_unreadable_exif_leaves_the_picture_as_it_is(exif: bytes) -> None:
    data = encode(halves(), "JPEG", exif=exif)
    assert inspect(data, LIMITS, "a").width == 32
    assert decode(data, LIMITS, "a").size == (32, 16)


@pytest.mark.parametrize(("kind", "media_type"), KINDS)
def test_a_truncated_file_is_refused(kind: str, media_type: str) -> None:
    data = encode(noise(), kind)
    for share in (0.02, 0.5, 0.9):
        with pytest.raises(ImageError, match=r"cut\.img: .*damaged or cut off: replace it"):
            inspect(data[: int(len(data) * share)], LIMITS, "cut.img")


@pytest.mark.parametrize("read", [inspect, decode, is_plain])
def test_damage_to_any_pixel_of_a_png_is_noticed(read: Callable[..., object]) -> None:
    good = encode(noise((12, 9)), "PNG", exif=turned(6))
    end = len(good) - 20  # The pixels' and the chunk's checksums and the last chunk follow.
    for at in range(good.index(b"IDAT") + 4, end):
        bad = bytearray(good)
        bad[at] ^= 0x55
        with pytest.raises(ImageError, match="does not decode"):
            read(bytes(bad), LIMITS, "a")


def test_a_progressive_jpeg_cut_in_its_last_scan_is_refused() -> None:
    data = encode(noise(), "JPEG", progressive=True)
    assert inspect(data, LIMITS, "a").width == 200
    check_refused(data[: data.rindex(b"\xff\xda") + 20], "cut off")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "x.png: is empty; give a JPEG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "x.png: is of another kind"),
        (b"\x00\x00\x00\x18ftypheic", "x.png: is of another kind"),
        (b"GIF89a", "x.png: the image does not decode"),
        (b"RIFF\x00\x00\x00\x00WEBPJUNK", "x.png: the image does not decode"),
        (b"II*\x00\xff\xff\xff\xff", "x.png: the image does not decode"),
    ],
)
def test_what_is_no_image_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        inspect(data, LIMITS, "x.png")


@pytest.mark.parametrize("read", [inspect, decode, is_plain])
@pytest.mark.parametrize(
    "bomb",
    [
        png(100_000, 100_000, b"\x00" * 1000),
        webp_header(1 << 14, 1 << 14),
        encode(Image.new("L", (8, 8)), "GIF")[:6] + b"\xff\xff\xff\xff\x00\x00\x00;",
        encode(Image.new("L", (8, 8)), "BMP")[:18]
        + b"\xff\xff\x00\x00\xff\xff\x00\x00"
        + bytes(60),
    ],
    ids=["png", "webp", "gif", "bmp"],
)
def test_a_huge_claim_is_refused_before_allocation(
    read: Callable[..., object], bomb: bytes
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ImageError, match=r"bomb: .*(pixels, and at most 100,000,000|decode)"):
            read(bomb, LIMITS, "bomb")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_tiff_tile_larger_than_its_picture_counts() -> None:
    data = tiled_tiff(side=16, tile=60_000)
    check_refused(data, "3,600,000,000 pixels")


def test_a_png_that_inflates_to_more_than_its_size_is_read_no_further() -> None:
    bomb = png(10, 10, b"\x00" * 50_000_000)
    assert len(bomb) < 100_000
    tracemalloc.start()
    try:
        assert decode(bomb, LIMITS, "a").size == (10, 10)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_the_first_frame_of_a_gif_is_not_allocated_before_its_size_is_checked() -> None:
    before = getrusage(RUSAGE_SELF).ru_maxrss
    with pytest.raises(ImageError, match=r"bomb: Pillow refuses .* make the image smaller"):
        inspect(disposed_gif(30_000, 30_000), LIMITS, "bomb")
    assert getrusage(RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes, of 900 MB


def test_pillows_own_limit_is_left_alone_and_holds_too() -> None:
    assert PIL.Image.MAX_IMAGE_PIXELS == 1024**3 // 4 // 3
    data = encode(Image.new("1", (20_000, 10_000)), "TIFF", compression="group4")
    check_refused(data, "200,000,000 pixels, and at most 100,000,000")
    with pytest.raises(ImageError, match=r"a: Pillow refuses .*200000000 pixels"):
        inspect(data, Limits(max_pixels=200_000_000), "a")
    large = encode(Image.new("1", (10_000, 9_500)), "TIFF", compression="group4")
    with pytest.warns(PIL.Image.DecompressionBombWarning):
        assert inspect(large, LIMITS, "a").width == 10_000
    with pytest.raises(ImageError, match="a: Pillow refuses"):  # warnings are errors here
        inspect(large, LIMITS, "a")


def test_bytes_are_counted_first() -> None:
    with pytest.raises(ImageError, match="big: 2,001 bytes, and at most 2,000 are allowed"):
        inspect(b"x" * 2001, Limits(max_bytes=2000), "big")


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_frames_are_counted_and_the_first_is_used(kind: str) -> None:
    later = [Image.new("RGB", (32, 16), (0, shade, 0)) for shade in (80, 160, 240)]
    data = encode(halves(), kind, save_all=True, append_images=later)
    facts = inspect(data, Limits(max_frames=4), "a")
    assert facts.frames == 4
    assert close(decode(data, LIMITS, "a").getpixel((2, 2)), (255, 0, 0))
    assert not is_plain(data, LIMITS, "a")
    with pytest.raises(ImageError, match="more than 3 frames; make"):
        inspect(data, Limits(max_frames=3), "a")


def test_a_gif_is_cut_off_even_after_its_first_frame() -> None:
    data = encode(noise(), "GIF", save_all=True, append_images=[noise().rotate(90)])
    check_refused(data[:-500], "cut off")


def test_tiff_directories_in_a_circle_end() -> None:
    data = encode(Image.new("L", (4, 4)), "TIFF")
    start = int.from_bytes(data[4:8], "little")
    at = start + 2 + 12 * int.from_bytes(data[start : start + 2], "little")
    circle = data[:at] + data[4:8] + data[at + 4 :]
    check_refused(circle, "more than 1,000 frames")


def test_a_jpeg_of_endless_scans_is_refused() -> None:
    data = encode(Image.new("L", (64, 64), 128), "JPEG", progressive=True)
    scan = data[data.rindex(b"\xff\xda") : -2]
    check_refused(data[:-2] + scan * 200 + data[-2:], "scans, and at most 100")


@pytest.mark.parametrize(
    ("picture", "plain"),
    [
        (Image.new("RGB", (4, 4)), True),
        (Image.new("RGBA", (4, 4), (1, 2, 3, 255)), True),
        (Image.new("RGBA", (4, 4), (1, 2, 3, 254)), False),
        (grey16([0, 1]), False),
    ],
)
def test_plain_is_what_every_reader_shows_alike(picture: Image.Image, plain: bool) -> None:
    assert is_plain(encode(picture, "PNG"), LIMITS, "a") == plain


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_inks_are_not_shown_alike(kind: str) -> None:
    inks = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    assert not is_plain(encode(inks, kind), LIMITS, "a")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_lines_of_pixels_are_refused(kind: str) -> None:
    data = encode(Image.new("RGB", (8, 1601)), kind)
    with pytest.raises(ImageError, match="a: 8 x 1,601 pixels, and a side may be at most 200"):
        inspect(data, Limits(), "a")
    facts = inspect(data, Limits(max_ratio=201), "a")
    with pytest.raises(ImageError, match="crop the image"):
        check(facts, Limits(), "a")
    assert inspect(encode(Image.new("RGB", (1600, 8)), kind), Limits(), "a").width == 1600


@pytest.mark.filterwarnings("ignore")  # Pillow warns of damage in metadata, which is let pass.
@pytest.mark.parametrize(("kind", "media_type"), KINDS)
def test_damaged_files_are_refused_or_decode_and_nothing_else(kind: str, media_type: str) -> None:
    chance = random.Random(kind)
    good = encode(noise((40, 30)), kind)
    limits = Limits(max_pixels=1_000_000)
    refused = 0
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(3):
            bad[chance.randrange(chance.choice((60, len(bad))))] = chance.randrange(256)
        try:
            facts = inspect(bytes(bad), limits, "a")
        except ImageError:
            refused += 1
        else:
            assert decode(bytes(bad), limits, "a").size == (facts.width, facts.height)
    assert refused


@pytest.mark.skipif(not REAL.is_dir(), reason="the real images do not lie beside the repository")
def test_every_real_image_passes() -> None:
    paths = sorted(REAL.iterdir())
    assert paths
    for path in paths:
        data = path.read_bytes()
        facts = inspect(data, LIMITS, str(path))
        assert decode(data, LIMITS, str(path)).size == (facts.width, facts.height)


@pytest.mark.parametrize(
    ("options", "chunk"),
    [
        ({"lossless": True}, b"VP8L"),
        ({"quality": 80}, b"VP8 "),
        ({"save_all": True, "append_images": [Image.new("RGB", (301, 77), "red")]}, b"VP8X"),
    ],
)
def test_the_size_of_a_webp_file_is_read_from_each_kind_of_chunk(
    options: dict[str, Any], chunk: bytes
) -> None:
    file = BytesIO()
    Image.new("RGB", (301, 77)).save(file, "WEBP", **options)
    assert file.getvalue()[12:16] == chunk
    assert read_webp_size(file.getvalue()) == (301, 77)
