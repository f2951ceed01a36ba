from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Lock

import pytest

from mmconv.benchmarks.data_files.image_folder import ImageFolder, check_ahead
from mmconv.core.errors import ImageError
from mmconv.core.types import Image


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


class Meeting(Sink):
    """Takes an image only while another one is being taken."""

    def __init__(self) -> None:
        super().__init__()
        self._two = Barrier(2, timeout=30)

    def add_file(self, path: str) -> Image:
        self._two.wait()
        return super().add_file(path)


def alone(name: str) -> tuple[str]:
    """The names of an item that is its one image's name."""
    return (name,)


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_bytes(b"image")
    return folder


def test_good_images_have_no_fault(tmp_path: Path) -> None:
    folder = ImageFolder(fill(tmp_path, "a.png", "b.png"), Sink())
    assert list(check_ahead(["a.png", "b.png"], alone, folder)) == [("a.png", ()), ("b.png", ())]


def test_the_librarys_refusal_is_the_fault(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    assert ImageFolder(tmp_path, Sink()).add("a.png") == f"{tmp_path / 'a.png'}: empty"


def test_a_folder_is_no_image(tmp_path: Path) -> None:
    for name in ("a.png", "b"):
        (tmp_path / name).mkdir()
    folder = ImageFolder(tmp_path, Sink())
    assert folder.add("a.png") == "image a.png is a folder, not a file"
    assert folder.add("b.png") == f"image b.png is not in {tmp_path.name}"


def test_nothing_outside_the_folder_is_taken(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    fill(tmp_path, "a.png")
    sink = Sink()
    folder = ImageFolder(inside, sink)
    for name in ("../a.png", str(tmp_path / "a.png")):
        assert folder.add(name) == f"image {name!r} does not lie inside the images folder"
    assert not sink.given


def test_an_image_shared_by_rows_is_added_once(tmp_path: Path) -> None:
    sink = Sink()
    folder = ImageFolder(fill(tmp_path, "a.png", "b.png"), sink)
    names = ["a.png", "a.png", "b.png", "a.png"]
    assert [name for name, _ in check_ahead(names, alone, folder)] == names
    assert sink.given == {"a.png": 1, "b.png": 1}


def test_images_are_checked_side_by_side(tmp_path: Path) -> None:
    names = [f"{number}.png" for number in range(16)]
    folder = ImageFolder(fill(tmp_path, *names), Meeting())
    assert [faults for _, faults in check_ahead(names, alone, folder)] == [()] * 16


def test_items_of_many_images_are_checked_side_by_side_too(tmp_path: Path) -> None:
    items = [tuple(f"{item}_{number}.png" for number in range(20)) for item in range(2)]
    folder = ImageFolder(fill(tmp_path, *items[0], *items[1]), Meeting())
    assert [faults for _, faults in check_ahead(items, tuple, folder)] == [(), ()]


def test_what_can_be_no_files_name_is_told(tmp_path: Path) -> None:
    picture = "iVBORw0KGgo" * 30
    fault = ImageFolder(tmp_path, Sink()).add(picture)
    told = f"image {picture[:60]}... cannot be looked for (File name too long)"
    assert fault == f"{told}: name a file in the images folder"


def test_an_item_has_all_its_images_faults_in_their_order(tmp_path: Path) -> None:
    sink = Sink()
    folder = ImageFolder(fill(tmp_path, "a.png"), sink)
    items = [("c.png", "a.png", "b.png", "a.png"), (), ("a.png",)]
    [several, none, good] = [faults for _, faults in check_ahead(items, tuple, folder)]
    assert several == tuple(f"image {name}.png is not in {tmp_path.name}" for name in "cb")
    assert none == good == ()
    assert sink.given == {"a.png": 1}


def test_order_is_kept_and_little_is_read_ahead(tmp_path: Path) -> None:
    pulled: list[str] = []

    def names() -> Iterator[str]:
        for number in range(500):
            pulled.append(f"{number}.png")
            yield pulled[-1]

    checked = check_ahead(names(), alone, ImageFolder(tmp_path, Sink()))
    assert next(checked) == ("0.png", (f"image 0.png is not in {tmp_path.name}",))
    assert len(pulled) < 50
    assert [name for name, _ in checked] == [f"{number}.png" for number in range(1, 500)]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a.jpg", ", but a.png is: the suffix differs"),
        ("A.PNG", ", but a.png is: the case differs"),
        ("more/a.png", ", but a.png is: the folder differs"),
        ("b.png", ""),
        ("cafe\u0301.png", ", but caf\u00e9.png is: the Unicode form differs"),
        ("caf%C3%A9.png", ", but caf\u00e9.png is: the URL encoding differs"),
    ],
)
def test_a_name_that_is_nearly_that_of_a_file_is_told(tmp_path: Path, name: str, told: str) -> None:
    folder = ImageFolder(fill(tmp_path, "a.png", "caf\u00e9.png"), Sink())
    assert folder.add(name) == f"image {name} is not in {tmp_path.name}{told}"
