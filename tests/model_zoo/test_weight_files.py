"""Weight files that are missing, cut short or damaged are named, and whole ones are not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mmconv.core.errors import ConfigError
from model_zoo.checkpoints import checkpoint_fingerprint, weight_files

PARTS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def safetensors(length: int = 64) -> bytes:
    told = {"w": {"dtype": "U8", "shape": [length], "data_offsets": [0, length]}}
    header = json.dumps({"__metadata__": {"format": "pt"}, **told}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(length)


def index(*names: str) -> str:
    return json.dumps({"weight_map": {str(number): name for number, name in enumerate(names)}})


def test_a_checkpoint_in_parts_is_read_by_its_index(tmp_path: Path) -> None:
    for name in PARTS:
        (tmp_path / name).write_bytes(safetensors())
    (tmp_path / "model.safetensors.index.json").write_text(index(*PARTS))
    assert weight_files(tmp_path) == [tmp_path / name for name in PARTS]
    # a file of the usual name is read in place of the index, and of other formats
    (tmp_path / "model.safetensors").write_bytes(safetensors())
    (tmp_path / "model.safetensors.index.json").write_text(index("gone.safetensors"))
    (tmp_path / "pytorch_model.bin.index.json").write_text(index("gone.bin"))
    assert weight_files(tmp_path) == [tmp_path / "model.safetensors"]
    assert checkpoint_fingerprint(str(tmp_path))


DAMAGES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "cut short": ("model.safetensors", lambda: safetensors()[:-1]),
    "cut short in its header": ("model.safetensors", lambda: safetensors()[:40]),
    "longer": ("model.safetensors", lambda: safetensors() + b"x"),
    "empty": ("model.safetensors", bytes),
    "other JSON": ("model.safetensors", lambda: b"\x02" + bytes(7) + b"[]"),
    "an index cut short": ("model.safetensors.index.json", lambda: index(*PARTS)[:-5].encode()),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_told_in_one_line_with_the_file(tmp_path: Path, damage: str) -> None:
    name, make = DAMAGES[damage]
    (tmp_path / name).write_bytes(make())
    told = (
        rf"^{re.escape(str(tmp_path / name))}: cut short or damaged.*; copy or download it again$"
    )
    with pytest.raises(ConfigError, match=told):
        checkpoint_fingerprint(str(tmp_path))


def test_files_that_an_index_names_and_that_are_missing_are_named(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(index(*PARTS))
    (tmp_path / PARTS[0]).write_bytes(safetensors())
    told = rf"index\.json names 2 files, of which 1 are missing \({PARTS[1]}\)"
    with pytest.raises(ConfigError, match=told):
        checkpoint_fingerprint(str(tmp_path))


def test_a_pointer_of_git_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n"
    )
    with pytest.raises(
        ConfigError, match=r"model\.safetensors: only Git's pointer .* `git lfs pull`"
    ):
        checkpoint_fingerprint(str(tmp_path))
