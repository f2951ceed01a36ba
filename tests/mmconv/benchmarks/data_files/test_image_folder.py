"""Images by their file names: opened side by side, and refused with a hint."""

from pathlib import Path
from threading import Barrier

import pytest

from mmconv.benchmarks.base import ImageFile, ImageOptions, Sample
from mmconv.benchmarks.base.dataset import ImageFolder, load_dataset
from mmconv.core.config import RunSpec
from mmconv.core.errors import ImageError
from mmconv.core.types import Image
from tests.mmconv.benchmarks.base.own import write


class Sink:
    """Takes every file that is not empty."""

    def add_file(self, path: str) -> Image:
        if not Path(path).stat().st_size:
            raise ImageError(f"{path}: empty")
        return Image(sha256=path, media_type="image/png", width=1, height=1)

    def add_bytes(self, data: bytes, where: str) -> Image:
        raise AssertionError(f"not in a file: {where}")


class Meeting(Sink):
    """Takes an image only while another one is being taken."""

    def __init__(self) -> None:
        self._two = Barrier(2, timeout=30)

    def add_file(self, path: str) -> Image:
        self._two.wait()
        return super().add_file(path)


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_bytes(b"image")
    return folder


def problem(folder: Path, name: str) -> str:
    with pytest.raises(ImageError) as caught:
        ImageFolder(folder, Sink()).open(name)
    return str(caught.value)


def test_an_image_is_opened_or_refused_by_the_store(tmp_path: Path) -> None:
    folder = ImageFolder(fill(tmp_path, "a.png"), Sink())
    assert folder.open("a.png").sha256 == str(tmp_path / "a.png")
    (tmp_path / "b.png").touch()
    assert problem(tmp_path, "b.png") == f"{tmp_path / 'b.png'}: empty"


def test_nothing_outside_the_folder_is_opened(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    fill(tmp_path, "a.png")
    for name in ("../a.png", str(tmp_path / "a.png")):
        assert problem(inside, name) == f"image {name!r} is not inside the images folder"


def test_a_name_that_a_file_cannot_have_is_refused(tmp_path: Path) -> None:
    picture = "iVBORw0KGgo" * 30
    assert problem(tmp_path, picture) == f"image {picture[:200]} is not in {tmp_path.name}"


class Shown(Sample):
    image: ImageFile


def test_images_of_a_dataset_are_opened_side_by_side(tmp_path: Path) -> None:
    names = [f"{number}.png" for number in range(16)]
    fill(tmp_path, *names)
    records = ({"id": name, "image": name} for name in names)
    data = write(tmp_path / "data.jsonl", *records)
    spec = RunSpec(benchmark="shown", models={})
    dataset = load_dataset(Shown, ImageOptions(data=data, images=tmp_path), spec, Meeting())
    assert [sample.id for sample in dataset.samples] == names


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("a.jpg", "; did you mean a.png?"),
        ("A.PNG", "; did you mean a.png?"),
        ("more/a.png", "; did you mean a.png?"),
        ("folder", ""),
        ("b.png", ""),
    ],
)
def test_a_name_close_to_that_of_a_file_has_a_hint(tmp_path: Path, name: str, hint: str) -> None:
    fill(tmp_path, "a.png")
    assert problem(tmp_path, name) == f"image {name} is not in {tmp_path.name}{hint}"
