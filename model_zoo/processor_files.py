"""What a checkpoint's own processor file says of images, read without loading a processor.

Nothing is downloaded: a hub name is looked up among what its library has downloaded before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from model_zoo.checkpoints import is_local

SHORTEST, LONGEST = "shortest_edge", "longest_edge"
"""What bounds are called, of an edge or, in some families, of an area."""

_FILES = ("preprocessor_config.json", "processor_config.json")
_OLD_NAMES = {SHORTEST: "min_pixels", LONGEST: "max_pixels"}


def area_bounds(model: str, revision: str | None = None) -> dict[str, int] | None:
    """The least and the largest area, in pixels, that the processor scales images into.

    None if it bounds edges, as most do, or if its file is not at hand.
    """
    for file in _at_hand(model, revision):
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


def _at_hand(model: str, revision: str | None) -> Iterator[Path]:
    for name in _FILES:
        if is_local(model):
            yield Path(model).expanduser() / name
        elif find_spec("huggingface_hub") is not None:
            from huggingface_hub import try_to_load_from_cache

            # a name that the hub could not have is for the server to refuse
            with suppress(ValueError):
                if isinstance(found := try_to_load_from_cache(model, name, revision=revision), str):
                    yield Path(found)
