import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from images import Limits
from images.uploads import STALE_SECONDS, Uploads
from mmconv.core.errors import ImageError
from mmconv.core.keys import hash_bytes
from tests.pictures import picture

PNG = picture(1)
OTHER = picture(2)


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path, Limits())


def held_files(folder: Path) -> list[Path]:
    return [path for path in (folder / "held").rglob("*") if path.is_file()]


def test_a_kept_image_is_there_for_the_next_process(tmp_path: Path, uploads: Uploads) -> None:
    facts = uploads.keep(PNG, "ada", "x.png")
    uploads.close()
    later = Uploads(tmp_path, Limits())
    assert later.holds(facts.sha256)
    assert later.read(facts.sha256) == PNG


def test_the_same_image_twice_is_one_and_counts_once_for_each_owner(uploads: Uploads) -> None:
    for owner in ("ada", "ada", "bob"):
        uploads.keep(PNG, owner, "x.png")
    uploads.keep(OTHER, "ada", "y.png")
    assert uploads.used("ada") == len(PNG) + len(OTHER)
    assert uploads.used("bob") == len(PNG)
    assert uploads.used("eve") == 0
    assert uploads.owns("ada", hash_bytes(OTHER))
    assert not uploads.owns("bob", hash_bytes(OTHER))
    assert uploads.owns(None, hash_bytes(OTHER))


def test_a_held_image_goes_when_its_last_holder_lets_go(tmp_path: Path, uploads: Uploads) -> None:
    sha256 = uploads.hold(PNG, "x.png").sha256
    uploads.hold(PNG, "x.png")
    uploads.release(sha256)
    assert uploads.read(sha256) == PNG
    uploads.release(sha256)
    assert not uploads.holds(sha256)
    assert held_files(tmp_path) == []
    with pytest.raises(ImageError, match="not in this image store"):
        uploads.read(sha256)


def test_letting_go_of_a_held_image_leaves_a_kept_one(uploads: Uploads) -> None:
    sha256 = uploads.keep(PNG, "ada", "x.png").sha256
    uploads.hold(PNG, "x.png")
    uploads.release(sha256)
    assert uploads.read(sha256) == PNG


def test_what_is_no_image_or_too_large_is_not_kept(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path, Limits(max_pixels=320 * 160 - 1))
    with pytest.raises(ImageError, match="pixels"):
        uploads.keep(PNG, "ada", "x.png")
    with pytest.raises(ImageError, match="another kind"):
        uploads.hold(b"<svg/>", "x.svg")
    assert uploads.used("ada") == 0
    assert not uploads.holds(hash_bytes(PNG))


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "a" * 64 + "/../x", "A" * 64])
def test_an_id_that_is_no_hash_finds_nothing(uploads: Uploads, name: str) -> None:
    assert not uploads.holds(name)


def test_a_damaged_file_is_told(tmp_path: Path, uploads: Uploads) -> None:
    sha256 = uploads.keep(PNG, "ada", "x.png").sha256
    (tmp_path / "files" / sha256[:2] / sha256).write_bytes(OTHER)
    with pytest.raises(ImageError, match="changed since"):
        uploads.read(sha256)


def test_what_a_killed_process_held_is_removed_later(tmp_path: Path) -> None:
    killed, young = tmp_path / "held" / "killed", tmp_path / "held" / "young"
    for folder in (killed, young):
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(PNG)
    old = time.time() - STALE_SECONDS - 1
    os.utime(killed, (old, old))
    Uploads(tmp_path, Limits())
    assert not killed.exists()
    assert young.exists()


def test_removals_meanwhile_stop_no_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "held" / "other").mkdir(parents=True)
    really = Path.iterdir

    def removed_meanwhile(folder: Path) -> Iterator[Path]:
        for path in [*really(folder)]:
            path.rmdir()
            yield path

    monkeypatch.setattr(Path, "iterdir", removed_meanwhile)
    Uploads(tmp_path, Limits())


def test_an_image_is_held_and_released_by_many_threads(tmp_path: Path, uploads: Uploads) -> None:
    def use(_: int) -> bytes:
        sha256 = uploads.hold(PNG, "x.png").sha256
        data = uploads.read(sha256)
        uploads.release(sha256)
        return data

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(use, range(200))) == {PNG}
    assert held_files(tmp_path) == []


def test_an_image_goes_with_the_last_who_keeps_it(tmp_path: Path, uploads: Uploads) -> None:
    for owner in ("ada", "bob"):
        sha256 = uploads.keep(PNG, owner, "x.png").sha256
    assert not uploads.discard(sha256, "eve")
    assert uploads.discard(sha256, "ada")
    assert not uploads.discard(sha256, "ada")
    assert uploads.read(sha256) == PNG
    assert (uploads.used("ada"), uploads.used("bob")) == (0, len(PNG))
    assert uploads.discard(sha256, "bob")
    assert not uploads.holds(sha256)
    assert [path for path in (tmp_path / "files").rglob("*") if path.is_file()] == []
    assert uploads.keep(PNG, "ada", "x.png").sha256 == sha256
    assert uploads.read(sha256) == PNG


def test_an_image_goes_for_everybody(uploads: Uploads) -> None:
    for owner in ("ada", "bob"):
        sha256 = uploads.keep(PNG, owner, "x.png").sha256
    assert uploads.discard(sha256)
    assert not uploads.holds(sha256)
    assert uploads.claims("ada") == uploads.claims("bob") == []


def test_what_a_request_holds_outlives_its_removal(uploads: Uploads) -> None:
    sha256 = uploads.keep(PNG, "ada", "x.png").sha256
    uploads.hold(PNG, "x.png")
    uploads.discard(sha256, "ada")
    assert uploads.read(sha256) == PNG
    uploads.release(sha256)
    assert not uploads.holds(sha256)


def test_whoever_keeps_an_image_that_others_remove_has_it(tmp_path: Path) -> None:
    """Owners in two processes' places keep and remove one image, many times at once."""
    places = [Uploads(tmp_path, Limits()) for _ in range(2)]

    def turn(number: int) -> None:
        place = places[number % 2]
        sha256 = place.keep(PNG, f"owner{number}", "x.png").sha256
        assert place.read(sha256) == PNG
        place.discard(sha256, f"owner{number}")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(turn, range(200)))
    assert not places[0].holds(hash_bytes(PNG))
