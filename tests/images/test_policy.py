"""What a model is shown: sizes, bytes and media types, and images that are damaged on purpose."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from images.decode import Limits, decode, inspect
from images.drawn import draw_sample
from images.policy import LEAST_BYTES, Policy, blank, blur, fit, prepare, prepare_pixels
from images.store import ImageStore
from images.thumbnails import thumbnail
from mmconv.core import types as values
from mmconv.core.errors import ConfigError, ImageError
from tests.images.pictures import comment, encode, halves, noise, turned

LIMITS = Limits()

sides = st.integers(1, 20_000)

PICTURE = draw_sample("shapes", 1, 0, 1, "en").drawing.png


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    max_pixels = draw(st.none() | st.integers(4, 10_000_000))
    most = 1_000_000 if max_pixels is None else max_pixels // 4
    return Policy(
        max_pixels=max_pixels,
        min_pixels=draw(st.none() | st.integers(1, most)),
        max_side=draw(st.none() | st.integers(1, 5000)),
    )


def as_value(data: bytes) -> values.Image:
    facts = inspect(data, LIMITS, "a")
    return values.Image(
        sha256=facts.sha256, media_type=facts.media_type, width=facts.width, height=facts.height
    )


@given(policies(), sides, sides)
def test_a_fitted_size_keeps_bounds_and_aspect(policy: Policy, width: int, height: int) -> None:
    w, h = fit(policy, width, height)
    assert w >= 1
    assert h >= 1
    assert policy.max_pixels is None or w * h <= policy.max_pixels
    assert policy.max_side is None or max(w, h) <= policy.max_side
    if policy.min_pixels is not None and w * h < policy.min_pixels:
        assert max(w, h) == policy.max_side
    # Some scale brings both sides to within a pixel of what was returned.
    lowest = max((w - 1) / width, (h - 1) / height)
    assert lowest <= min((w + 1) / width, (h + 1) / height)
    assert fit(policy, w, h) == (w, h)


@pytest.mark.parametrize(
    ("policy", "size", "fitted"),
    [
        (Policy(max_side=100), (1000, 500), (100, 50)),
        (Policy(max_pixels=10_000), (1000, 1000), (100, 100)),
        (Policy(max_pixels=1000), (100_000, 1), (1000, 1)),
        (Policy(min_pixels=10_000), (10, 10), (100, 100)),
        (Policy(min_pixels=10_000, max_side=50), (10, 5), (50, 25)),
        (Policy(max_side=50, max_pixels=100), (1000, 1000), (10, 10)),
        (Policy(min_pixels=100, max_pixels=400, max_side=30), (15, 15), (15, 15)),
    ],
)
def test_fitted_sizes(policy: Policy, size: tuple[int, int], fitted: tuple[int, int]) -> None:
    assert fit(policy, *size) == fitted


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"min_pixels": 300, "max_pixels": 1000}, "above a quarter"),
        ({"media_types": ("image/webp",)}, "must have image/png or image/jpeg"),
    ],
)
def test_a_policy_that_cannot_be_obeyed_is_refused(bounds: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Policy(**bounds)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF"])
def test_allowed_bytes_stay_untouched(kind: str) -> None:
    data = encode(noise(), kind)
    image = as_value(data)
    prepared = prepare(data, image, Policy(max_pixels=30_000))
    assert prepared.data == data
    assert (prepared.media_type, prepared.width, prepared.height) == (image.media_type, 200, 150)


@pytest.mark.parametrize(
    ("kind", "media_type"),
    [
        ("JPEG", "image/jpeg"),
        ("WEBP", "image/jpeg"),
        ("PNG", "image/png"),
        ("GIF", "image/png"),
        ("BMP", "image/png"),
        ("TIFF", "image/png"),
    ],
)
def test_a_large_image_is_resized_and_keeps_its_nature(kind: str, media_type: str) -> None:
    data = encode(noise(), kind)
    prepared = prepare(data, as_value(data), Policy(max_pixels=7500))
    again = inspect(prepared.data, LIMITS, "a")
    assert again.media_type == prepared.media_type == media_type
    assert (again.width, again.height) == (prepared.width, prepared.height) == (100, 75)


@pytest.mark.parametrize(
    ("accepted", "sent"), [("image/jpeg", "image/jpeg"), ("image/png", "image/png")]
)
@pytest.mark.parametrize("kind", ["BMP", "WEBP"])
def test_only_accepted_types_are_sent(kind: str, accepted: str, sent: str) -> None:
    data = encode(noise(), kind)
    prepared = prepare(data, as_value(data), Policy(media_types=(accepted,)))
    assert inspect(prepared.data, LIMITS, "a").media_type == prepared.media_type == sent


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF"])
def test_a_file_of_as_many_bytes_as_allowed_stays_untouched(kind: str) -> None:
    data = encode(noise(), kind)
    assert prepare(data, as_value(data), Policy(), len(data)).data == data
    assert prepare(data, as_value(data), Policy(), len(data) - 1).data != data


def test_a_png_of_too_many_bytes_becomes_a_jpeg_of_the_same_size() -> None:
    picture = noise()
    data = encode(picture, "PNG")
    prepared = prepare(data, as_value(data), Policy(), 60_000)
    assert (prepared.media_type, prepared.width, prepared.height) == ("image/jpeg", 200, 150)
    assert prepared.data == encode(picture, "JPEG", quality=95)


def test_a_png_that_is_encoded_better_stays_one() -> None:
    data = encode(noise(), "PNG", compress_level=0, pnginfo=comment(50_000))
    prepared = prepare(data, as_value(data), Policy(), len(data) - 1)
    assert prepared.media_type == "image/png"
    assert decode(prepared.data, LIMITS, "a").tobytes() == noise().tobytes()


@pytest.mark.parametrize(
    ("kind", "accepted", "sent"),
    [
        ("PNG", ("image/jpeg", "image/png"), "image/jpeg"),
        ("PNG", ("image/png",), "image/png"),
        ("JPEG", ("image/jpeg", "image/png"), "image/jpeg"),
        ("GIF", ("image/gif", "image/jpeg"), "image/jpeg"),
    ],
)
def test_what_no_encoding_makes_small_enough_loses_a_tenth_of_its_sides_until_it_fits(
    kind: str, accepted: tuple[str, ...], sent: str
) -> None:
    data = encode(noise(), kind, quality=95)
    prepared = prepare(data, as_value(data), Policy(media_types=accepted), 20_000)
    assert inspect(prepared.data, LIMITS, "a").media_type == prepared.media_type == sent
    assert len(prepared.data) <= 20_000
    sides = [200]
    while sides[-1] > prepared.width:
        sides.append(sides[-1] * 9 // 10)
    assert (prepared.width, prepared.height) == (sides[-1], 150 * sides[-1] // 200)
    size = sides[-2], 150 * sides[-2] // 200
    larger = decode(data, LIMITS, "a").resize(size, Image.Resampling.LANCZOS)
    assert len(encode(larger, sent.removeprefix("image/").upper(), quality=95)) > 20_000


@pytest.mark.parametrize("accepted", ["image/jpeg", "image/png"])
def test_every_picture_can_be_made_as_small_as_may_be_asked(accepted: str) -> None:
    data = encode(noise((2000, 10)), "PNG")
    policy = Policy(min_pixels=10_000, media_types=(accepted,))
    assert len(prepare(data, as_value(data), policy, LEAST_BYTES).data) <= LEAST_BYTES
    dot = encode(Image.new("RGB", (1, 1), (1, 2, 3)), accepted.removeprefix("image/"), quality=95)
    assert len(dot) <= LEAST_BYTES


@pytest.mark.parametrize(
    ("policy", "size", "resampling"),
    [
        (Policy(max_side=100), (100, 75), Image.Resampling.LANCZOS),
        (Policy(min_pixels=120_000), (400, 300), Image.Resampling.BICUBIC),
    ],
)
def test_how_pixels_are_resampled_is_not_changed(
    policy: Policy, size: tuple[int, int], resampling: Image.Resampling
) -> None:
    """The keys of replies do not hold it: those given to other pixels would be taken for new."""
    data = encode(noise(), "PNG")
    shown = prepare_pixels(data, as_value(data), policy)
    assert shown.tobytes() == noise().resize(size, resampling).tobytes()


def test_what_a_raised_limit_let_in_is_shown_to_models(tmp_path: Path) -> None:
    dots = [Image.new("1", (1, 1), number % 2) for number in range(LIMITS.max_frames + 1)]
    data = encode(dots[0], "TIFF", save_all=True, append_images=dots[1:])
    with pytest.raises(ImageError, match="frames"):
        inspect(data, LIMITS, "a")
    library = ImageStore(tmp_path, limits=Limits(max_frames=2000))
    assert prepare(data, library.add_bytes(data, "a"), Policy()).width == 1
    assert thumbnail(data, "a")


def test_what_is_too_long_for_a_jpeg_is_made_shorter() -> None:
    data = encode(Image.new("L", (70_000, 10)), "PNG")
    long = values.Image(sha256="0" * 64, media_type="image/png", width=70_000, height=10)
    assert prepare(data, long, Policy()).data == data
    prepared = prepare(data, long, Policy(media_types=("image/jpeg",)))
    assert (prepared.media_type, prepared.width, prepared.height) == ("image/jpeg", 63_000, 9)


@pytest.mark.parametrize("policy", [Policy(), Policy(max_side=50), Policy(min_pixels=100_000)])
def test_server_and_process_see_the_same(policy: Policy) -> None:
    data = encode(noise(), "PNG", exif=turned(8))
    image = as_value(data)
    pixels = prepare_pixels(data, image, policy)
    sent = prepare(data, image, policy)
    assert pixels.mode == "RGB"
    assert decode(sent.data, LIMITS, "a").tobytes() == pixels.tobytes()


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
