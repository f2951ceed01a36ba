"""Scenes: images of a few coloured things, dialogues about them, and a checker of answers.

Everything is drawn from a seed and true by construction. The language is small and regular: it does
not test what a real model can say, only what it sees and how it reasons about that.
"""

from images.scenes.checking import Check, check, falsify
from images.scenes.dialogue import Dialogue, Sample, answer, draw_sample, write_dialogue
from images.scenes.scene import (
    COLOURS,
    DIFFICULTIES,
    SHAPES,
    SIDE,
    SIZES,
    Difficulty,
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
    "DIFFICULTIES",
    "SHAPES",
    "SIDE",
    "SIZES",
    "Check",
    "Dialogue",
    "Difficulty",
    "Sample",
    "Scene",
    "Thing",
    "Turn",
    "answer",
    "check",
    "draw",
    "draw_sample",
    "falsify",
    "label_map",
    "paint",
    "pixels",
    "sample_scene",
    "write_dialogue",
]
