"""Images of a few coloured things, dialogues about them in a small language, and their checker.

The family `shapes` of `images.drawn` shows these scenes. Its level 1 also has these dialogues, in
English, since the model `pocket` was trained on them. Everything is drawn from a seed and true by
construction.
"""

from images.scenes.checking import Check, check, facts_of, falsify
from images.scenes.dialogue import Dialogue, Sample, draw_sample, write_dialogue
from images.scenes.scene import (
    COLOURS,
    SHAPES,
    SIZES,
    Plan,
    Scene,
    Thing,
    label_map,
    paint,
    pixels,
    sample_scene,
)

__all__ = [
    "COLOURS",
    "SHAPES",
    "SIZES",
    "Check",
    "Dialogue",
    "Plan",
    "Sample",
    "Scene",
    "Thing",
    "check",
    "draw_sample",
    "facts_of",
    "falsify",
    "label_map",
    "paint",
    "pixels",
    "sample_scene",
    "write_dialogue",
]
