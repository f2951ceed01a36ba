"""Scenes: images of a few coloured things, dialogues about them, and a checker of answers.

Everything is drawn from a seed and true by construction. The language is small and regular: it does
not test what a real model can say, only what it sees and how it reasons about that.
"""

from images.scenes.checking import Check, check, facts_of, falsify
from images.scenes.dialogue import Dialogue, Sample, answer, draw_sample, write_dialogue
from images.scenes.scene import (
    COLOURS,
    SHAPES,
    SIDE,
    SIZES,
    Plan,
    Scene,
    Thing,
    draw,
    label_map,
    paint,
    pixels,
    sample_scene,
)
from images.scenes.turns import Turn

__all__ = [
    "COLOURS",
    "SHAPES",
    "SIDE",
    "SIZES",
    "Check",
    "Dialogue",
    "Plan",
    "Sample",
    "Scene",
    "Thing",
    "Turn",
    "answer",
    "check",
    "draw",
    "draw_sample",
    "facts_of",
    "falsify",
    "label_map",
    "paint",
    "pixels",
    "sample_scene",
    "write_dialogue",
]
