"""JPEGs are checked without their pixels: held against reading them, on many damaged files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from images.decode import Facts, Limits, decode, inspect, without_pixels
from mmconv.core.errors import ImageError
from tests.images.pictures import encode, halves, noise, turned

REAL = Path(__file__).parents[3] / "shared/data/convbench/visit_bench_images"
LIMITS = Limits(max_pixels=2_000_000)
END = b"\xff\xd9"
SIZE = (75, 53)

SHORTENED = {
    "plain": encode(noise(SIZE), "JPEG"),
    "full_colour": encode(noise(SIZE), "JPEG", subsampling=0, quality=95),
    "half_colour": encode(noise(SIZE), "JPEG", subsampling=1, optimize=True),
    "grey": encode(noise(SIZE).convert("L"), "JPEG"),
    "cmyk": encode(noise(SIZE).convert("CMYK"), "JPEG"),
    "restarts": encode(noise(SIZE), "JPEG", restart_marker_blocks=2),
    "turned": encode(halves((64, 32)), "JPEG", exif=turned(6), comment=b"\xff\xda\xff\xd9"),
}
AS_THEY_ARE = {
    "progressive": encode(noise(SIZE), "JPEG", progressive=True),
    "more behind it": SHORTENED["plain"] + b"more",
    "two in one": SHORTENED["plain"] * 2,
    "without its end": SHORTENED["plain"][:-2],
    "arithmetic": SHORTENED["plain"].replace(b"\xff\xc0", b"\xff\xc9", 1),
    "a marker among pixels": SHORTENED["plain"][:-2] + b"\xff\xc4" + END,
    "a BMP that could pass for one": b"BM\xff\xda\x00\x02" + bytes(60) + END,
    "png": encode(noise(SIZE), "PNG"),
    "nothing": b"",
}


@pytest.mark.parametrize("name", SHORTENED)
def test_pixels_are_taken_out(name: str) -> None:
    data = SHORTENED[name]
    short = without_pixels(data)
    assert short.endswith(END)
    assert data.startswith(short[:-2])
    assert len(data) - len(short) > 40


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_what_may_be_refused_for_its_pixels_is_read_whole(name: str) -> None:
    assert without_pixels(AS_THEY_ARE[name]) is AS_THEY_ARE[name]


@pytest.mark.filterwarnings("ignore")  # Pillow warns of damage in metadata, which is let pass.
@pytest.mark.parametrize("name", [*SHORTENED, "progressive"])
def test_damaged_files_are_refused_as_if_their_pixels_were_read(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = SHORTENED.get(name) or AS_THEY_ARE[name]
    let_in = hold_against_reading(damaged(good, Random(name), 400), monkeypatch)
    assert 100 < let_in < 2000


@pytest.mark.skipif(not REAL.is_dir(), reason="the real images do not lie beside the repository")
def test_damaged_real_files_are_refused_as_if_their_pixels_were_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = [path.read_bytes() for path in sorted(REAL.iterdir())]
    jpegs = [data for data in files if data.startswith(b"\xff\xd8")]
    assert sum(without_pixels(data) is not data for data in jpegs) > len(jpegs) / 2
    for number, data in enumerate(jpegs):
        with warnings.catch_warnings(action="ignore"):
            assert hold_against_reading(damaged(data, Random(number), 8), monkeypatch)


def hold_against_reading(files: Iterator[bytes], monkeypatch: pytest.MonkeyPatch) -> int:
    """Compare facts and refusals with those of the files read whole; counts the ones let in."""
    let_in = 0
    for data in files:
        found = facts(data)
        with monkeypatch.context() as patch:
            patch.setattr("images.decode.without_pixels", lambda whole: whole)
            assert found == facts(data)
        if found is not None:
            let_in += 1
            assert decode(data, LIMITS, "a").size == (found.width, found.height)
    return let_in


def facts(data: bytes) -> Facts | None:
    try:
        return inspect(data, LIMITS, "a")
    except ImageError:
        return None


def damaged(good: bytes, chance: Random, times: int) -> Iterator[bytes]:
    """The file, and the file cut off, changed and patched at many places of head and pixels."""
    head = good.index(b"\xff\xda") + 14
    yield good
    for harm in (cut, cut_before_end, change, change_two, leave_out, put_in_marker, repeat):
        for reach in (head, len(good)):
            for _ in range(times // 4):
                yield harm(good, chance.randrange(2, reach), chance)


def cut(good: bytes, at: int, _: Random) -> bytes:
    return good[:at]


def cut_before_end(good: bytes, at: int, _: Random) -> bytes:
    return good[:at] + END


def change(good: bytes, at: int, chance: Random) -> bytes:
    return good[:at] + chance.randbytes(1) + good[at + 1 :]


def change_two(good: bytes, at: int, chance: Random) -> bytes:
    return change(change(good, at, chance), chance.randrange(2, len(good)), chance)


def leave_out(good: bytes, at: int, chance: Random) -> bytes:
    return good[:at] + good[at + chance.choice((1, 2, 50)) :]


def put_in_marker(good: bytes, at: int, chance: Random) -> bytes:
    return good[:at] + b"\xff" + chance.randbytes(1) + good[at:]


def repeat(good: bytes, at: int, chance: Random) -> bytes:
    return good[: at + chance.choice((2, 20, 200))] + good[at:]
