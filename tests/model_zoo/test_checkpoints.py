"""Checkpoints are told apart by what they hold, damage is named, and bounds of areas are read."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from model_zoo.checkpoints import (
    area_bounds,
    commit_at_hand,
    is_local,
    require_hub,
    weight_files,
)
from model_zoo.fingerprints import checkpoint_fingerprint
from tests.model_zoo.openai_support import unused_url

TENSORS = 40
TENSOR_BYTES = 200_000


def write_weights(file: Path, changed: int | None = None, seed: int = 0) -> None:
    """A safetensors file of random bytes; the tensor `changed` differs."""
    header = {
        f"layer.{number}": {
            "dtype": "U8",
            "shape": [TENSOR_BYTES],
            "data_offsets": [number * TENSOR_BYTES, (number + 1) * TENSOR_BYTES],
        }
        for number in range(TENSORS)
    }
    encoded = json.dumps(header).encode()
    body = [random.Random(seed + number).randbytes(TENSOR_BYTES) for number in range(TENSORS)]
    if changed is not None:
        body[changed] = random.Random("changed").randbytes(TENSOR_BYTES)
    file.write_bytes(len(encoded).to_bytes(8, "little") + encoded + b"".join(body))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    write_weights(tmp_path / "model.safetensors")
    return tmp_path


def test_the_same_files_have_the_same_fingerprint(folder: Path) -> None:
    before = checkpoint_fingerprint(str(folder))
    (folder / "README.md").write_text("no part of the model")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "lock.json").write_text("{}")
    assert checkpoint_fingerprint(str(folder)) == before


@pytest.mark.parametrize("tensor", [0, 7, 23, 39])
def test_one_tensor_trained_further_changes_it(folder: Path, tensor: int) -> None:
    before = checkpoint_fingerprint(str(folder))
    write_weights(folder / "model.safetensors", changed=tensor)
    assert checkpoint_fingerprint(str(folder)) != before


@pytest.mark.parametrize(
    "name", ["config.json", "chat_template.jinja", "modeling_own.py", "qformer_tokenizer/vocab.txt"]
)
def test_small_files_count_in_full(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text('{"a": 1}')
    before = checkpoint_fingerprint(str(folder))
    (folder / name).write_text('{"a": 2}')
    assert checkpoint_fingerprint(str(folder)) != before


@pytest.mark.parametrize(
    "name",
    [
        "optimizer.pt",
        "rng_state_0.pth",
        "training_args.bin",
        "trainer_state.json",
        "eval_results.json",
        "checkpoint-500/config.json",
        "eval/store.sqlite",
        "eval/convbench-ck-1/manifest.json",
    ],
)
def test_what_a_training_or_a_run_leaves_there_does_not_count(folder: Path, name: str) -> None:
    """Else removing it, or writing a run's folder, would make of the model another one."""
    (folder / "eval").mkdir()
    (folder / "eval" / "store.sqlite").touch()
    before = checkpoint_fingerprint(str(folder))
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("{}")
    assert checkpoint_fingerprint(str(folder)) == before


def test_weights_of_another_format_count_by_size_and_samples(folder: Path) -> None:
    weights = folder / "pytorch_model.bin"
    weights.write_bytes(bytes(3_000_000))
    before = checkpoint_fingerprint(str(folder))
    weights.write_bytes(bytes(3_000_001))
    longer = checkpoint_fingerprint(str(folder))
    weights.write_bytes(bytes(2_999_999) + b"x")
    assert len({before, longer, checkpoint_fingerprint(str(folder))}) == 3


def test_a_single_file_is_a_checkpoint_too(folder: Path) -> None:
    (folder / "model.gguf").write_bytes(b"weights")
    assert checkpoint_fingerprint(str(folder / "model.gguf"))


def test_a_hub_name_counts_with_its_revision() -> None:
    plain = checkpoint_fingerprint("org/model")
    assert plain == checkpoint_fingerprint("org/model", None)
    assert plain != checkpoint_fingerprint("org/model", "4f2a")
    assert not is_local("org/model")


def test_the_commit_of_what_was_downloaded_is_known(snapshot: Path) -> None:
    commit = "0123456789" * 4
    (snapshot.parent.parent / "refs" / "main").write_text(commit)
    whole = snapshot.rename(snapshot.with_name(commit))
    (whole / "config.json").write_text("{}")
    assert commit_at_hand("org/name") == commit
    assert commit_at_hand("org/other") is None
    assert commit_at_hand(str(whole)) is None


def test_a_silent_hub_is_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    hub = unused_url().removesuffix("/v1")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match=f"^model one: some/one is not in .* and {hub} cannot be"):
        require_hub(ModelSpec(provider="hf", model="some/one"), None)
    # its library says better what is wrong with a name
    require_hub(ModelSpec(provider="hf", model="no hub name / at all"), None)


def test_a_path_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        checkpoint_fingerprint(str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="holds no checkpoint"):
        checkpoint_fingerprint(str(tmp_path))


PARTS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def safetensors(length: int = 64) -> bytes:
    tensors = {"w": {"dtype": "U8", "shape": [length], "data_offsets": [0, length]}}
    header = json.dumps({"__metadata__": {"format": "pt"}, **tensors}).encode()
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
    message = (
        rf"^{re.escape(str(tmp_path / name))}: cut short or damaged.*; copy or download it again$"
    )
    with pytest.raises(ConfigError, match=message):
        checkpoint_fingerprint(str(tmp_path))


def test_files_that_an_index_names_and_that_are_missing_are_named(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(index(*PARTS))
    (tmp_path / PARTS[0]).write_bytes(safetensors())
    message = rf"index\.json names 2 files, of which 1 are missing \({PARTS[1]}\)"
    with pytest.raises(ConfigError, match=message):
        checkpoint_fingerprint(str(tmp_path))


def test_a_pointer_of_git_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n"
    )
    with pytest.raises(
        ConfigError, match=r"model\.safetensors: only Git's pointer .* `git lfs pull`"
    ):
        checkpoint_fingerprint(str(tmp_path))


OWN = {"shortest_edge": 3136, "longest_edge": 12845056}

FILES: dict[str, tuple[str, Any]] = {
    "Qwen2-VL": (
        "preprocessor_config.json",
        {"min_pixels": 3136, "max_pixels": 12845056, "merge_size": 2, "patch_size": 14},
    ),
    "Qwen3-VL": ("preprocessor_config.json", {"size": OWN, "merge_size": 2}),
    "saved by transformers 5": (
        "processor_config.json",
        {"image_processor": {"size": OWN, "merge_size": 2}, "video_processor": {}},
    ),
}


@pytest.mark.parametrize("family", FILES)
def test_bounds_of_areas_are_read(tmp_path: Path, family: str) -> None:
    name, document = FILES[family]
    (tmp_path / name).write_text(json.dumps(document))
    assert area_bounds(str(tmp_path)) == OWN


@pytest.mark.parametrize(
    "text",
    [
        '{"size": {"shortest_edge": 336}}',
        '{"size": {"longest_edge": 1024}, "patch_size": 16}',
        '{"size": {"longest_edge": 1024}, "merge_size": 2}',
        "[]",
        "no JSON",
    ],
)
def test_other_bounds_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "preprocessor_config.json").write_text(text)
    assert area_bounds(str(tmp_path)) is None
