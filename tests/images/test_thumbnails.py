import io
from random import Random

import PIL.Image
import pytest

from images.thumbnails import LARGER_SIDE, MAX_BYTES, SIDE, renditions, thumbnail
from mmconv.core.errors import ImageError


def encoded(picture: PIL.Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def opened(data: bytes) -> PIL.Image.Image:
    return PIL.Image.open(io.BytesIO(thumbnail(data, "picture")))


def busy(width: int, height: int) -> PIL.Image.Image:
    """A picture that compresses badly."""
    return PIL.Image.frombytes("RGB", (width, height), Random(0).randbytes(width * height * 3))


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_picture_is_fitted_and_stays_small(kind: str) -> None:
    small = opened(encoded(busy(640, 320), kind))
    assert small.size == (SIDE, SIDE // 2)
    plain = PIL.Image.new("RGB", (640, 320), "red")
    assert len(thumbnail(encoded(plain, kind), "picture")) < MAX_BYTES


def test_a_small_picture_is_not_blown_up() -> None:
    assert opened(encoded(busy(40, 30), "PNG")).size == (40, 30)


def test_a_jpeg_above_pillows_limit_has_a_thumbnail() -> None:
    image = PIL.Image.new("L", (13_500, 13_500))  # 182 megapixels, read at an eighth of the size
    assert opened(encoded(image, "JPEG")).size == (SIDE, SIDE)


def test_a_turned_photograph_is_set_upright() -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    turned = encoded(PIL.Image.new("RGB", (400, 200), "blue"), "JPEG", exif=exif)
    assert opened(turned).size == (SIDE // 2, SIDE)


def test_what_is_transparent_becomes_white() -> None:
    clear = PIL.Image.new("RGBA", (10, 10), (0, 0, 0, 0))
    shown = opened(encoded(clear, "PNG")).convert("RGB").getpixel((5, 5))
    assert isinstance(shown, tuple)
    assert min(shown) > 250


@pytest.mark.parametrize("data", [b"\xff\xd8\xff\xe0 no picture", b"nothing at all"])
def test_damage_is_an_image_error(data: bytes) -> None:
    for make in (thumbnail, renditions):
        with pytest.raises(ImageError, match="picture 7"):
            make(data, "picture 7")


def with_secret(kind: str, **options: object) -> bytes:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    exif[0x010E] = "SECRET"
    return encoded(busy(60, 40), kind, exif=exif, **options)


@pytest.mark.parametrize(
    "data",
    [
        with_secret("JPEG"),
        with_secret("PNG"),
        encoded(busy(40, 60), "JPEG", comment="SECRET"),
        encoded(busy(40, 60), "JPEG", xmp=b"<SECRET/>"),
    ],
)
def test_what_a_file_tells_beside_its_picture_is_not_handed_on(data: bytes) -> None:
    assert b"SECRET" in data
    for made in renditions(data, "picture"):
        assert b"SECRET" not in made
        assert PIL.Image.open(io.BytesIO(made)).size == (40, 60)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_large_file_is_fitted_to_be_looked_at(kind: str) -> None:
    data = encoded(busy(2400, 1200), kind)
    small, larger = (PIL.Image.open(io.BytesIO(each)) for each in renditions(data, "picture"))
    assert larger.format == "JPEG"
    assert larger.size == (LARGER_SIDE, LARGER_SIDE // 2)
    assert (small.format, small.size) == ("WEBP", (SIDE, SIDE // 2))
