"""The transformers backend: what batching brings, and whether it changes replies.

`python -m tests.bench.hf` holds three-turn conversations on a tiny LLaVA (float32, CPU), one after
the other and all at once, then ConvBench's six generations per sample. With `--gpu`: a LLaVA-1.5-7B
with random weights (bfloat16, 1024x768 images, 256 new tokens) against one static batch made by
hand and against single requests. A hub is never asked.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from images import ImageStore
from images.policy import Policy
from mmconv.core.config import ModelSpec
from mmconv.core.types import Image, Message, Reply, Sampling, Text
from model_zoo.hf import HfOptions, open_backend
from tests.pictures import picture
from tests.tiny_checkpoints import FAMILIES, make_checkpoint
from tests.tiny_checkpoints.parts import chat_template, train_tokenizer

QUESTIONS = (
    "What is in the picture? Name every shape and its colour from left to right.",
    "Which of them do not belong together, and why do you think so?",
    "Now write a slogan that fits what you have said.",
)
REFERENCE = "A red circle stands left of a blue square; a green triangle closes the row."


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Replies of one way to ask, and the wall time of all of them in seconds."""

    replies: list[Reply]
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        return sum(reply.output_tokens or 0 for reply in self.replies) / self.seconds


def main() -> None:
    options = parse()
    asyncio.run(on_gpu(options) if options.gpu else on_cpu(options))


async def on_cpu(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = make_checkpoint(options.family, Path(folder) / options.family)
        settings = {"dtype": "float32", "threads": options.threads}
        scenes = ImageStore()
        model = await open_backend(
            ModelSpec(provider="hf", model=str(path), options=settings), scenes
        )
    images = [
        scenes.add_bytes(picture(n, (80 + 20 * (n % 5), 60 + 30 * (n % 3))))
        for n in range(options.samples)
    ]
    sampling = Sampling(max_tokens=options.tokens)
    await converse(model, images[0], 0, sampling)
    alone = await timed([converse(model, image, 0, sampling) for image in images], at_once=False)
    together = await timed([converse(model, image, 0, sampling) for image in images])
    tell("three turns, one by one", alone, alone)
    tell("three turns, batched", together, alone)
    pairs = zip(alone.replies, together.replies, strict=True)
    wrong = sum(one.text != other.text for one, other in pairs)
    print(f"replies that differ: {wrong} of {len(alone.replies)}")
    tell("six generations, batched", await convbench(model, images, sampling), alone)
    await model.aclose()


async def on_gpu(options: argparse.Namespace) -> None:
    from model_zoo.hf.backend import HfBackend

    settings = HfOptions(max_batch=options.rows, max_batch_tokens=options.batch_tokens)
    scenes = ImageStore()
    checkpoint = build_7b()
    model = HfBackend(checkpoint, settings, Policy(), scenes)
    images = [scenes.add_bytes(picture(n, (1024, 768))) for n in range(options.samples)]
    sampling = Sampling(max_tokens=options.tokens)
    await converse(model, images[0], 2, sampling)
    alone = await timed(
        [converse(model, image, 2, sampling) for image in images[:4]], at_once=False
    )
    tell("single requests", alone, alone)
    tell("six generations, batched", await convbench(model, images, sampling), alone)
    print(f"batch budget left: {model.decoder.budget}")
    tokens = static_batch(checkpoint, scenes, images[: options.rows], options.tokens)
    print(f"{'one static batch by hand':<26} {tokens:8.0f} tokens/s")
    await model.aclose()


async def convbench(model: Any, images: Sequence[Image], sampling: Sampling) -> Measured:
    """The three settings of every sample, all at once: 3 + 2 + 1 generations."""
    asked = [converse(model, image, given, sampling) for image in images for given in (0, 1, 2)]
    return await timed(asked)


async def converse(model: Any, image: Image, given: int, sampling: Sampling) -> list[Reply]:
    """Three turns about an image, of which the first `given` are answered by a reference."""
    history: list[Message] = []
    replies: list[Reply] = []
    for turn, question in enumerate(QUESTIONS):
        shown = (image,) if turn == 0 else ()
        history.append(Message(role="user", parts=(*shown, Text(text=question))))
        text = REFERENCE
        if turn >= given:
            replies.append(await model.generate(history, sampling, affinity=image.sha256))
            text = replies[-1].text
        history.append(Message(role="assistant", parts=(Text(text=text),)))
    return replies


async def timed(asked: Sequence[Awaitable[list[Reply]]], at_once: bool = True) -> Measured:
    started = time.perf_counter()
    if at_once:
        parts = await asyncio.gather(*asked)
    else:
        parts = [await one for one in asked]
    seconds = time.perf_counter() - started
    return Measured(replies=[reply for part in parts for reply in part], seconds=seconds)


def build_7b() -> Any:
    """LLaVA-1.5-7B's architecture (transformers' defaults for LLaVA) with random weights."""
    import torch
    import transformers

    from model_zoo.hf.loading import as_checkpoint

    library: Any = transformers
    tokenizer = train_tokenizer(library, FAMILIES["llava"].tokens)
    text = library.LlamaConfig(
        max_position_embeddings=4096, eos_token_id=tokenizer.eos_token_id, pad_token_id=0
    )
    config = library.LlavaConfig(text_config=text, image_token_index=tokenizer.image_token_id)
    with torch.device("cuda"):
        model = library.AutoModelForImageTextToText.from_config(config, dtype=torch.bfloat16)
    size = config.vision_config.image_size
    pixels = library.CLIPImageProcessor(
        size={"shortest_edge": size}, crop_size={"height": size, "width": size}
    )
    processor = library.LlavaProcessor(
        pixels,
        tokenizer,
        patch_size=config.vision_config.patch_size,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=chat_template("<image>"),
    )
    return as_checkpoint(model.eval(), tokenizer, processor)


def static_batch(
    checkpoint: Any, scenes: ImageStore, images: Sequence[Image], tokens: int
) -> float:
    """Tokens per second of one `generate` call on equal prompts, prepared beforehand."""
    import torch

    from images.policy import prepare_pixels

    pixels = [[prepare_pixels(scenes.read(image.sha256), image, Policy())] for image in images]
    prompt = f"<|user|><image>{QUESTIONS[0]}<|end|><|assistant|>"
    inputs = checkpoint.processor(
        images=pixels, text=[prompt] * len(images), return_tensors="pt", padding=True
    ).to(checkpoint.model.device, checkpoint.model.dtype)
    inputs.pop("token_type_ids", None)
    started = time.perf_counter()
    with torch.inference_mode():
        ids = checkpoint.model.generate(
            **inputs, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0
        ).tolist()
    made = sum(len(row) for row in ids) - inputs["input_ids"].numel()
    return float(made) / (time.perf_counter() - started)


def tell(title: str, measured: Measured, base: Measured) -> None:
    ratio = measured.tokens_per_second / base.tokens_per_second
    print(
        f"{title:<26} {measured.seconds:8.2f} s {len(measured.replies):6} replies "
        f"{measured.tokens_per_second:8.0f} tokens/s {ratio:6.1f} x",
        flush=True,
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="a 7B model on a GPU")
    parser.add_argument("--family", default="llava", choices=sorted(FAMILIES))
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--tokens", type=int, help="new tokens per reply (32; 256 on a GPU)")
    parser.add_argument("--threads", type=int, default=2, help="torch's threads on the CPU")
    parser.add_argument("--rows", type=int, default=64, help="largest batch on a GPU")
    parser.add_argument("--batch-tokens", type=int, default=131_072, help="its token budget")
    options = parser.parse_args()
    if options.tokens is None:
        options.tokens = 256 if options.gpu else 32
    return options


if __name__ == "__main__":
    main()
