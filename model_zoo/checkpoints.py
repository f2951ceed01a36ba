"""Names a checkpoint by what it holds, so that a reply is never looked up under other weights.

Local checkpoints are read, but not in full: small files whole, weights by size and samples. Hub
names are taken at their word. Missing files, whether a checkpoint takes images and how its
processor bounds them are also read here, of a hub name if it was downloaded before. No model
library is imported and nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_bytes, hash_json
from model_zoo.weight_files import POINTER, POINTER_ONLY, check_whole, safetensors_header

_SMALL = frozenset({".json", ".txt", ".jinja", ".model", ".py"})
_WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth", ".gguf"})
_OF_TRAINING = re.compile(
    r"(optimizer|scheduler|scaler)\b.*|rng_state.*"
    r"|training_args\.bin|trainer_state\.json|(all|eval|train|predict)_results\.json"
)
"""Files that a training leaves beside the model, and that no model is loaded from."""

_TRAINING = re.compile(r"(checkpoint|global_step|epoch|step)[-_]?\d+")
_OF_RUNS = ("store.sqlite", "spec.json")
_SMALL_BYTES = 20 * 1024 * 1024
_BLOCK_BYTES = 64 * 1024
_BLOCKS = 16
_TENSOR_BYTES = 4 * 1024

_CONFIG = "config.json"
_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
_JSON = (
    *(_CONFIG, "generation_config.json", "tokenizer.json", "tokenizer_config.json"),
    *_PROCESSORS,
)
"""The JSON files that a model is loaded from, other than an index of its weights."""

_VOCABULARY = re.compile(
    r"tokenizer\.json|tekken\.json|vocab\.(json|txt)|.*\.(model|tiktoken|bpe|spm)"
)
"""Files that hold a tokenizer's vocabulary."""

SHORTEST, LONGEST = "shortest_edge", "longest_edge"
"""What processors call their bounds, of an edge or, in some families, of an area."""

_OLD_NAMES = {SHORTEST: "min_pixels", LONGEST: "max_pixels"}

_COMMIT = re.compile(r"[0-9a-f]{40}")

HUB_SECONDS = 10.0
"""How long the hub may take to answer."""

_OF_PICTURES = re.compile(r"vision|visual|image|img|pixel|vit_|vq_|mm_")
"""What the names of a configuration's fields hold, one at least, where a model sees."""


def is_local(model: str) -> bool:
    """Whether `model` is a path: one that exists, or one that can be nothing else."""
    return Path(model).expanduser().exists() or model.startswith(("/", "./", "../", "~"))


def file_at_hand(model: str, name: str, revision: str | None = None) -> Path | None:
    """Where a file of a checkpoint lies: in its folder, or where the hub's library keeps downloads.

    None for what was not downloaded before. In a folder the file need not be there.
    """
    if is_local(model):
        return Path(model).expanduser() / name
    if find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(model, name, revision=revision)
    except ValueError:  # a name that the hub could not have is for the server to refuse
        return None
    return Path(found) if isinstance(found, str) else None


def commit_at_hand(model: str, revision: str | None = None) -> str | None:
    """The commit of a hub name that was downloaded; None for a folder, or where it is not known."""
    file = None if is_local(model) else file_at_hand(model, "config.json", revision)
    return file.parent.name if file is not None and _COMMIT.fullmatch(file.parent.name) else None


def check_files(model: str, *, images: bool | None = None) -> None:
    """Raise `ConfigError` naming a file that a checkpoint's folder lacks, or that is damaged.

    That is its configuration, tokenizer and, if it takes `images` (None: if its configuration has
    a vision part), processor. Hub names and single files are not checked, nor what code that the
    checkpoint brings may do without.
    """
    folder = Path(model).expanduser()
    if not folder.is_dir():
        return
    documents = {name: _read_json(folder / name) for name in _JSON if (folder / name).is_file()}
    config = documents.get(_CONFIG, {})
    code = any("auto_map" in document for document in documents.values())
    tokenizer = documents.get("tokenizer_config.json", {}).get("tokenizer_class")
    has_tokenizer = any(_VOCABULARY.fullmatch(file.name) for file in folder.iterdir())
    sees = bool(config.get("vision_config")) if images is None else images
    present = {
        "configuration (config.json)": _CONFIG in documents,
        # code may read another file, and ByT5 reads bytes
        "tokenizer (tokenizer.json or tokenizer.model)": (
            has_tokenizer or code or tokenizer == "ByT5Tokenizer"
        ),
        f"processor ({' or '.join(_PROCESSORS)})": (
            not sees or code or not documents.keys().isdisjoint(_PROCESSORS)
        ),
    }
    if missing := [name for name, is_present in present.items() if not is_present]:
        raise ConfigError(
            f"{folder}: missing {' and '.join(missing)}; copy it from the checkpoint that this one "
            "was made from, or download the checkpoint again"
        )


def _read_json(file: Path) -> dict[str, Any]:
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        document = json.loads(text)
    except ValueError as error:
        if text.startswith(POINTER.decode()):
            raise ConfigError(f"{file}: {POINTER_ONLY}") from None
        raise ConfigError(f"{file}: not valid JSON ({error}); copy or download it again") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: expected a JSON object; copy or download it again")
    return document


def area_bounds(model: str, revision: str | None = None) -> dict[str, int] | None:
    """The least and the largest area, in pixels, that the processor scales images into.

    None if it bounds edges, as most do, or if its file is not at hand.
    """
    for file in filter(None, (file_at_hand(model, name, revision) for name in _PROCESSORS)):
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            document = json.loads(file.read_text(encoding="utf-8"))
            return _bounds(document.get("image_processor") or document)
    return None


def _bounds(processor: Mapping[str, Any]) -> dict[str, int] | None:
    # the families that merge patches (Qwen2-VL and later, GLM-4V) bound areas by the edges' names
    if "merge_size" not in processor:
        return None
    size = processor.get("size") or {}
    return {edge: int(processor.get(old) or size[edge]) for edge, old in _OLD_NAMES.items()}


def require_hub(spec: ModelSpec, revision: str | None) -> None:
    """Raise `ConfigError` for a hub name that is not downloaded if the hub does not answer.

    Without this its library tries for half a minute, file by file.
    """
    if is_local(spec.model) or file_at_hand(spec.model, "config.json", revision) is not None:
        return
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        HfApi().model_info(spec.model, revision=revision, timeout=HUB_SECONDS)
    except (HfHubHTTPError, HFValidationError):
        return  # the hub answers; loading says what is wrong with the name
    except Exception as error:  # httpx's or httpx2's, by the version of the library
        raise ConfigError(
            f"model {spec.label}: {spec.model} is not in the hub's cache on this machine, and "
            f"{constants.ENDPOINT} cannot be reached ({error}); download it, or give a "
            "checkpoint's folder"
        ) from error


def require_pinned(spec: ModelSpec, revision: str | None) -> None:
    """Raise `ConfigError` where the hub's code would run, of whatever commit is the latest."""
    if not revision and not is_local(spec.model):
        raise ConfigError(
            f"model {spec.label}: trust_remote_code runs code from the hub; pin it by options."
            "revision (a commit hash of the model's repository), or give a local folder"
        )


def require_sight(model: str, revision: str | None = None) -> None:
    """Raise `ConfigError` for a checkpoint whose configuration speaks of no pictures at all.

    Of a hub name that was not downloaded before, and of a model that brings code of its own,
    nothing is known here.
    """
    file = file_at_hand(model, "config.json", revision)
    if file is None:
        return
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    fields = set(_fields(config))
    is_told = "model_type" in fields and "auto_map" not in fields
    if is_told and not any(map(_OF_PICTURES.search, fields)):
        raise ConfigError(f"it takes no images: {file} describes no part that sees")


def _fields(config: Any) -> Iterator[str]:
    """The names of all fields, at any depth."""
    if isinstance(config, dict):
        for name, value in config.items():
            yield name
            yield from _fields(value)
    elif isinstance(config, list):
        for value in config:
            yield from _fields(value)


def checkpoint_fingerprint(model: str, revision: str | None = None) -> str:
    """A hash of a checkpoint's content: a local folder or file, else a hub name and its revision.

    Of a folder count the names and contents of configuration, tokenizer, template and code files
    and, of weights, the size and samples (of safetensors: of every tensor), so that weights trained
    further in place get another hash within a fraction of a second. The folder's own name does not
    count, nor what a training left there (its state, earlier checkpoints), nor runs that were
    written below it. Raises `ConfigError` where a path leads nowhere or holds no
    checkpoint, and where files of its weights are missing or cut short.
    """
    if not is_local(model):
        return hash_json(["hub", model, revision])
    path = Path(model).expanduser()
    if not path.exists():
        raise ConfigError(f"model {model}: there is no such folder; give a checkpoint's folder")
    files = {str(file.relative_to(path)): file for file in _files(path)}
    if not files:
        raise ConfigError(f"model {model}: holds no checkpoint (no configuration, no weights)")
    check_whole(path)
    return hash_json(["local", {name: _file_hash(file) for name, file in files.items()}])


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for file in sorted(_below(path)):
        known = file.suffix in _SMALL | _WEIGHTS and not _OF_TRAINING.fullmatch(file.name)
        if known and not file.name.startswith(".") and file.is_file():
            yield file


def _below(path: Path) -> Iterator[Path]:
    """All files of a checkpoint, but for those in folders that are something else."""
    for folder, within, names in os.walk(path):
        here = Path(folder)
        within[:] = [name for name in within if not _is_apart(here / name)]
        yield from (here / name for name in names)


def _is_apart(folder: Path) -> bool:
    """Whether a folder within a checkpoint's is hidden, a training's, or has results of runs."""
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


def _spans(file: Path, size: int) -> Iterator[tuple[int, int]]:
    """What is read of a large file, as (offset, length) in bytes: head, tail and some between."""
    last = max(size - _BLOCK_BYTES, 0)
    for number in range(_BLOCKS):
        yield last * number // (_BLOCKS - 1), _BLOCK_BYTES
    if file.suffix == ".safetensors":
        yield from _tensor_spans(file)


def _tensor_spans(file: Path) -> Iterator[tuple[int, int]]:
    """The beginning and the middle of every tensor: training may touch a few small ones only."""
    begin, header = safetensors_header(file)
    for name, entry in sorted(header.items()):
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            yield begin + first, min(_TENSOR_BYTES, last - first)
            middle = (first + last) // 2
            yield begin + middle, min(_TENSOR_BYTES, last - middle)
