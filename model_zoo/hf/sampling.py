"""How the tokens of a batch's rows are drawn, and where each row ends.

Rows are independent: each draws from its own random stream and ends at its own limit. transformers
calls these objects at every token.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from mmconv.core.errors import Refused
from mmconv.core.types import Sampling

_SLACK_TOKENS = 4
"""Some tokens of a stop string may have no text, such as special tokens."""


def stream_seed(sampling: Sampling, prompt: Sequence[int], images: Sequence[str] = ()) -> int:
    """The seed of a row's random stream: from seed, trial and prompt, never from the batch.

    `images` are the sha256 of the prompt's images, whose placeholders in it are all alike. A `seed`
    of None counts as 0: the same request gets the same reply.
    """
    name = f"{sampling.seed or 0}|{sampling.trial}|{','.join([*map(str, prompt), *images])}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little") >> 1


def warpers(sampling: Sampling, settings: Any) -> list[Any] | None:
    """What shapes the distribution before a token is drawn from it; None for greedy decoding.

    `settings` are the checkpoint's, for what `sampling` leaves open. Raises `Refused` if they ask
    for a beam search.
    """
    temperature = sampling.temperature
    if temperature is None:
        if (settings.num_beams or 1) > 1:
            raise Refused(
                "rejected",
                "the checkpoint's settings ask for a beam search; set a temperature instead",
            )
        temperature = (settings.temperature or 1.0) if settings.do_sample else 0.0
    if temperature == 0:
        return None
    top_p = settings.top_p if sampling.top_p is None else sampling.top_p
    top_k = sampling.extra.get("top_k", settings.top_k)
    min_p = sampling.extra.get("min_p", settings.min_p)
    chosen: list[Any] = [TemperatureLogitsWarper(float(temperature))]
    if top_k and top_k > 0:
        chosen.append(TopKLogitsWarper(top_k))
    if top_p is not None and top_p < 1:
        chosen.append(TopPLogitsWarper(float(top_p)))
    if min_p is not None:
        chosen.append(MinPLogitsWarper(min_p))
    return chosen


class ScoreWatch:
    """Notes where a row's scores stop being numbers: by overflow, the next tokens are noise.

    `spoilt` is the index of each row's first token whose scores are NaN or have no finite maximum,
    or `NEVER`; None if the watch was not called, and so no logits processor was.
    """

    NEVER = torch.iinfo(torch.int64).max

    def __init__(self) -> None:
        self.steps = 0
        self.spoilt: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """The scores (rows, vocabulary) as they are."""
        finite = scores.amax(-1).isfinite()
        now = torch.where(finite, self.NEVER, self.steps)
        # nothing is read back here: that would make the accelerator wait at every token
        self.spoilt = now if self.spoilt is None else torch.minimum(self.spoilt, now)
        self.steps += 1
        return scores


class RowSampler:
    """Draws each row's token from that row's own random stream (the Gumbel-max trick).

    Adds Gumbel noise to the warped scores, so that the largest is a fair draw from their softmax;
    the same seed gives the same text whatever else is in the batch.
    """

    def __init__(self, warping: Sequence[Any], seeds: Sequence[int], device: torch.device) -> None:
        self.warping = warping
        self.streams = [torch.Generator(device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores (rows, vocabulary) with noise; -inf stays -inf."""
        for warp in self.warping:
            scores = warp(input_ids, scores)
        noise = torch.empty_like(scores)
        for row, stream in zip(noise, self.streams, strict=True):
            row.exponential_(generator=stream)
        return scores - noise.clamp_min_(torch.finfo(noise.dtype).tiny).log_()


class RepetitionPenalty:
    """The checkpoint's penalty on tokens seen before, which ignores padding.

    transformers' own counts the padding of shorter rows as a token of the text.
    """

    def __init__(self, penalty: float, prompt_mask: torch.Tensor) -> None:
        self.rule = RepetitionPenaltyLogitsProcessor(penalty)
        self.prompt_mask = prompt_mask.bool()

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores (rows, vocabulary) after the penalty; prompts are padded on the left."""
        seen = input_ids.clone()
        width = self.prompt_mask.shape[1]
        last = input_ids[:, width - 1 : width].expand(-1, width)
        seen[:, :width] = torch.where(self.prompt_mask, input_ids[:, :width], last)
        penalised: torch.Tensor = self.rule(seen, scores)
        return penalised


class RowLimits:
    """Ends each row at its own number of tokens or at a stop string, and all rows when closing.

    `begin` is where replies start in the generated ids, known after the first step: behind the
    prompt, or behind the start token of a decoder that gets its prompt elsewhere. `limits` is the
    tokens that each row may have; if a stop string ends a row, the tokens that it has. `follow`
    gets the ids and where replies begin, and returns the rows whose callers have left.
    """

    def __init__(
        self,
        limits: Sequence[int],
        stop: Sequence[str],
        decode: Callable[[Any], str],
        closing: threading.Event,
        follow: Callable[[torch.Tensor, int], Sequence[int]] = lambda _ids, _begin: (),
    ) -> None:
        self.begin: int | None = None
        self.limits = torch.tensor(limits)
        self.stop = tuple(stop)
        self.decode = decode
        self.closing = closing
        self.follow = follow
        longest = max((len(text.encode()) for text in stop), default=0)
        self.tail = longest + _SLACK_TOKENS

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        """Which rows (rows,) are done."""
        if self.begin is None:
            self.begin = input_ids.shape[1] - 1
            self.limits = self.limits.to(input_ids.device)
        generated = input_ids.shape[1] - self.begin
        if self.closing.is_set():
            return torch.ones_like(self.limits, dtype=torch.bool)
        if self.stop:
            tails = input_ids[:, -min(self.tail, generated) :].tolist()
            stopped = torch.tensor([self._has_stop(tail) for tail in tails])
            ended = self.limits.clamp(max=generated)
            self.limits = torch.where(stopped.to(ended.device), ended, self.limits)
        for row in self.follow(input_ids, self.begin):
            self.limits[row] = min(generated, int(self.limits[row]))
        return self.limits <= generated

    def _has_stop(self, tail: list[int]) -> bool:
        text = self.decode(tail)
        return any(stop in text for stop in self.stop)
