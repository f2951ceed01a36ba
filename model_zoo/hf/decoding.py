"""Runs the model on a batch and reads each row's reply off what it generated.

Runs in one thread of its own. When memory runs out the batch is halved and the budget with it; a
single prompt is tried once more with nothing else at work in the process, and then refused. There
is no beam search and no prefix cache.
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
from itertools import groupby
from typing import Any

import torch
from transformers import GenerationMixin

from mmconv.core.errors import ConfigError, Refused
from mmconv.core.types import Finish
from model_zoo.hf.batching import Budget, Request, Side, batch_tokens, merge
from model_zoo.hf.load_lock import LOAD_LOCK
from model_zoo.hf.loading import Checkpoint, is_out_of_memory, release_memory
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
    """What a row generated, as text; `tokens` counts the end token, `seconds` is its share.

    The share is the batch's wall time divided by its rows.
    """

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
        # preparing prompts uses the tokenizer in another thread, and it does not like company
        self.tokenizer = copy.deepcopy(checkpoint.tokenizer)
        self.tag_ids = {
            number
            for token, number in self.tokenizer.get_vocab().items()
            if is_of_tag(token) and not self.tokenizer.decode([number], skip_special_tokens=True)
        }

    def answer(self, batch: Sequence[Request]) -> list[Completion | Refused]:
        """One completion per request, in order, or why there is none."""
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
        """The answers, or None where memory ran out."""
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
        """The answers to a batch that memory does not hold."""
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
        """The token ids of every row's reply, up to its limit or its stop string.

        Beside them how many, from the first, come of scores that were numbers.
        """
        limits = [request.sampling.max_tokens for request in batch]
        ends = RowLimits(limits, self._stops(batch[0]), self._read, self.closing)
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
            # its own method, for the sake of drawing, hands on no logits processors
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
        """The checkpoint's settings, without what `_processors` does row by row.

        And with the cache that checkpoints saved in training go without.
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
        penalty = settings.repetition_penalty or 1.0
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
        text = self._read(ids if end is None else ids[:-1])
        places = [place for stop in self._stops(request) if (place := text.find(stop)) >= 0]
        if places:
            text = text[: min(places)]
        return Completion(
            text=text.strip(),
            finish="length" if end is None and not places else "stop",
            tokens=len(ids),
            seconds=seconds,
        )

    def _stops(self, request: Request) -> tuple[str, ...]:
        return (*request.sampling.stop, *self.checkpoint.stop_strings)

    def _read(self, ids: Sequence[int]) -> str:
        """The text of token ids: without special tokens, but for those that mark reasoning."""
        runs = groupby(ids, lambda each: each in self.tag_ids)
        return "".join(
            self.tokenizer.decode(list(run), skip_special_tokens=not marks) for marks, run in runs
        )
