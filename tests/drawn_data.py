"""A dataset in ConvBench's columns: what `mmconv scenes` draws of the family shapes, level 1."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from images.drawn import draw_sample
from mmconv.benchmarks.scenes.benchmark import ScenesOptions
from mmconv.benchmarks.scenes.files import write_jsonl

LOOKED_UP = 30
"""The first samples of the seed 0, whose true answers can be looked up."""


def write_scenes(folder: Path, count: int, seed: int = 0) -> tuple[Path, Path]:
    """Draw `count` rows into `folder`; returns the data file and the folder of its images."""
    options = ScenesOptions.model_validate({"families": ["shapes"], "levels": [1], "n": count})
    return write_jsonl(folder, options, seed)


@cache
def true_answers() -> Mapping[tuple[str, ...], tuple[str, ...]]:
    """Caption and instructions -> the answers."""
    found = {}
    for number in range(1, LOOKED_UP + 1):
        sample = draw_sample("shapes", 1, 0, number, "en")
        asked = (sample.caption, *(turn.instruction for turn in sample.turns))
        found[asked] = tuple(turn.reference for turn in sample.turns)
    return found
