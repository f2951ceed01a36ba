"""Runs the model on a batch and reads each row's reply off what it generated.

When memory runs out, the batch is halved and the budget with it. A single prompt is tried once more
with nothing else at work in the process, and then refused. Beam search and prefix caches are not
supported.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import groupby, takewhile
from typing import Any

import torch
from transformers import GenerationMixin

from mmconv.core.errors import ConfigError, Refused
from mmconv.core.types import Finish
from model_zoo.hf.batching import Budget, Request, Side, batch_tokens, merge
from model_zoo.hf.loading import Checkpoint
from model_zoo.hf.process import LOAD_LOCK, is_out_of_memory, release_memory
from model_zoo.hf.sampling import (
    RepetitionPenalty,
    RowLimits,
    RowSampler,
    ScoreWatch,
    stream_seed,
    warpers,
)
from model_zoo.reasoning import is_of_tag

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a row generated, the end token counted; `seconds` is its share of the batch's."""

    text: str
    finish: Finish
    tokens: int
    seconds: float


class Decoder:
    """Answers batches of requests with one checkpoint; not to be called from two threads.

    `budget` is lowered when memory runs out. `closing`, once set, ends generation at the next
    token.
    """

    def __init__(self, checkpoint: Checkpoint, budget: Budget, threads: int | None = None) -> None:
        self.checkpoint = checkpoint
        self.budget = budget
        self.threads = threads
        self.closing = threading.Event()
        # preparing prompts uses the tokenizer in another thread, and it is not thread-safe
        self.tokenizer = copy.deepcopy(checkpoint.tokenizer)
        self.tag_ids = {
            number
            for token, number in self.tokenizer.get_vocab().items()
            if is_of_tag(token) and not self.tokenizer.decode([number], skip_special_tokens=True)
        }

    def answer(self, batch: Sequence[Request]) -> list[Completion | Refused]:
        """One completion or refusal per request, in order."""
        if self.threads is not None:
            # torch counts threads per calling thread
            torch.set_num_threads(self.threads)
        answers = self._try(batch, LOAD_LOCK.running())
        if answers is None and len(batch) == 1:
            # it may have met the peak of another model that runs in this process
            answers = self._try(batch, LOAD_LOCK.loading())
        return self._answer_less(batch) if answers is None else answers

    def _try(
        self, batch: Sequence[Request], lock: AbstractContextManager[None]
    ) -> list[Completion | Refused] | None:
        try:
            with lock:
                started = time.perf_counter()
                rows = self._generate(batch)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
        except Refused as refusal:
            return [refusal for _ in batch]
        else:
            share = (time.perf_counter() - started) / len(batch)
            return [
                self._completion(request, row, sound, share)
                for request, (row, sound) in zip(batch, rows, strict=True)
            ]
        # outside of the handler, whose traceback would keep the failed batch's tensors alive
        release_memory()
        return None

    def _answer_less(self, batch: Sequence[Request]) -> list[Completion | Refused]:
        tokens = batch_tokens(batch)
        if len(batch) == 1:
            return [
                Refused(
                    "memory",
                    f"out of memory with a single prompt ({tokens} tokens with its reply); set "
                    "options.quantization or options.max_pixels, or a smaller max_tokens",
                )
            ]
        self.budget.tokens = min(self.budget.tokens, tokens // 2)
        log.warning(
            "out of memory with %d prompts (%d tokens with their replies): batches hold at most %d "
            "tokens from now on, as with options.max_batch_tokens",
            len(batch),
            tokens,
            self.budget.tokens,
        )
        middle = len(batch) // 2
        return [*self.answer(batch[:middle]), *self.answer(batch[middle:])]

    def _generate(self, batch: Sequence[Request]) -> list[tuple[list[int], int]]:
        """Each row's token ids, and how many of them come from finite scores."""
        limits = [request.sampling.max_tokens for request in batch]
        follow = partial(self._follow, batch)
        ends = RowLimits(limits, self._stops(batch[0]), self._read, self.closing, follow)
        watch = ScoreWatch()
        with torch.inference_mode():
            inputs = self._inputs(batch)
            generated = self._generator()(
                **inputs,
                generation_config=self._settings(max(limits)),
                logits_processor=[watch, *self._processors(batch, inputs)],
                stopping_criteria=[ends],
                tokenizer=self.tokenizer,
            )
        if watch.spoilt is None:
            raise ConfigError(
                f"{type(self.checkpoint.model).__name__}.generate ignores logits processors, so "
                "that temperature and seed would have no effect, and overflow would not be seen; "
                "use the provider vllm"
            )
        ids = generated[:, ends.begin :].tolist()
        rows = [row[:limit] for row, limit in zip(ids, ends.limits.tolist(), strict=True)]
        return list(zip(rows, watch.spoilt.tolist(), strict=True))

    def _generator(self) -> Callable[..., Any]:
        model = self.checkpoint.model
        if model.config.model_type == "janus":
            # its own method, which also draws images, passes no logits processors on
            return partial(GenerationMixin.generate, model)
        generate: Callable[..., Any] = model.generate
        return generate

    def _inputs(self, batch: Sequence[Request]) -> dict[str, Any]:
        # positions of encoders count from the left, whatever is masked
        side: Side = "right" if self.checkpoint.encoder_decoder else "left"
        rows = [request.tensors for request in batch]
        merged = merge(rows, self.checkpoint.pad_id, side)
        return {name: self._place(value) for name, value in merged.items()}

    def _place(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        dtype = self.checkpoint.model.dtype if value.is_floating_point() else value.dtype
        return value.to(self.checkpoint.device, dtype)

    def _settings(self, max_new_tokens: int) -> Any:
        """The checkpoint's settings without what `_processors` does row by row.

        The cache is on; checkpoints saved in training turn it off.
        """
        settings = copy.deepcopy(self.checkpoint.settings)
        settings.update(
            max_new_tokens=max_new_tokens,
            max_length=None,
            do_sample=False,
            num_beams=1,
            num_return_sequences=1,
            use_cache=True,
            return_dict_in_generate=False,
            repetition_penalty=1.0,
            temperature=None,
            top_p=None,
            top_k=None,
            min_p=None,
            eos_token_id=sorted(self.checkpoint.stop_ids) or None,
            pad_token_id=self.checkpoint.pad_id,
        )
        if not self.checkpoint.encoder_decoder:
            # it would count the prompt, padding included
            settings.min_length = 0
        return settings

    def _processors(self, batch: Sequence[Request], inputs: dict[str, Any]) -> list[Any]:
        settings = self.checkpoint.settings
        chosen: list[Any] = []
        penalty = batch[0].sampling.extra.get("repetition_penalty", settings.repetition_penalty)
        penalty = penalty or 1.0
        if penalty != 1.0:
            # an encoder's prompt is not among the ids that a decoder has said
            mask = inputs["attention_mask"]
            said = mask[:, :0] if self.checkpoint.encoder_decoder else mask
            chosen.append(RepetitionPenalty(penalty, said))
        warping = warpers(batch[0].sampling, settings)
        if warping is not None:
            seeds = [
                stream_seed(
                    request.sampling, request.tensors["input_ids"][0].tolist(), request.images
                )
                for request in batch
            ]
            chosen.append(RowSampler(warping, seeds, self.checkpoint.device))
        return chosen

    def _completion(
        self, request: Request, row: list[int], sound: int, seconds: float
    ) -> Completion | Refused:
        stop_ids = self.checkpoint.stop_ids
        end = next((place for place, token in enumerate(row) if token in stop_ids), None)
        ids = row if end is None else row[: end + 1]
        if sound < len(ids):
            return Refused(
                "rejected",
                f"the model's scores for token {sound + 1} of its reply are not finite: what was "
                "trained in bfloat16 overflows in float16, without an error; set options.dtype to "
                "bfloat16 or float32 (if they are, its weights are damaged)",
            )
        text, is_stopped = self._text(request, ids if end is None else ids[:-1])
        return Completion(
            text=text,
            finish="length" if end is None and not is_stopped else "stop",
            tokens=len(ids),
            seconds=seconds,
        )

    def _follow(self, batch: Sequence[Request], ids: torch.Tensor, begin: int) -> list[int]:
        """Pass on the replies so far; returns the rows whose callers have left."""
        for request, row in zip(batch, ids, strict=True):
            if request.grow is not None and not request.answer.done():
                reply = takewhile(
                    lambda id_: id_ not in self.checkpoint.stop_ids, row[begin:].tolist()
                )
                request.grow(self._text(request, list(reply))[0])
        return [row for row, request in enumerate(batch) if request.answer.cancelled()]

    def _text(self, request: Request, ids: Sequence[int]) -> tuple[str, bool]:
        text = self._read(ids)
        places = [place for stop in self._stops(request) if (place := text.find(stop)) >= 0]
        return (text[: min(places)] if places else text).strip(), bool(places)

    def _stops(self, request: Request) -> tuple[str, ...]:
        return (*request.sampling.stop, *self.checkpoint.stop_strings)

    def _read(self, ids: Sequence[int]) -> str:
        """The text of token ids: without special tokens, but for those that mark reasoning."""
        runs = groupby(ids, lambda token: token in self.tag_ids)
        return "".join(
            self.tokenizer.decode(list(run), skip_special_tokens=not marks) for marks, run in runs
        )
