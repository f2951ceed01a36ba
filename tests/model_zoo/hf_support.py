"""What the tests of the transformers backend share: checkpoints, pictures, conversations."""

from __future__ import annotations

import asyncio
import atexit
import functools
import gc
import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from images import ImageStore
from mmconv.core.config import ModelSpec
from mmconv.core.types import Image, Message, Reply, Sampling
from model_zoo.hf import open_backend
from tests import torchvision_stub
from tests.messages import message, user
from tests.pictures import picture
from tests.tiny_checkpoints import FAMILIES, make_checkpoint

if TYPE_CHECKING:
    from model_zoo.hf.backend import HfBackend

pytest.importorskip("transformers", reason="needs the extra hf")

WITHOUT_TORCHVISION = torchvision_stub.install()
"""Why torchvision cannot be used, or None."""

_FOLDER = tempfile.TemporaryDirectory(prefix="mmconv-tiny-")
atexit.register(_FOLDER.cleanup)

SIZES = ((80, 40), (120, 90), (90, 150), (200, 60), (128, 128), (300, 220))
"""Of the pictures that conversations show, in pixels."""

_WORDS = (
    *("the", "red", "circle", "stands", "left", "of", "a", "blue", "square"),
    *("and", "why", "is", "it", "written", "there"),
)


class Pictures(ImageStore):
    """An image store of drawn scenes."""

    def draw(self, seed: int) -> Image:
        return self.add_bytes(picture(seed, SIZES[seed % len(SIZES)]))


PICTURES = Pictures()


@functools.cache
def checkpoint(family: str) -> Path:
    """A tiny checkpoint, made once per run; skips where its processor cannot be had."""
    if FAMILIES[family].torchvision and WITHOUT_TORCHVISION is not None:
        pytest.skip(WITHOUT_TORCHVISION)
    made = make_checkpoint(family, Path(_FOLDER.name) / family)
    gc.freeze()  # Every backend that is closed collects garbage, and this has imported a lot.
    return made


def spec(family: str, **options: Any) -> ModelSpec:
    options_set = {"dtype": "float32", "threads": 1, **options}
    return ModelSpec(provider="hf", model=str(checkpoint(family)), options=options_set)


@asynccontextmanager
async def backend(family: str, **options: Any) -> AsyncIterator[HfBackend]:
    async with aclosing(await open_backend(spec(family, **options), PICTURES)) as opened:
        yield opened


def named(folder: Path, **options: Any) -> ModelSpec:
    """A checkpoint in a folder, with the options of `spec`."""
    return spec("llama", **options).model_copy(update={"model": str(folder)})


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncIterator[HfBackend]:
    async with aclosing(await open_backend(named(folder, **options), PICTURES)) as model:
        yield model


def set_fields(folder: Path, file: str, **fields: Any) -> None:
    """Set fields of a file of JSON."""
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def loaded(model: HfBackend) -> Any:
    """The checkpoint of a backend that is open, to look into or to bend."""
    assert model.checkpoint is not None
    return model.checkpoint


def said(text: str) -> Message:
    return message("assistant", text)


async def ask(model: HfBackend, *messages: Message, **sampling: Any) -> Reply:
    settings = Sampling(**{"max_tokens": 8, **sampling})
    return await model.generate(messages, settings, affinity="")


def turns(number: int, pictures: Sequence[int]) -> list[Message]:
    """Three user messages of lengths that depend on `number`; images by the turn they enter at."""
    messages = []
    for turn in range(3):
        words = " ".join(_WORDS[: 2 + (number * 5 + turn * 3) % 12])
        shown = [PICTURES.draw(number + place) for place, at in enumerate(pictures) if at == turn]
        messages.append(user(*shown, f"{words} {number}?"))
    return messages


async def converse(model: HfBackend, messages: Sequence[Message], sampling: Sampling) -> list[str]:
    """The model's replies, each turn's in the history of the next."""
    history: list[Message] = []
    replies = []
    for asked in messages:
        history.append(asked)
        reply = await model.generate(history, sampling, affinity="")
        replies.append(reply.text)
        history.append(said(reply.text))
    return replies


async def both_ways(
    model: HfBackend, conversations: Sequence[Sequence[Message]], sampling: Sampling
) -> tuple[list[list[str]], list[list[str]]]:
    """The replies to all conversations, held one after the other and all at once."""
    alone = [await converse(model, messages, sampling) for messages in conversations]
    together = await asyncio.gather(
        *[converse(model, messages, sampling) for messages in conversations]
    )
    return alone, list(together)


def count_batches(model: HfBackend) -> list[int]:
    """A list that grows by the size of every batch that the model is given from now on."""
    sizes: list[int] = []
    answer = model.queue.answer

    def counted(batch: Any) -> Any:
        sizes.append(len(batch))
        return answer(batch)

    model.queue.answer = counted
    return sizes
