"""The backend: prepares prompts while the model runs, gathers them into batches, makes replies.

Images are decoded and prompts encoded in other threads while the model works on the batch
before. Requests wait in order of arrival. When the model is free, it takes the oldest and others
that may share its batch (`model_zoo.hf.batching` says which); it waits briefly for prompts that are
still being prepared. Output is not interpreted, beyond splitting reasoning from the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

from images.policy import Policy, prepare_pixels
from mmconv.core.errors import Refused, Transient
from mmconv.core.protocols import ImageSource, Listen
from mmconv.core.types import Image, Message, Reply, Sampling, SeenImage
from model_zoo.hf.batching import Budget, Request, choose_batch, company
from model_zoo.hf.decoding import Completion, Decoder
from model_zoo.hf.loading import Checkpoint
from model_zoo.hf.options import HfOptions
from model_zoo.hf.process import LOAD_LOCK, release_memory
from model_zoo.hf.prompts import (
    Tensors,
    check_images,
    encode,
    images_of,
    render,
    with_variables,
)
from model_zoo.reasoning import ReplyPieces, opened_by, split_reasoning

Answer: TypeAlias = Callable[[Sequence[Request]], list[Completion | Refused]]

GATHER_SECONDS = 0.005
"""How long an idle model waits for requests that come at the same time."""

PREPARING_SECONDS = 1.0
"""How long it waits at most for prompts that are still being prepared."""


class BatchQueue:
    """Requests in, completions out; `answer` runs in a thread, one batch at a time."""

    def __init__(self, answer: Answer, budget: Budget) -> None:
        self.answer = answer
        self.budget = budget
        self.waiting: list[Request] = []
        self.news = asyncio.Event()
        self.preparing = 0
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hf-model")
        self.loop = asyncio.get_running_loop()
        self.driver = self.loop.create_task(self._drive())

    @contextmanager
    def expecting(self) -> Iterator[None]:
        """Announce to the queue that a request is on its way."""
        self.preparing += 1
        try:
            yield
        finally:
            self.preparing -= 1
            self.news.set()

    async def ask(self, request: Request) -> Completion:
        """Wait for a reply; raises `Refused`, or `Transient` ("connection") once closed."""
        if self.driver.done():
            raise _closed()
        self.waiting.append(request)
        self.news.set()
        completion: Completion = await request.answer
        return completion

    async def aclose(self) -> None:
        """Stop after the batch in hand and fail waiting requests."""
        self.driver.cancel()
        await asyncio.wait([self.driver])
        await asyncio.to_thread(self.thread.shutdown)

    async def _drive(self) -> None:
        try:
            while True:
                await self._gather()
                # callers that gave up while they waited cost nothing
                self._forget_answered()
                if self.waiting:
                    await self._run(choose_batch(self.waiting, self.budget))
                    self._forget_answered()
        finally:
            # the batch in hand included
            for request in self.waiting:
                _settle(request, _closed())

    async def _gather(self) -> None:
        await self._until(lambda: bool(self.waiting))
        await asyncio.sleep(GATHER_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(PREPARING_SECONDS):
                await self._until(
                    lambda: not self.preparing or len(self.waiting) >= self.budget.rows
                )

    async def _until(self, ready: Callable[[], bool]) -> None:
        while not ready():
            self.news.clear()
            await self.news.wait()

    async def _run(self, batch: list[Request]) -> None:
        running = self.loop.run_in_executor(self.thread, self.answer, batch)
        await asyncio.wait([running])
        failure = running.exception()
        answers = [failure] * len(batch) if failure is not None else running.result()
        for request, answer in zip(batch, answers, strict=True):
            _settle(request, answer)

    def _forget_answered(self) -> None:
        self.waiting = [request for request in self.waiting if not request.answer.done()]


def _settle(request: Request, answer: Completion | BaseException | None) -> None:
    if request.answer.done():
        return
    if isinstance(answer, BaseException):
        request.answer.set_exception(answer)
    else:
        request.answer.set_result(answer)


def _closed() -> Transient:
    return Transient("connection", "the backend was closed")


class HfBackend:
    """A checkpoint in this process as a `Backend`; created by `open_backend`.

    Greedy replies (temperature 0) do not depend on the rest of the batch, up to rounding (except
    with 8-bit weights, whose outliers are picked over the batch). Sampled replies follow from seed,
    trial and prompt, on the same kind of device and version of torch. A temperature of None takes
    the checkpoint's generation settings. `Sampling.schema` is not enforced.
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
        self.options = options
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

    async def stream(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str, listen: Listen
    ) -> Reply:
        """Answer once, and pass on the pieces of the reply; raises as `generate` does."""
        return await self._answer(messages, sampling, listen)

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, affinity: str
    ) -> Reply:
        """Answer once, in a batch with other requests of the same time.

        Raises `Refused` for a prompt that is too long ("context") or does not fit into memory even
        alone ("memory"), that the model's template or processor does not take, that holds a token
        which the model does not know, or whose scores are not finite ("rejected"). Raises
        `Transient` ("connection") if the backend is closed, and `ConfigError` if the model cannot
        obey options or sampling. `seconds` is the batch's time divided by its prompts.
        """
        return await self._answer(messages, sampling)

    async def _answer(
        self, messages: Sequence[Message], sampling: Sampling, listen: Listen | None = None
    ) -> Reply:
        checkpoint = self._open_checkpoint()
        check_images(checkpoint, messages)
        with self.queue.expecting():
            pictures = [
                await asyncio.to_thread(self._pixels, image) for image in images_of(messages)
            ]
            # it may have been closed meanwhile
            self._open_checkpoint()
            tensors, opened = await asyncio.get_running_loop().run_in_executor(
                self.encoding, self._encode, checkpoint, messages, sampling, pictures
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
                grow=listen and _grower(listen, opened, (*sampling.stop, *checkpoint.stop_strings)),
            )
        )
        seen = [
            SeenImage(sha256=image.sha256, width=picture.width, height=picture.height)
            for image, picture in zip(images_of(messages), pictures, strict=True)
        ]
        return _reply(completion, opened, length, tuple(seen))

    async def aclose(self) -> None:
        """Stop at the next token, fail waiting requests and free the model's memory."""
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
            raise _closed()
        return self.checkpoint

    def _pixels(self, image: Image) -> Any:
        return prepare_pixels(self.images.read(image.sha256), image, self.policy)

    def _encode(
        self,
        checkpoint: Checkpoint,
        messages: Sequence[Message],
        sampling: Sampling,
        pictures: Sequence[Any],
    ) -> tuple[Tensors, str]:
        variables = sampling.extra.get("chat_template_kwargs", {})
        options = with_variables(checkpoint, self.options, variables)
        with LOAD_LOCK.running():
            rendered = render(checkpoint, messages, options)
            tensors = encode(checkpoint, rendered, pictures)
        if not checkpoint.token_types:
            # generic tokenizers add them, and models that have no use for them raise
            tensors = {name: value for name, value in tensors.items() if name != "token_type_ids"}
        return tensors, opened_by(rendered.text)


def _grower(listen: Listen, opened: str, stops: Sequence[str]) -> Callable[[str], object]:
    """A function for another thread that takes a reply so far and passes on its pieces."""
    pieces = ReplyPieces(listen, opened=opened, stops=stops)
    loop = asyncio.get_running_loop()
    return lambda text: loop.call_soon_threadsafe(pieces.grow, text)


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


def check_vocabulary(checkpoint: Checkpoint, tensors: Tensors) -> None:
    """Raise `Refused` for a token that the model has no embedding of.

    Computing one ends in an error that names no token, and on a GPU ends the process. Tokens of
    images may be outside of the table: models replace them.
    """
    if checkpoint.embeddings is None:
        return
    ids = set(tensors["input_ids"][0].tolist())
    ids -= {getattr(checkpoint.model.config, "image_token_id", None)}
    outside = [token for token in ids if token >= checkpoint.embeddings]
    if outside:
        names = ", ".join(map(repr, checkpoint.tokenizer.convert_ids_to_tokens(sorted(outside))))
        raise Refused(
            "rejected",
            f"the prompt holds {names}, and the model has embeddings of its first "
            f"{checkpoint.embeddings} tokens only",
        )


def check_context(checkpoint: Checkpoint, length: int, max_tokens: int) -> None:
    """Raise `Refused` if prompt and reply do not fit the model's positions."""
    needed = max(length, max_tokens) if checkpoint.encoder_decoder else length + max_tokens
    if checkpoint.context is not None and needed > checkpoint.context:
        raise Refused(
            "context",
            f"the prompt has {length} tokens and up to {max_tokens} are requested; "
            f"the model has room for {checkpoint.context}",
        )
