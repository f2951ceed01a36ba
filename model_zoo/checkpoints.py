"""A checkpoint's files: where they are, whether they are whole, and what its configuration says.

Missing and damaged files are reported, and it is read whether a checkpoint takes images and how its
processor bounds them; of a hub name only what was downloaded before. No model library is imported
and nothing is downloaded. `model_zoo.fingerprints` names a checkpoint by its content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError

_NAMES = ("model.safetensors", "pytorch_model.bin")
"""The files that transformers looks for, in this order, or an index of such a name."""

AGAIN = "copy or download it again"
POINTER = b"version https://git-lfs"
"""The start of a file that Git LFS has not downloaded."""

POINTER_ONLY = "only Git's pointer to the file; run `git lfs pull`"

_CONFIG = "config.json"
_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
_JSON = (_CONFIG, "generation_config.json", "tokenizer.json", "tokenizer_config.json", *_PROCESSORS)
"""The JSON files that a model is loaded from, other than an index of its weights."""

_VOCABULARY = re.compile(
    r"tokenizer\.json|tekken\.json|vocab\.(json|txt)|.*\.(model|tiktoken|bpe|spm)"
)

SHORTEST, LONGEST = "shortest_edge", "longest_edge"
"""Names of processors' bounds, of an edge or, in some families, of an area."""

_OLD_NAMES = {SHORTEST: "min_pixels", LONGEST: "max_pixels"}

_COMMIT = re.compile(r"[0-9a-f]{40}")

HUB_SECONDS = 10.0

_IMAGE_FIELD = re.compile(r"vision|visual|image|img|pixel|vit_|vq_|mm_")
"""The configuration of a model that takes images has at least one such field."""


def weight_files(folder: Path) -> list[Path]:
    """The files of transformers' weights, none for other formats; raises `ConfigError`."""
    for name in _NAMES:
        if (folder / name).exists():
            return [folder / name]
        if (folder / f"{name}.index.json").exists():
            return _indexed(folder / f"{name}.index.json")
    return []


def _indexed(index: Path) -> list[Path]:
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{index}: cut short or damaged; {AGAIN}") from error
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        raise ConfigError(
            f"{index} names {len(names)} files, of which {len(missing)} are missing "
            f"({list_first(missing)}); copy or download them too"
        )
    return [index.parent / name for name in names]


def list_first(names: Collection[str]) -> str:
    """The first three names, and dots for further ones."""
    return ", ".join(sorted(names)[:3]) + (", ..." if len(names) > 3 else "")


def is_local(model: str) -> bool:
    """Whether `model` is a path: one that exists, or one that cannot be a hub name."""
    return Path(model).expanduser().exists() or model.startswith(("/", "./", "../", "~"))


def file_at_hand(model: str, name: str, revision: str | None = None) -> Path | None:
    """The path of a checkpoint's file: in its folder, or in the cache of the hub's library.

    None for a file that was not downloaded before. In a folder the file need not exist.
    """
    if is_local(model):
        return Path(model).expanduser() / name
    if find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    try:
        path = try_to_load_from_cache(model, name, revision=revision)
    except ValueError:  # not a valid hub name; loading reports it
        return None
    return Path(path) if isinstance(path, str) else None


def commit_at_hand(model: str, revision: str | None = None) -> str | None:
    """The commit of a hub name that was downloaded; None for a folder, or if it is not known."""
    file = None if is_local(model) else file_at_hand(model, _CONFIG, revision)
    return file.parent.name if file is not None and _COMMIT.fullmatch(file.parent.name) else None


def check_files(model: str, *, images: bool | None = None) -> None:
    """Raise `ConfigError` for a file that is missing in a checkpoint's folder, or damaged.

    Needed are its configuration, tokenizer and, if it takes `images` (None: if its configuration
    has a vision part), processor. Hub names and single files are not checked, nor files that a
    checkpoint with its own code may not need.
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


def read_fields(file: Path | None) -> Mapping[str, Any]:
    """A JSON file's object; empty if there is none, which is reported when it is loaded."""
    try:
        document = json.loads(file.read_text(encoding="utf-8")) if file else {}
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _read_json(file: Path) -> dict[str, Any]:
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        document = json.loads(text)
    except ValueError as error:
        if text.startswith(POINTER.decode()):
            raise ConfigError(f"{file}: {POINTER_ONLY}") from None
        raise ConfigError(f"{file}: not valid JSON ({error}); {AGAIN}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: expected a JSON object; {AGAIN}")
    return document


def area_bounds(model: str, revision: str | None = None) -> dict[str, int] | None:
    """The processor's least and largest area in pixels; None if it bounds edges, or unknown."""
    for name in _PROCESSORS:
        document = read_fields(file_at_hand(model, name, revision))
        processor = document.get("image_processor") or document
        # the families that merge patches (Qwen2-VL and later, GLM-4V) bound areas by these names
        if "merge_size" in processor:
            size = processor.get("size") or {}
            with suppress(LookupError, ValueError, TypeError):
                return {
                    edge: int(processor.get(old) or size[edge]) for edge, old in _OLD_NAMES.items()
                }
            return None
    return None


def require_hub(spec: ModelSpec, revision: str | None) -> None:
    """Raise `ConfigError` for a hub name that is not downloaded if the hub does not answer.

    The hub's library alone would try for minutes.
    """
    if is_local(spec.model) or file_at_hand(spec.model, _CONFIG, revision) is not None:
        return
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        HfApi().model_info(spec.model, revision=revision, timeout=HUB_SECONDS)
    except (HfHubHTTPError, HFValidationError):
        return  # the hub answers; loading reports what is wrong with the name
    except Exception as error:  # httpx's or httpx2's, by the version of the library
        raise ConfigError(
            f"model {spec.label}: {spec.model} is not in the hub's cache on this machine, and "
            f"{constants.ENDPOINT} cannot be reached ({error}); download it, or give a "
            "checkpoint's folder"
        ) from error


def require_sight(model: str, revision: str | None = None) -> None:
    """Raise `ConfigError` for a checkpoint whose configuration mentions no images.

    A hub name that was not downloaded before and a model with its own code pass.
    """
    file = file_at_hand(model, _CONFIG, revision)
    # the names of nested objects count too
    fields = set(re.findall(r'"(\w+)":', json.dumps(read_fields(file))))
    is_known = "model_type" in fields and "auto_map" not in fields
    if is_known and not any(map(_IMAGE_FIELD.search, fields)):
        raise ConfigError(
            f"it takes no images: {file} describes no part for images; use a vision-language model"
        )
