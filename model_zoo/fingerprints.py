"""Names a checkpoint by its content, so that a reply is never looked up under other weights.

Local checkpoints are read, but not in full: small files whole, weights by size and samples, and the
headers and lengths of safetensors for damage. Hub names are trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_bytes, hash_json
from model_zoo.checkpoints import AGAIN, POINTER, POINTER_ONLY, is_local, weight_files

_HEADER_BYTES = 100 * 1024 * 1024
_SMALL = frozenset({".json", ".txt", ".jinja", ".model", ".py"})
_WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth", ".gguf"})
_OF_TRAINING = re.compile(
    r"(optimizer|scheduler|scaler)\b.*|rng_state.*"
    r"|training_args\.bin|trainer_state\.json|(all|eval|train|predict)_results\.json"
)
"""Files that a training leaves next to the model, and that no model is loaded from."""

_TRAINING = re.compile(r"(checkpoint|global_step|epoch|step)[-_]?\d+")
_OF_RUNS = ("store.sqlite", "spec.json")
_SMALL_BYTES = 20 * 1024 * 1024
_BLOCK_BYTES = 64 * 1024
_BLOCKS = 16
_TENSOR_BYTES = 4 * 1024


def checkpoint_fingerprint(model: str, revision: str | None = None) -> str:
    """A hash of a checkpoint's content: a local folder or file, else a hub name and its revision.

    Of a folder count the names and contents of configuration, tokenizer, template and code files
    and, of weights, the size and samples (of safetensors: of every tensor), so that weights trained
    further in place get another hash within a fraction of a second. The folder's name does not
    count, nor a training's state and earlier checkpoints, nor run folders below it. Raises
    `ConfigError` for a path that does not exist or is not a checkpoint, and for missing or cut
    files of its weights.
    """
    if not is_local(model):
        return hash_json(["hub", model, revision])
    path = Path(model).expanduser()
    if not path.exists():
        raise ConfigError(f"model {model}: no such folder; give a checkpoint's folder")
    files = {str(file.relative_to(path)): file for file in _files(path)}
    if not files:
        raise ConfigError(f"model {model}: holds no checkpoint (no configuration, no weights)")
    weight_files(path)  # none of them is missing
    return hash_json(["local", {name: _file_hash(file) for name, file in files.items()}])


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for folder, within, names in os.walk(path):
        here = Path(folder)
        within[:] = [name for name in within if not _is_apart(here / name)]
        for file in (here / name for name in names if not name.startswith(".")):
            known = file.suffix in _SMALL | _WEIGHTS and not _OF_TRAINING.fullmatch(file.name)
            if known and file.is_file():
                yield file


def _is_apart(folder: Path) -> bool:
    if folder.name.startswith(".") or _TRAINING.fullmatch(folder.name):
        return True
    return any((folder / name).exists() for name in _OF_RUNS)


def _file_hash(file: Path) -> str:
    size = file.stat().st_size
    if file.suffix in _SMALL and size <= _SMALL_BYTES:
        return hash_bytes(file.read_bytes())
    digest = hashlib.sha256(str(size).encode())
    with file.open("rb") as stream:
        for begin, length in _spans(file, size):
            stream.seek(begin)
            digest.update(stream.read(length))
    return digest.hexdigest()


def _read_header(file: Path) -> tuple[int, dict[str, Any]]:
    """The offset of the tensors, in bytes, and the header (layout: the safetensors format).

    Raises `ConfigError` if the header cannot be read, or if the file has another length.
    """
    with file.open("rb") as stream:
        begin = stream.read(8)
        if begin == POINTER[:8]:
            raise ConfigError(f"{file}: {POINTER_ONLY}")
        length = int.from_bytes(begin, "little")
        if length > _HEADER_BYTES:
            raise ConfigError(f"{file}: not a safetensors file; {AGAIN}")
        text = stream.read(length)
    try:
        header: dict[str, Any] = json.loads(text)
        ends = [
            entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"
        ]
        whole = 8 + length + max(ends, default=0)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file}: cut short or damaged; {AGAIN}") from error
    if (size := file.stat().st_size) != whole:
        raise ConfigError(
            f"{file}: cut short or damaged ({size:,} bytes; its header says {whole:,}); {AGAIN}"
        )
    return 8 + length, header


def _spans(file: Path, size: int) -> Iterator[tuple[int, int]]:
    """The samples of a large file, as (offset, length) in bytes: head, tail and some between."""
    last = max(size - _BLOCK_BYTES, 0)
    for number in range(_BLOCKS):
        yield last * number // (_BLOCKS - 1), _BLOCK_BYTES
    if file.suffix == ".safetensors":
        yield from _tensor_spans(file)


def _tensor_spans(file: Path) -> Iterator[tuple[int, int]]:
    """The beginning and the middle of every tensor: training may change only a few small ones."""
    begin, header = _read_header(file)
    for name, entry in sorted(header.items()):
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            yield begin + first, min(_TENSOR_BYTES, last - first)
            middle = (first + last) // 2
            yield begin + middle, min(_TENSOR_BYTES, last - middle)
