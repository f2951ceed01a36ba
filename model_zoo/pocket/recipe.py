"""The pocket model's words, its shape, and the batches that it is trained on.

Only `train.py` imports this. A token is a word or a mark with the blank before it, so that tokens
written one after another are the text. The name of a thing ("red circle") is one token, as frequent
pairs are for tokenizers of subwords. Words that the scene language does not use are one token.

Batch `n` of a series depends on the series and `n` alone, so that training resumes where it
stopped. No dataset that mmconv writes uses these series.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

from images.drawn.script import write_script
from images.drawn.shapes import COLOURS, SHAPES, Scene, label_map, pixels, sample_scene
from images.drawn.truth import Dialogue

SIZES = ("small", "large")

SPECIAL = ("<pad>", "<unknown>", "<image>", "<user>", "<assistant>", "<end>")
PAD, UNKNOWN, IMAGE, USER, ASSISTANT, END = SPECIAL
PATTERN = rf" ?(?:{'|'.join(COLOURS)}) (?:{'|'.join(SHAPES)})\b| ?\w+|\n| ?[^\w\s]"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] != 'system' %}{{ '<' + message['role'] + '>' }}"
    "{% for part in message['content'] %}"
    "{{ '<image>' if part['type'] == 'image' else part['text'] }}"
    "{% endfor %}"
    "{{ '<end>' if message['role'] == 'assistant' else '' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)
"""Assistant turns end with <end>; a system message is left out, and mmconv then refuses it."""

SIDE = 80
"""Width and height of the model's input in pixels."""

PATCH = 10
GRID = SIDE // PATCH
PATCHES = GRID * GRID
CONTEXT = 2048
"""Longest prompt and reply together, in tokens."""

_MIDDLE = 0.5
"""Mean and deviation of each channel, by which pixels are scaled."""

IGNORED = -100
"""The label of a token that is not learnt."""

_COVERED = 0.12
"""The least share of a patch that a thing must cover to be its label."""

_MISREAD = 0.5
"""The share of whole dialogues that describe another scene than the image shows."""

_ROUNDED = 16
"""Lengths are rounded up to multiples: the library prepares again for every new shape."""

Ids: TypeAlias = dict[str, int]


def draw_sample(series: str, seed: int, number: int) -> tuple[Scene, Dialogue]:
    """Scene and dialogue `number` of a series: each has its own stream of random numbers."""
    random = Random(f"scenes/{series}/{seed}/{number}")
    scene = sample_scene(random)
    return scene, write_script(scene, random)


@cache
def words() -> tuple[str, ...]:
    """The vocabulary in the order of its ids: special tokens, then words by their spelling."""
    met: set[str] = set()
    for number in range(4000):
        for turn in draw_sample("pocket-words", 0, number)[1].turns:
            met.update(pieces(turn.instruction))
            met.update(pieces(turn.reference))
    return (*SPECIAL, *sorted(met))


def pieces(text: str) -> list[str]:
    """A text cut into tokens."""
    return re.findall(PATTERN, text)


def build_processor(library: Any) -> Any:
    """Tokenizer and image processor together; `library` is transformers."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    ids = {word: number for number, word in enumerate(words())}
    core = Tokenizer(models.WordLevel(ids, UNKNOWN))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(PATTERN), behavior="isolated")
    core.decoder = decoders.Fuse()
    tokenizer = library.PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        extra_special_tokens={"image_token": IMAGE, "user": USER, "assistant": ASSISTANT},
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    images = library.CLIPImageProcessor(
        size={"shortest_edge": SIDE},
        crop_size={"height": SIDE, "width": SIDE},
        image_mean=[_MIDDLE] * 3,
        image_std=[_MIDDLE] * 3,
    )
    return library.LlavaProcessor(
        images,
        tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=CHAT_TEMPLATE,
    )


def build_model(library: Any, tokenizer: Any) -> Any:
    """The model with fresh weights, drawn from torch's global generator."""
    tower = library.CLIPVisionConfig(
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        image_size=SIDE,
        patch_size=PATCH,
        hidden_act="gelu",
    )
    decoder = library.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=160,
        intermediate_size=400,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        initializer_range=0.05,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    config = library.LlavaConfig(
        vision_config=tower,
        text_config=decoder,
        image_token_index=tokenizer.image_token_id,
        image_seq_length=PATCHES,
        vision_feature_layer=-1,
        tie_word_embeddings=True,
    )
    return library.LlavaForConditionalGeneration(config)


class Views(NamedTuple):
    """Pictures (rows, 3, SIDE, SIDE) and, per patch and aspect, what it shows (rows, patches, 4).

    The aspects are colour, shape, size and place from the left, each 0 where there is only ground.
    """

    pictures: torch.Tensor
    patches: torch.Tensor


class Texts(NamedTuple):
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
    return Views((pictures / 255 - _MIDDLE) / _MIDDLE, patches)


def _patches(scene: Scene) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    labels = np.frombuffer(label_map(scene, SIDE), dtype=np.uint8)
    cells = labels.reshape(GRID, PATCH, GRID, PATCH).swapaxes(1, 2).reshape(GRID * GRID, -1)
    cover = np.stack([(cells == place).mean(axis=1) for place in range(1, 6)], axis=1)
    shown = np.where(cover.max(axis=1) < _COVERED, 0, cover.argmax(axis=1) + 1)
    aspects = [(0, 0, 0, 0)]
    for place, thing in enumerate(scene.things, start=1):
        look = COLOURS.index(thing.colour), SHAPES.index(thing.shape), SIZES.index(thing.size)
        aspects.append((look[0] + 1, look[1] + 1, look[2] + 1, place))
    return np.array(aspects)[shown].astype(np.int64)


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
    ids: list[int] = []
    labels: list[int] = []
    for number, turn in enumerate(dialogue.turns[:turns], start=1):
        question = [USER, *pieces(turn.instruction), ASSISTANT]
        answer = [known.get(word, known[UNKNOWN]) for word in (*pieces(turn.reference), END)]
        ids += [known.get(word, known[UNKNOWN]) for word in question] + answer
        labels += [IGNORED] * len(question)
        labels += answer if number in learnt else [IGNORED] * len(answer)
    return ids, labels


def sight(number: int, size: int) -> Views:
    """Pictures with labelled patches."""
    return views([draw_sample("pocket-sight", number, row)[0] for row in range(size)])


def language(number: int, size: int, known: Ids) -> Texts:
    """Whole dialogues without pictures, to learn reasoning and creation from what was said."""
    dialogues = [draw_sample("pocket-language", number, row)[1] for row in range(size)]
    return texts(dialogues, known, 3, [{2, 3}] * size)


def looking(number: int, size: int, known: Ids) -> tuple[Views, Texts]:
    """First turns with their pictures."""
    samples = [draw_sample("pocket-looking", number, row) for row in range(size)]
    scenes, dialogues = [scene for scene, _ in samples], [dialogue for _, dialogue in samples]
    return views(scenes), texts(dialogues, known, 1, [{1}] * size)


def conversing(number: int, size: int, known: Ids) -> tuple[Views, Texts]:
    """Whole dialogues with pictures; in some, image and text differ slightly.

    There the later turns follow the text: a model must go on from what was said, true or not.
    """
    scenes, dialogues, learnt = [], [], []
    for row in range(size):
        scene, dialogue = draw_sample("pocket-conversing", number, row)
        random = Random(f"pocket-misread/{number}/{row}")
        misread = random.random() < _MISREAD
        other = write_script(misreading(scene, random), random)
        scenes.append(scene)
        dialogues.append(other if misread else dialogue)
        learnt.append({2, 3} if misread else {1, 2, 3})
    return views(scenes), texts(dialogues, known, 3, learnt)


def misreading(scene: Scene, random: Random) -> Scene:
    """The scene misread: one or two things differ in colour, shape or size."""
    things = list(scene.things)
    for _ in range(random.randint(1, 2)):
        place = random.randrange(len(things))
        thing = things[place]
        choices = (
            replace(thing, colour=random.choice(COLOURS)),
            replace(thing, shape=random.choice(SHAPES)),
            replace(thing, size=random.choice(SIZES)),
        )
        changed = random.choice(choices)
        if changed.name not in {other.name for other in things if other is not thing}:
            things[place] = changed
    return replace(scene, things=tuple(things))
