"""What the pocket model is trained on: drawn scenes as tensors, one batch per number.

Batch `n` of a lesson depends on its name and `n` alone, so that training resumes where it stopped.
Training draws from series of its own names; no data set that mmconv writes uses them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias

import numpy as np
import torch

from images.scenes import (
    COLOURS,
    SHAPES,
    SIZES,
    Dialogue,
    Scene,
    Thing,
    draw_sample,
    label_map,
    pixels,
    write_dialogue,
)
from model_zoo.pocket.architecture import GRID, PATCH, SIDE, normalise
from model_zoo.pocket.vocabulary import ASSISTANT, END, PAD, UNKNOWN, USER, pieces

IGNORED = -100
"""The label of a token that is not learnt."""

_COVERED = 0.12
"""The least share of a patch that a thing must cover to be its label."""

_MISREAD = 0.5
"""How many whole dialogues tell of another scene than the picture shows."""

_ROUNDED = 16
"""Lengths are rounded up, since the library prepares itself anew for every shape that it meets."""

Ids: TypeAlias = dict[str, int]


@dataclass(frozen=True, slots=True)
class Views:
    """Pictures (rows, 3, SIDE, SIDE) and, per patch and aspect, what it shows (rows, patches, 4).

    The aspects are colour, shape, size and place from the left, each 0 where there is only ground.
    """

    pictures: torch.Tensor
    patches: torch.Tensor


@dataclass(frozen=True, slots=True)
class Texts:
    """Token ids (rows, length) padded at the end, and the ids to learn, else IGNORED."""

    ids: torch.Tensor
    labels: torch.Tensor


ASPECTS = (len(COLOURS) + 1, len(SHAPES) + 1, len(SIZES) + 1, 6)
"""How many labels each aspect has."""


def views(scenes: list[Scene]) -> Views:
    """Pictures of the scenes, with the labels of their patches."""
    flat = b"".join(pixels(scene, SIDE) for scene in scenes)
    values = torch.frombuffer(bytearray(flat), dtype=torch.uint8)
    pictures = values.view(len(scenes), SIDE, SIDE, 3).permute(0, 3, 1, 2).float()
    patches = torch.from_numpy(np.stack([_patches(scene) for scene in scenes]))
    return Views(normalise(pictures), patches)


def _patches(scene: Scene) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    labels = np.frombuffer(label_map(scene, SIDE), dtype=np.uint8)
    cells = labels.reshape(GRID, PATCH, GRID, PATCH).swapaxes(1, 2).reshape(GRID * GRID, -1)
    cover = np.stack([(cells == place).mean(axis=1) for place in range(1, 6)], axis=1)
    shown = np.where(cover.max(axis=1) < _COVERED, 0, cover.argmax(axis=1) + 1)
    told = np.array([(0, 0, 0, 0), *(_aspects(thing) for thing in scene.things)])
    told[1:, 3] = np.arange(1, len(told))
    return told[shown].astype(np.int64)


def _aspects(thing: Thing) -> tuple[int, int, int, int]:
    return (
        COLOURS.index(thing.colour) + 1,
        SHAPES.index(thing.shape) + 1,
        SIZES.index(thing.size) + 1,
        0,
    )


def texts(dialogues: list[Dialogue], known: Ids, turns: int, learnt: list[set[int]]) -> Texts:
    """The first `turns` turns as tokens; row by row, `learnt` says which answers are labels."""
    rows = [_tokens(*pair, known, turns) for pair in zip(dialogues, learnt, strict=True)]
    longest = max(len(ids) for ids, _ in rows)
    length = -(-longest // _ROUNDED) * _ROUNDED
    return Texts(
        torch.tensor([ids + [known[PAD]] * (length - len(ids)) for ids, _ in rows]),
        torch.tensor([labels + [IGNORED] * (length - len(labels)) for _, labels in rows]),
    )


def _tokens(
    dialogue: Dialogue, learnt: set[int], known: Ids, turns: int
) -> tuple[list[int], list[int]]:
    """A dialogue as the chat template writes it, without the image, and its labels."""
    ids: list[int] = []
    labels: list[int] = []
    for number, turn in enumerate(dialogue.turns[:turns], start=1):
        asked = [USER, *pieces(turn.instruction), ASSISTANT]
        told = [*pieces(turn.reference), END]
        ids += [known.get(word, known[UNKNOWN]) for word in asked + told]
        answer = [known.get(word, known[UNKNOWN]) for word in told]
        labels += [IGNORED] * len(asked) + (answer if number in learnt else [IGNORED] * len(told))
    return ids, labels


def sight(number: int, size: int) -> Views:
    """Pictures with labelled patches."""
    return views([draw_sample("pocket-sight", number, row).scene for row in range(size)])


def language(number: int, size: int, known: Ids) -> Texts:
    """Whole dialogues without pictures, to learn reasoning and creation from what was said."""
    dialogues = [draw_sample("pocket-language", number, row).dialogue for row in range(size)]
    return texts(dialogues, known, 3, [{2, 3}] * size)


def looking(number: int, size: int, known: Ids) -> tuple[Views, Texts]:
    """First turns with their pictures."""
    samples = [draw_sample("pocket-looking", number, row) for row in range(size)]
    told = texts([sample.dialogue for sample in samples], known, 1, [{1}] * size)
    return views([sample.scene for sample in samples]), told


def conversing(number: int, size: int, known: Ids) -> tuple[Views, Texts]:
    """Whole dialogues with pictures; of some, the picture shows not quite what the text tells.

    There the later turns follow the text: a model must go on from what was said, true or not.
    """
    scenes, dialogues, learnt = [], [], []
    for row in range(size):
        sample = draw_sample("pocket-conversing", number, row)
        random = Random(f"pocket-misread/{number}/{row}")
        misread = random.random() < _MISREAD
        told = write_dialogue(misreading(sample.scene, random), random)
        scenes.append(sample.scene)
        dialogues.append(told if misread else sample.dialogue)
        learnt.append({2, 3} if misread else {1, 2, 3})
    return views(scenes), texts(dialogues, known, 3, learnt)


def validation(size: int, known: Ids) -> tuple[Views, Texts]:
    """Whole dialogues with pictures, the same ones every time, for the log of the training."""
    samples = [draw_sample("pocket-validation", 0, row) for row in range(size)]
    told = texts([sample.dialogue for sample in samples], known, 3, [{1, 2, 3}] * size)
    return views([sample.scene for sample in samples]), told


def misreading(scene: Scene, random: Random) -> Scene:
    """The scene as a poor eye might see it: one or two things differ in colour, shape or size."""
    things = list(scene.things)
    for _ in range(random.randint(1, 2)):
        place = random.randrange(len(things))
        changed = random.choice(
            (
                replace(things[place], colour=random.choice(COLOURS)),
                replace(things[place], shape=random.choice(SHAPES)),
                replace(things[place], size=random.choice(SIZES)),
            )
        )
        if changed.name not in {other.name for other in things if other is not things[place]}:
            things[place] = changed
    return replace(scene, things=tuple(things))
