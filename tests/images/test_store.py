import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from images.decode import Facts, Limits, inspect
from images.store import ImageStore
from mmconv.core.errors import ImageError
from mmconv.core.keys import hash_bytes
from mmconv.core.protocols import ImageSink, ImageSource
from tests.images.pictures import encode, noise

PNG = encode(noise((20, 10)), "PNG")
JPEG = encode(noise((30, 20)), "JPEG")


def put(path: Path, data: bytes = PNG) -> str:
    path.write_bytes(data)
    return str(path)


@pytest.fixture
def inspected(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The `where` of every image that was decoded to be checked."""
    seen: list[str] = []

    def counting(data: bytes, limits: Limits, where: str, sha256: str) -> Facts:
        seen.append(where)
        return inspect(data, limits, where, sha256)

    monkeypatch.setattr("images.store.inspect", counting)
    return seen


def test_it_is_a_source_and_a_sink(tmp_path: Path) -> None:
    store = ImageStore()
    sink: ImageSink = store
    source: ImageSource = store
    image = sink.add_file(put(tmp_path / "a.png"))
    assert (image.sha256, image.media_type) == (hash_bytes(PNG), "image/png")
    assert (image.width, image.height) == (20, 10)
    assert source.read(image.sha256) == PNG


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    store = ImageStore()
    first = store.add_file(put(path))
    state = path.stat()
    path.write_bytes(b"x" * len(PNG))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert store.add_file(str(path)) is first


def test_a_changed_file_is_another_image(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    store = ImageStore()
    first = store.add_file(put(path))
    second = store.add_file(put(path, JPEG))
    assert second.sha256 == hash_bytes(JPEG) != first.sha256
    assert store.read(second.sha256) == JPEG
    with pytest.raises(ImageError, match=r"a\.png: changed since it was added"):
        store.read(first.sha256)


def test_equal_bytes_are_one_image(tmp_path: Path, inspected: list[str]) -> None:
    store = ImageStore()
    first = store.add_file(put(tmp_path / "a.png"))
    second = store.add_file(put(tmp_path / "b.png"))
    assert first == second
    assert inspected == [str(tmp_path / "a.png")]


def test_known_facts_spare_the_decoding(tmp_path: Path, inspected: list[str]) -> None:
    facts: dict[str, Facts] = {}
    path = put(tmp_path / "a.png")
    first = ImageStore(facts=facts).add_file(path)
    assert set(facts) == {first.sha256}
    assert ImageStore(facts=facts).add_file(path) == first
    assert len(inspected) == 1


def test_known_facts_do_not_lift_the_limits(tmp_path: Path) -> None:
    facts: dict[str, Facts] = {}
    path = put(tmp_path / "a.png")
    ImageStore(facts=facts).add_file(path)
    with pytest.raises(ImageError, match=r"a\.png: 200 pixels, and at most 100"):
        ImageStore(facts=facts, limits=Limits(max_pixels=100)).add_file(path)


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    store = ImageStore()
    image = store.add_file(put(path))
    path.unlink()
    with pytest.raises(ImageError, match=r"a\.png: cannot be read \(No such file"):
        store.read(image.sha256)
    with pytest.raises(ImageError, match=r"a\.png: cannot be read \(No such file"):
        store.add_file(str(path))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="not a file; give the path"):
        ImageStore().add_file(str(tmp_path))


def test_a_file_too_large_is_refused_with_its_size(tmp_path: Path) -> None:
    path = put(tmp_path / "a.png", b"\x89PNG\r\n\x1a\n" + bytes(5000))
    with pytest.raises(ImageError, match="5,008 bytes, and at most 1,000"):
        ImageStore(limits=Limits(max_bytes=1000)).add_file(path)


@pytest.mark.parametrize("sha256", ["0" * 64, "../../secret", ""])
def test_an_unknown_image_is_refused(tmp_path: Path, sha256: str) -> None:
    with pytest.raises(ImageError, match="not in this image store; add its file first"):
        ImageStore(tmp_path).read(sha256)


def test_bytes_are_kept_under_their_hash_for_later_processes(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    image = ImageStore(folder).add_bytes(PNG)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files == [folder / image.sha256[:2] / image.sha256]
    assert ImageStore(folder).read(image.sha256) == PNG


def test_a_spoilt_upload_is_noticed_and_mended_by_a_new_one(tmp_path: Path) -> None:
    store = ImageStore(tmp_path)
    image = store.add_bytes(PNG)
    (tmp_path / image.sha256[:2] / image.sha256).write_bytes(PNG[:-1])
    with pytest.raises(ImageError, match="changed since it was added"):
        store.read(image.sha256)
    assert store.add_bytes(PNG) == image
    assert store.read(image.sha256) == PNG


def test_bad_bytes_leave_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="upload 7: is of another kind"):
        ImageStore(tmp_path).add_bytes(b"no image", "upload 7")
    assert list(tmp_path.iterdir()) == []


def test_bytes_go_with_their_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = ImageStore()
    image = store.add_bytes(PNG)
    assert store.read(image.sha256) == PNG
    del store
    assert list(tmp_path.iterdir()) == []


def test_threads_may_share_it(tmp_path: Path) -> None:
    pictures = [encode(noise((16 + number, 16)), "PNG") for number in range(8)]
    paths = [put(tmp_path / f"{n}.png", pictures[n % 8]) for n in range(64)]
    store = ImageStore(tmp_path / "kept")
    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(store.add_file, paths))
        uploaded = list(pool.map(store.add_bytes, pictures))
        read = list(pool.map(store.read, [image.sha256 for image in added]))
    assert [image.width for image in added] == [16 + n % 8 for n in range(64)]
    assert uploaded == added[:8]
    assert read == [pictures[n % 8] for n in range(64)]
