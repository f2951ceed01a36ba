"""Runs the model on a batch and reads each row's reply off what it generated.

Runs in one thread of its own. When memory runs out the batch is halved and the budget with it; a
single prompt that does not fit is refused. There is no beam search and no prefix cache.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mmconv.errors import Refused
from mmconv.values import Finish
from model_zoo.hf.batching import Budget, Request, Side, batch_tokens, merge
from model_zoo.hf.load_lock import LOAD_LOCK
from model_zoo.hf.loading import Checkpoint, is_out_of_memory, release_memory
from model_zoo.hf.sampling import RepetitionPenalty, RowLimits, RowSampler, stream_seed, warpers


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

    def answer(self, batch: Sequence[Request]) -> list[Completion | Refused]:
        """One completion per request, in order, or why there is none."""
        if self.threads is not None:
            # torch counts threads per calling thread
            torch.set_num_threads(self.threads)
        try:
            with LOAD_LOCK.running():
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
                self._completion(request, row, share)
                for request, row in zip(batch, rows, strict=True)
            ]
        # outside of the handler, whose traceback would keep the failed batch's tensors alive
        return self._answer_halves(batch)

    def _answer_halves(self, batch: Sequence[Request]) -> list[Completion | Refused]:
        release_memory()
        if len(batch) == 1:
            tokens = batch_tokens(batch)
            return [
                Refused(
                    "memory",
                    f"out of memory with a single prompt ({tokens} tokens with its reply); set "
                    "options.quantization or options.max_pixels, or a smaller max_tokens",
                )
            ]
        self.budget.tokens = min(self.budget.tokens, batch_tokens(batch) // 2)
        self.budget.rows = min(self.budget.rows, max(len(batch) // 2, 1))
        middle = len(batch) // 2
        return [*self.answer(batch[:middle]), *self.answer(batch[middle:])]

    def _generate(self, batch: Sequence[Request]) -> list[list[int]]:
        """The token ids of every row's reply, up to its limit."""
        checkpoint = self.checkpoint
        limits = [request.sampling.max_tokens for request in batch]
        ends = RowLimits(limits, batch[0].sampling.stop, self._read, self.closing)
        with torch.inference_mode():
            inputs = self._inputs(batch)
            generated = checkpoint.model.generate(
                **inputs,
                generation_config=self._settings(max(limits)),
                logits_processor=self._processors(batch, inputs),
                stopping_criteria=[ends],
                tokenizer=self.tokenizer,
            )
        ids = generated[:, ends.begin :].tolist()
        return [row[:limit] for row, limit in zip(ids, limits, strict=True)]

    def _inputs(self, batch: Sequence[Request]) -> dict[str, Any]:
        # positions of encoders count from the left, whatever is masked
        side: Side = "right" if self.checkpoint.encoder_decoder else "left"
        rows = [request.tensors for request in batch]
        merged = merge(rows, self.checkpoint.pad_id, side)
        return {name: self._place(value) for name, value in merged.items()}

    def _place(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        model = self.checkpoint.model
        dtype = model.dtype if value.is_floating_point() else value.dtype
        return value.to(model.device, dtype)

    def _settings(self, max_new_tokens: int) -> Any:
        """The checkpoint's settings, without what `_processors` does row by row."""
        settings = copy.deepcopy(self.checkpoint.settings)
        settings.update(
            max_new_tokens=max_new_tokens,
            max_length=None,
            do_sample=False,
            num_beams=1,
            num_return_sequences=1,
            return_dict_in_generate=False,
            repetition_penalty=1.0,
            temperature=None,
            top_p=None,
            top_k=None,
            min_p=None,
            eos_token_id=sorted(self.checkpoint.stop_ids) or None,
            pad_token_id=self.checkpoint.pad_id,
        )
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
                stream_seed(request.sampling, request.tensors["input_ids"][0].tolist())
                for request in batch
            ]
            chosen.append(RowSampler(warping, seeds, self.checkpoint.model.device))
        return chosen

    def _completion(self, request: Request, row: list[int], seconds: float) -> Completion:
        stop_ids = self.checkpoint.stop_ids
        end = next((place for place, token in enumerate(row) if token in stop_ids), None)
        ids = row if end is None else row[: end + 1]
        text = self._read(ids if end is None else ids[:-1])
        places = [place for stop in request.sampling.stop if (place := text.find(stop)) >= 0]
        if places:
            text = text[: min(places)]
        return Completion(
            text=text.strip(),
            finish="length" if end is None and not places else "stop",
            tokens=len(ids),
            seconds=seconds,
        )

    def _read(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))
