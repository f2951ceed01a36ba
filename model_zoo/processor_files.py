"""What a checkpoint's own processor file says of images, read without loading a processor.

Nothing is downloaded: a hub name is looked up among what its library has downloaded before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from model_zoo.checkpoints import file_at_hand

SHORTEST, LONGEST = "shortest_edge", "longest_edge"
"""What bounds are called, of an edge or, in some families, of an area."""

_FILES = ("preprocessor_config.json", "processor_config.json")
_OLD_NAMES = {SHORTEST: "min_pixels", LONGEST: "max_pixels"}


def area_bounds(model: str, revision: str | None = None) -> dict[str, int] | None:
    """The least and the largest area, in pixels, that the processor scales images into.

    None if it bounds edges, as most do, or if its file is not at hand.
    """
    for file in filter(None, (file_at_hand(model, name, revision) for name in _FILES)):
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
