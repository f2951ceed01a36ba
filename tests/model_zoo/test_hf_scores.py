"""Scores that are no numbers, and models that ignore how a token is chosen."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from mmconv.core.errors import ConfigError, Refused
from model_zoo.hf.sampling import ScoreWatch
from tests.messages import user
from tests.model_zoo.hf_support import ask, backend, checkpoint, loaded, opened

OVERFLOW = "scores for token 1 of its reply are not finite.*options.dtype"


def test_the_first_token_without_finite_scores_is_noted_row_by_row() -> None:
    nan, inf = float("nan"), float("inf")
    watch = ScoreWatch()
    for rows in (
        [[1.0, -inf], [1.0, 2.0], [0.0, 0.0], [5.0, 5.0]],
        [[1.0, nan], [-inf, -inf], [0.0, 0.0], [inf, 1.0]],
        [[nan, nan], [1.0, 2.0], [0.0, 0.0], [nan, 1.0]],
    ):
        scores = torch.tensor(rows)
        assert watch(torch.empty(4, 0), scores) is scores
    assert watch.spoilt is not None
    assert watch.spoilt.tolist() == [1, 1, ScoreWatch.NEVER, 1]


async def test_a_row_without_numbers_is_refused_and_its_fellow_answered() -> None:
    async with backend("llama") as model:
        plain = await ask(model, user("What?"))
        held = loaded(model)
        spoilt = held.tokenizer.convert_tokens_to_ids("Q")
        with torch.inference_mode():
            held.model.get_input_embeddings().weight[spoilt] = float("nan")
        fellow, refusal = await asyncio.gather(
            ask(model, user("What?")), ask(model, user("Q?")), return_exceptions=True
        )
    assert getattr(fellow, "text", None) == plain.text
    assert isinstance(refusal, Refused)
    assert refusal.kind == "rejected"
    assert "options.dtype" in str(refusal)


async def test_a_model_that_ignores_how_tokens_are_chosen_is_told_of() -> None:
    async with backend("llama") as model:
        held = loaded(model).model
        own = held.generate

        def generate(*, logits_processor: Any, **others: Any) -> Any:
            return own(**others)

        held.generate = generate
        with pytest.raises(ConfigError, match=r"^LlamaForCausalLM\.generate ignores logits"):
            await ask(model, user("What?"), temperature=1.0)


@pytest.fixture(scope="module")
def loud(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama in bfloat16, with values that float16 does not hold between its layers."""
    folder = tmp_path_factory.mktemp("loud")
    library: Any = transformers
    model = library.AutoModelForCausalLM.from_pretrained(checkpoint("llama"), dtype=torch.bfloat16)
    with torch.inference_mode():
        model.get_input_embeddings().weight.mul_(1e6)
    model.save_pretrained(folder)
    library.AutoTokenizer.from_pretrained(checkpoint("llama")).save_pretrained(folder)
    return folder


async def answer(folder: Path, **options: Any) -> str:
    async with opened(folder, **options) as model:
        return (await ask(model, user("What?"))).text


async def test_values_that_overflow_are_a_failure(loud: Path) -> None:
    assert await answer(loud, dtype="auto")
    with pytest.raises(Refused, match=OVERFLOW):
        await answer(loud, dtype="float16")


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
async def test_8_bit_keeps_the_dtype(loud: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("bitsandbytes", reason="needs the extra quant")
    with caplog.at_level(logging.WARNING):
        assert await answer(loud, dtype="auto", quantization="8bit")
    assert "float16" not in caplog.text
