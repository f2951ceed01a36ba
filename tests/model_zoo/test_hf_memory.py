"""What the transformers backend does where memory runs out, as a model is loaded and as it runs."""

import asyncio
import logging
import threading
import weakref
from itertools import count
from typing import Any

import pytest

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, Refused
from model_zoo.hf import loading
from model_zoo.hf.backend import HfBackend
from model_zoo.hf.options import HfOptions
from model_zoo.hf.process import LOAD_LOCK
from tests.messages import user
from tests.model_zoo.hf_support import ask, backend, checkpoint, count_batches, loaded

FULL = "CUDA out of memory"


def limit_tokens(model: HfBackend, monkeypatch: pytest.MonkeyPatch, tokens: int) -> list[Any]:
    """Let batches of more tokens, replies included, run out of memory; returns what they held.

    As weak references: what is not let go of before the next try still fills the device.
    """
    generate = loaded(model).model.generate
    failed: list[Any] = []

    def limited(**inputs: Any) -> Any:
        assert [held for held in failed if held() is not None] == []
        rows, length = inputs["input_ids"].shape
        if rows * (length + inputs["generation_config"].max_new_tokens) > tokens:
            working = inputs["input_ids"].clone()
            failed.append(weakref.ref(working))
            raise RuntimeError(FULL)
        return generate(**inputs)

    monkeypatch.setattr(loaded(model).model, "generate", limited)
    return failed


async def test_out_of_memory_halves_the_batch_and_frees_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    questions = [user(f"What is {number}?") for number in range(8)]
    async with backend("llama") as model:
        expected = [await ask(model, question) for question in questions]
        each = (expected[0].input_tokens or 0) + 8
        failed = limit_tokens(model, monkeypatch, 3 * each)
        sizes = count_batches(model)
        with caplog.at_level(logging.WARNING):
            replies = await asyncio.gather(*[ask(model, question) for question in questions])
        await asyncio.gather(*[ask(model, question) for question in questions])
    assert [reply.text for reply in replies] == [reply.text for reply in expected]
    assert len(failed) == 3  # eight prompts, and four twice
    assert sizes == [8, 2, 2, 2, 2]
    assert f"with 4 prompts ({4 * each} tokens" in caplog.messages[-1]
    assert f"at most {2 * each} tokens from now on" in caplog.messages[-1]


async def test_short_prompts_share_batches_after_long_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long, short = user("What is it? " * 40), user("What?")
    async with backend("llama") as model:
        tokens = (await ask(model, long)).input_tokens or 0
        limit_tokens(model, monkeypatch, tokens + 8)
        sizes = count_batches(model)
        await asyncio.gather(*[ask(model, long) for _ in range(2)])
        await asyncio.gather(*[ask(model, short) for _ in range(6)])
    assert sizes == [2, 6]


async def test_a_single_prompt_without_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with backend("llama") as model:
        failed = limit_tokens(model, monkeypatch, 0)
        asked = [ask(model, user(f"What is {number}?")) for number in range(2)]
        failures = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(failure) for failure in failures] == [Refused, Refused]
    assert {getattr(failure, "kind", None) for failure in failures} == {"memory"}
    assert len(failed) == 1 + 2 * 2


async def test_a_single_prompt_is_tried_once_more_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where candidate and judge share a GPU, the first try may have met the other's peak."""
    runs_beside = threading.Event()

    def beside() -> None:
        with LOAD_LOCK.running():
            runs_beside.set()

    async with backend("llama") as model:
        expected = await ask(model, user("What is it?"))
        generate, tries = loaded(model).model.generate, count(1)

        def full_at_first(**inputs: Any) -> Any:
            if next(tries) == 1:
                raise RuntimeError(FULL)
            threading.Thread(target=beside).start()
            assert not runs_beside.wait(0.1)
            return generate(**inputs)

        monkeypatch.setattr(loaded(model).model, "generate", full_at_first)
        reply = await ask(model, user("What is it?"))
        assert await asyncio.to_thread(runs_beside.wait, 20)
    assert reply.text == expected.text


@pytest.mark.parametrize(
    "said",
    [
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "MPS backend out of memory (MPS allocated: 17.00 GiB)",
        "[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        'NVML_SUCCESS == r INTERNAL ASSERT FAILED at "/c10/cuda/CUDACachingAllocator.cpp":995',
    ],
)
def test_a_full_device_is_known_by_what_it_says(said: str) -> None:
    from model_zoo.hf.process import is_out_of_memory

    assert is_out_of_memory(RuntimeError(said))


def test_a_checkpoint_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: Any) -> Any:
        raise RuntimeError(FULL)

    monkeypatch.setattr(loading, "_load", load)
    with pytest.raises(ConfigError, match="does not fit into memory: CUDA out of memory; set"):
        loading.load_checkpoint(ModelSpec(provider="hf", model="x"), HfOptions())


@pytest.mark.parametrize(
    ("free", "options", "device_map"),
    [
        ([9 * 10**9], {}, "auto"),
        ([10**9, 9 * 10**9, 10**9], {}, {"": 1}),
        ([10**9, 9 * 10**9], {"device_map": "auto"}, "auto"),
        ([10, 20], {"quantization": "8bit"}, {"": 1}),
        ([], {}, None),
    ],
)
def test_a_checkpoint_goes_to_one_gpu_unless_it_is_to_be_spread(
    free: list[int],
    options: dict[str, Any],
    device_map: object,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    mock_gpus(monkeypatch, free)
    chosen = loading._placement(str(checkpoint("llama")), HfOptions(**options))
    assert chosen.get("device_map") == device_map
    named = [message for message in caplog.messages if "replicas (provider ray)" in message]
    assert len(named) == isinstance(device_map, dict)


def test_a_checkpoint_larger_than_each_gpu_is_announced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mock_gpus(monkeypatch, [1000, 2000])
    with pytest.raises(ConfigError, match=r"none has more than .* set options\.device_map to auto"):
        loading._placement(str(checkpoint("llama")), HfOptions())


def mock_gpus(monkeypatch: pytest.MonkeyPatch, free: list[int]) -> None:
    """Have torch see GPUs with so many bytes free."""
    monkeypatch.setattr("torch.cuda.device_count", lambda: len(free))
    monkeypatch.setattr("torch.cuda.is_available", lambda: bool(free))
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda gpu: (free[gpu], 10**12))
