"""The backend: prepares prompts beside the running model, and makes replies of what it says.

Images are decoded and prompts encoded in threads of their own while the model works on the batch
before. What the model says is not interpreted, beyond splitting reasoning from the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from images.policy import Policy, prepare_pixels
from mmconv.core.errors import Transient
from mmconv.core.protocols import ImageSource
from mmconv.core.types import Image, Message, Reply, Sampling, SeenImage
from model_zoo.hf.batching import Budget, Request, company
from model_zoo.hf.decoding import Completion, Decoder
from model_zoo.hf.encoding import Tensors, check_context, check_vocabulary, encode
from model_zoo.hf.load_lock import LOAD_LOCK
from model_zoo.hf.loading import Checkpoint, release_memory
from model_zoo.hf.options import HfOptions
from model_zoo.hf.prompting import check_images, images_of, read_wording, render
from model_zoo.hf.queue import BatchQueue
from model_zoo.reasoning import opened_by, split_reasoning


class HfBackend:
    """A checkpoint in this process as a `Backend`; made by `open_backend`.

    Greedy replies (temperature 0) do not depend on what else is in the batch, up to rounding (8-bit
    weights excepted: their outliers are picked over the batch); sampled ones follow from seed,
    trial and prompt, on the same kind of device and version of torch. A temperature of None takes
    the checkpoint's own generation settings. `Sampling.schema` is not enforced.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        options: HfOptions,
        policy: Policy,
        images: ImageSource,
        max_concurrency: int | None = None,
    ) -> None:
        self.checkpoint: Checkpoint | None = checkpoint
        self.images = images
        self.policy = policy
        self.wording = read_wording(options)
        # twice a batch: the next one is prepared while one is answered
        self.max_concurrency = max_concurrency or 2 * options.max_batch
        positions = None if checkpoint.encoder_decoder else checkpoint.context
        budget = Budget(
            rows=options.max_batch, tokens=options.max_batch_tokens, positions=positions
        )
        self.decoder = Decoder(checkpoint, budget, options.threads)
        self.queue = BatchQueue(self.decoder.answer, budget)
        # processors and fast tokenizers are not made for several threads at once
        self.encoding = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hf-prompts")

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Answer once, in a batch with whatever else is asked at the time.

        Raises `Refused`: the prompt is too long ("context"), does not fit into
        memory even alone ("memory"), or the model's template or processor does not take it, or it
        holds a token that the model does not know, or its scores are not finite ("rejected").
        Raises `Transient` ("connection") where the backend is closed, and
        `ConfigError` where the model has no use for what options or sampling say.
        `seconds` is the batch's time divided by its prompts.
        """
        checkpoint = self._open_checkpoint()
        check_images(checkpoint, messages)
        with self.queue.expecting():
            pictures = [
                await asyncio.to_thread(self._pixels, image) for image in images_of(messages)
            ]
            # it may have been closed meanwhile
            self._open_checkpoint()
            tensors, opened = await asyncio.get_running_loop().run_in_executor(
                self.encoding, self._encode, checkpoint, messages, pictures
            )
        length = int(tensors["input_ids"].shape[1])
        check_context(checkpoint, length, sampling.max_tokens)
        check_vocabulary(checkpoint, tensors)
        self._open_checkpoint()
        completion = await self.queue.ask(
            Request(
                tensors=tensors,
                length=length,
                sampling=sampling,
                images=tuple(image.sha256 for image in images_of(messages)),
                company=company(checkpoint.model.config, length, sampling.max_tokens),
            )
        )
        seen = [
            SeenImage(sha256=image.sha256, width=picture.width, height=picture.height)
            for image, picture in zip(images_of(messages), pictures, strict=True)
        ]
        return _reply(completion, opened, length, tuple(seen))

    async def aclose(self) -> None:
        """Stop at the next token, fail what waits and free the model's memory."""
        if self.checkpoint is None:
            return
        self.checkpoint = None
        self.decoder.closing.set()
        await self.queue.aclose()
        await asyncio.to_thread(self.encoding.shutdown)
        del self.decoder, self.queue
        release_memory()

    def _open_checkpoint(self) -> Checkpoint:
        if self.checkpoint is None:
            raise Transient("connection", "the backend was closed")
        return self.checkpoint

    def _pixels(self, image: Image) -> Any:
        return prepare_pixels(self.images.read(image.sha256), image, self.policy)

    def _encode(
        self, checkpoint: Checkpoint, messages: Sequence[Message], pictures: Sequence[Any]
    ) -> tuple[Tensors, str]:
        """The inputs, and the tag by which the prompt opens the model's reasoning, or nothing."""
        with LOAD_LOCK.running():
            rendered = render(checkpoint, messages, self.wording)
            tensors = encode(checkpoint, rendered, pictures)
        if not checkpoint.token_types:
            # generic tokenizers add them, and models that have no use for them raise
            tensors = {name: value for name, value in tensors.items() if name != "token_type_ids"}
        return tensors, opened_by(rendered.text)


def _reply(completion: Completion, opened: str, length: int, seen: tuple[SeenImage, ...]) -> Reply:
    reasoning, answer = split_reasoning(completion.text, opened=opened)
    return Reply(
        text=answer,
        reasoning=reasoning,
        finish=completion.finish,
        input_tokens=length,
        output_tokens=completion.tokens,
        seconds=completion.seconds,
        seen=seen,
    )
