"""Scenes: pictures of a few coloured things, dialogues about them, and a checker of answers.

Everything is drawn from a seed and true by construction. The language is small and regular; it is
no test of what a real model can say, only of what it sees and what it makes of that.
"""

from images.scenes.checking import Check, check
from images.scenes.dialogue import Dialogue, Sample, answer, draw_sample, write_dialogue
from images.scenes.picture import SIDE, draw, label_map, paint, pixels
from images.scenes.sampling import sample_scene
from images.scenes.values import (
    COLOURS,
    DIFFICULTIES,
    SHAPES,
    SIZES,
    Difficulty,
    Scene,
    Thing,
)
from images.scenes.wording import Turn

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
    "label_map",
    "paint",
    "pixels",
    "sample_scene",
    "write_dialogue",
]
