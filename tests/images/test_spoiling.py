from __future__ import annotations

from random import Random

import pytest

from images.door import Limits, decode, inspect
from images.scenes import draw, sample_scene
from images.spoiling import blank, blur
from mmconv.core.errors import ImageError
from tests.images.pictures import encode, halves

PICTURE = draw(sample_scene(Random(1)))


def inks(data: bytes) -> set[bytes]:
    pixels = decode(data, Limits(), "picture").tobytes()
    return {pixels[at : at + 3] for at in range(0, len(pixels), 3)}


def test_a_blank_picture_keeps_size_and_mean_colour() -> None:
    data = blank(encode(halves((32, 16), "red", "blue"), "PNG"))
    assert decode(data, Limits(), "picture").size == (32, 16)
    assert inks(data) == {bytes((128, 0, 128))}


def test_a_small_blur_keeps_the_colours_apart_and_a_large_one_does_not() -> None:
    picture = encode(halves((64, 32), "red", "blue"), "PNG")
    sharp, soft = (inks(blur(picture, share)) for share in (0.01, 1.0))
    assert {bytes((255, 0, 0)), bytes((0, 0, 255))} <= sharp
    assert all(abs(ink[0] - ink[2]) < 100 for ink in soft)


def test_the_same_picture_is_blurred_to_the_same_bytes() -> None:
    assert blur(PICTURE, 0.1) == blur(PICTURE, 0.1) != PICTURE


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF"])
def test_a_spoilt_picture_keeps_its_format(kind: str) -> None:
    picture = encode(halves(), kind)
    for spoilt in (blank(picture), blur(picture, 0.1)):
        facts = inspect(spoilt, Limits(), "spoilt")
        assert (facts.media_type, facts.width, facts.height) == (f"image/{kind.lower()}", 32, 16)


@pytest.mark.parametrize("spoil", [blank, lambda data: blur(data, 0.1)])
def test_what_is_no_picture_is_refused(spoil: object) -> None:
    assert callable(spoil)
    with pytest.raises(ImageError):
        spoil(b"no picture")
