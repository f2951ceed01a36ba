"""Images by their file names: opened once, side by side, and refused with a hint."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Lock

import pytest

from mmconv.benchmarks.base import ImageFile, Sample
from mmconv.benchmarks.base.dataset import load_dataset
from mmconv.benchmarks.data_files.image_folder import ImageFolder
from mmconv.core.config import RunSpec
from mmconv.core.errors import ImageError
from mmconv.core.types import Image
from tests.mmconv.benchmarks.base.own import write


class Sink:
    """Takes every file that is not empty, and counts what it is given."""

    def __init__(self) -> None:
        self.given: Counter[str] = Counter()
        self._lock = Lock()

    def add_file(self, path: str) -> Image:
        with self._lock:
            self.given[Path(path).name] += 1
        if not Path(path).stat().st_size:
            raise ImageError(f"{path}: empty")
        return Image(sha256=path, media_type="image/png", width=1, height=1)

    def add_bytes(self, data: bytes, where: str) -> Image:
        raise AssertionError(f"not in a file: {where}")


class Meeting(Sink):
    """Takes an image only while another one is being taken."""

    def __init__(self) -> None:
        super().__init__()
        self._two = Barrier(2, timeout=30)

    def add_file(self, path: str) -> Image:
        self._two.wait()
        return super().add_file(path)


class Slow(Sink):
    """Fails if two threads take a file of one name at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.busy: Counter[str] = Counter()
        self.most = 0

    def add_file(self, path: str) -> Image:
        self.busy[path] += 1
        self.most = max(self.most, self.busy[path])
        image = super().add_file(path)
        self.busy[path] -= 1
        return image


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_bytes(b"image")
    return folder


def problem(folder: ImageFolder, name: str) -> str:
    with pytest.raises(ImageError) as caught:
        folder.open(name)
    return str(caught.value)


def test_an_image_is_opened_or_refused_by_the_library(tmp_path: Path) -> None:
    folder = ImageFolder(fill(tmp_path, "a.png"), Sink())
    assert folder.open("a.png").sha256 == str(tmp_path / "a.png")
    (tmp_path / "b.png").touch()
    assert problem(folder, "b.png") == f"{tmp_path / 'b.png'}: empty"
    assert not folder.missing


def test_a_folder_is_not_an_image(tmp_path: Path) -> None:
    for name in ("a.png", "b"):
        (tmp_path / name).mkdir()
    folder = ImageFolder(tmp_path, Sink())
    assert problem(folder, "a.png") == "image a.png is a folder, not a file"
    assert problem(folder, "b.png") == f"image b.png is not in {tmp_path.name}"
    assert folder.missing == {f"image b.png is not in {tmp_path.name}"}


def test_nothing_outside_the_folder_is_opened(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    fill(tmp_path, "a.png")
    sink = Sink()
    folder = ImageFolder(inside, sink)
    for name in ("../a.png", str(tmp_path / "a.png")):
        assert problem(folder, name) == f"image {name!r} does not lie inside the images folder"
    assert not sink.given


def test_a_name_that_a_file_cannot_have_is_refused(tmp_path: Path) -> None:
    picture = "iVBORw0KGgo" * 30
    reason = f"image {picture[:60]}... cannot be looked for (File name too long)"
    advice = ": name a file in the images folder"
    assert problem(ImageFolder(tmp_path, Sink()), picture) == reason + advice


def test_one_image_is_opened_by_one_thread_at_a_time(tmp_path: Path) -> None:
    sink = Slow()
    folder = ImageFolder(fill(tmp_path, "a.png"), sink)
    with ThreadPoolExecutor(4) as pool:
        [*pool.map(folder.open, ["a.png"] * 200)]
    assert (sink.given["a.png"], sink.most) == (200, 1)


class Shown(Sample):
    image: ImageFile


def test_images_of_a_dataset_are_opened_side_by_side(tmp_path: Path) -> None:
    names = [f"{number}.png" for number in range(16)]  # two groups, so two threads
    fill(tmp_path, *names)
    records = ({"id": name, "image": name} for name in names)
    data = write(tmp_path / "data.jsonl", *records)
    spec = RunSpec(benchmark="shown", models={})
    dataset = load_dataset(Shown, spec, data, folder=tmp_path, images=Meeting())
    assert [sample.id for sample in dataset.samples] == names


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("a.jpg", ", but a.png is: the suffix differs"),
        ("A.PNG", ", but a.png is: the case differs"),
        ("more/a.png", ", but a.png is: the folder differs"),
        ("b.png", ""),
        ("cafe\u0301.png", ", but caf\u00e9.png is: the Unicode form differs"),
        ("caf%C3%A9.png", ", but caf\u00e9.png is: the URL encoding differs"),
    ],
)
def test_a_name_that_is_nearly_that_of_a_file_has_a_hint(
    tmp_path: Path, name: str, hint: str
) -> None:
    folder = ImageFolder(fill(tmp_path, "a.png", "caf\u00e9.png"), Sink())
    assert problem(folder, name) == f"image {name} is not in {tmp_path.name}{hint}"
