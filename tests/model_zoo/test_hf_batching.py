"""Which prompts share a batch, and what a batch's tensors look like."""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mmconv.core.errors import Refused
from mmconv.core.types import Sampling
from model_zoo.hf.backend import GATHER_SECONDS, BatchQueue, check_context
from model_zoo.hf.batching import Budget, Request, choose_batch
from model_zoo.hf.sampling import RowLimits, RowSampler


def request(length: int = 4, max_tokens: int = 6, **others: Any) -> Request:
    sampling = Sampling(max_tokens=max_tokens, **others.pop("sampling", {}))
    ids = torch.arange(1, length + 1)[None]
    tensors = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **others}
    answer: asyncio.Future[Any] = asyncio.Future()
    return Request(tensors=tensors, length=length, sampling=sampling, answer=answer)


async def test_the_oldest_goes_first_with_its_nearest_in_length() -> None:
    waiting = [request(length) for length in (50, 10, 49, 90, 52, 51)]
    batch = choose_batch(waiting, Budget(rows=4, tokens=10_000))
    assert [one.length for one in batch] == [50, 49, 51, 52]


async def test_the_budget_counts_padding_and_room_for_replies() -> None:
    waiting = [request(10), request(10), request(40), request(10)]
    batch = choose_batch(waiting, Budget(rows=9, tokens=60))
    assert [one.length for one in batch] == [10, 10, 10]
    alone = choose_batch([request(100)], Budget(rows=9, tokens=60))
    assert len(alone) == 1


async def test_ragged_inputs_and_missing_images_stay_apart() -> None:
    ragged = [torch.ones(3, 8, 8)]
    assert request(pixel_values=ragged).group != request(pixel_values=list(ragged)).group
    assert request(pixel_values=torch.ones(1, 3, 8, 8)).group != request().group


async def test_a_prompt_with_a_tensor_that_nobody_knows_runs_alone() -> None:
    places = torch.zeros(1, 2)
    assert request(places=places).group != request(places=places.clone()).group


def test_a_stop_string_is_found_among_tokens_without_text() -> None:
    def decode(ids: list[int]) -> str:
        return "".join(" ab"[each] for each in ids if each)

    ends = RowLimits([9], ["ab"], decode, threading.Event())
    said = [2, 1, 0, 0, 2]
    done = [bool(ends(torch.tensor([[1, *said[:count]]]), None)) for count in range(1, 6)]
    assert done == [False, False, False, False, True]
    assert ends.limits.tolist() == [5]


def test_a_row_that_nobody_waits_for_ends() -> None:
    ends = RowLimits([9, 9], [], lambda _: "", threading.Event(), lambda _ids, _begin: [1])
    assert ends(torch.ones((2, 4), dtype=torch.long), None).tolist() == [False, True]


@pytest.mark.parametrize(
    ("apart", "length", "max_tokens", "fits"),
    [(False, 6, 4, True), (False, 6, 5, False), (True, 10, 10, True), (True, 6, 11, False)],
)
def test_prompt_and_reply_share_room(apart: bool, length: int, max_tokens: int, fits: bool) -> None:
    checkpoint: Any = SimpleNamespace(context=10, encoder_decoder=apart)
    with nullcontext() if fits else pytest.raises(Refused, match="the model has room for 10"):
        check_context(checkpoint, length, max_tokens)


def test_the_sampler_draws_from_the_softmax() -> None:
    rows = 4000
    scores = torch.log(torch.tensor([[0.6, 0.3, 0.1, 0.0]])).expand(rows, -1)
    sampler = RowSampler([], range(rows), torch.device("cpu"))
    drawn = sampler(torch.empty(rows, 0), scores).argmax(-1)
    shares = [float((drawn == token).float().mean()) for token in range(4)]
    assert shares[3] == 0
    # three standard errors at n = 4000
    assert all(
        abs(share - want) < 0.024 for share, want in zip(shares, (0.6, 0.3, 0.1), strict=False)
    )


async def test_an_idle_model_waits_for_prompts_that_are_being_prepared() -> None:
    sizes: list[int] = []

    def answer(batch: Sequence[Request]) -> list[Any]:
        sizes.append(len(batch))
        return [None for _ in batch]

    queue = BatchQueue(answer, Budget(rows=4, tokens=100))

    async def prepare_and_ask() -> None:
        with queue.expecting():
            await asyncio.sleep(10 * GATHER_SECONDS)
        await queue.ask(request(2, max_tokens=1))

    async with asyncio.timeout(20):
        await asyncio.gather(queue.ask(request(2, max_tokens=1)), prepare_and_ask())
        await queue.aclose()
    assert sizes == [2]
