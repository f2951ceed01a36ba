"""Raw prompts: what a checkpoint's backend feeds its tokenizer, told without its weights."""

import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, Refused
from mmconv.core.types import Message
from model_zoo import hf, vllm
from tests.messages import user
from tests.model_zoo.hf_support import PICTURES, ask, backend, checkpoint, said, spec
from tests.tiny_checkpoints import FAMILIES

BEGIN = "<|begin|>"
BLIND = ("llama", "qwen2", "t5")


def two_turns(family: str) -> list[Message]:
    shown = [] if family in BLIND else [PICTURES.draw(1)]
    return [user(*shown, "What is it?"), said("A star."), user("Why?")]


def without_weights(family: str, folder: Path, **options: Any) -> ModelSpec:
    """The family's checkpoint, all but its weights."""
    shutil.copytree(
        checkpoint(family), folder / family, ignore=shutil.ignore_patterns("*.safetensors")
    )
    return spec(family, **options).model_copy(update={"model": str(folder / family)})


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_prompt_is_as_long_as_the_backend_counts(family: str, tmp_path: Path) -> None:
    messages = two_turns(family)
    prompt = hf.open_renderer(without_weights(family, tmp_path), PICTURES)(messages)
    async with backend(family) as model:
        assert prompt.tokens == (await ask(model, *messages)).input_tokens
    if family in BLIND:
        assert (prompt.images, prompt.tensors, prompt.image_tokens) == ((), {}, 0)
    else:
        assert prompt.images == ((120, 90),)
        assert 0 < prompt.image_tokens < prompt.tokens
        assert "pixel_values" in prompt.tensors


def begins_by_itself(family: str, folder: Path, **options: Any) -> ModelSpec:
    """The family's checkpoint with a tokenizer that puts `BEGIN` before every text."""
    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing

    named = without_weights(family, folder, **options)
    file = str(Path(named.model) / "tokenizer.json")
    tokenizer = Tokenizer.from_file(file)
    tokenizer.post_processor = TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, tokenizer.token_to_id(BEGIN))]
    )
    tokenizer.save(file)
    return named


def test_what_the_tokenizer_adds_is_told(tmp_path: Path) -> None:
    messages = two_turns("llama")
    beginning = begins_by_itself("llama", tmp_path, chat_template="plain")
    prompt = hf.open_renderer(beginning, PICTURES)(messages)
    assert prompt.text == "Question: What is it? Answer: A star. Question: Why? Answer:"
    assert prompt.added == (BEGIN,)
    plain = hf.open_renderer(spec("llama", chat_template="plain"), PICTURES)(messages)
    assert (plain.added, prompt.tokens) == ((), plain.tokens + 1)


def test_what_the_backend_refuses_is_refused(tmp_path: Path) -> None:
    renderer = hf.open_renderer(without_weights("llama", tmp_path), PICTURES)
    with pytest.raises(Refused, match="sees no images"):
        renderer([user(PICTURES.draw(1), "What?")])


def nobody_is_asked(*address: object, **_more: object) -> None:
    raise AssertionError(f"nothing may be downloaded: {address}")


def test_a_hub_name_is_read_from_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(socket, "getaddrinfo", nobody_is_asked)
    named = spec("llama").model_copy(update={"model": "org/tiny"})
    with pytest.raises(ConfigError, match=r"^model tiny: org/tiny is not in the hub's cache"):
        hf.open_renderer(named, PICTURES)
    folder = tmp_path / "models--org--tiny"
    (folder / "snapshots").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("ab12")
    local = without_weights("llama", tmp_path)
    shutil.copytree(local.model, folder / "snapshots" / "ab12")
    messages = two_turns("llama")
    assert hf.open_renderer(named, PICTURES)(messages) == hf.open_renderer(local, PICTURES)(
        messages
    )
    for file in (folder / "snapshots" / "ab12").glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ConfigError, match=r"^model tiny: cannot be loaded: "):
        hf.open_renderer(named, PICTURES)


def served(family: str, folder: Path, **options: Any) -> ModelSpec:
    path = without_weights(family, folder).model
    return ModelSpec(provider="vllm", model=path, options=options)


def test_vllm_lets_the_tokenizer_add_nothing_and_says_where_it_may_differ(tmp_path: Path) -> None:
    own = "{% for part in messages[-1].content %}{{ part.text or '<image>' }}{% endfor %}"
    ours = begins_by_itself("llava", tmp_path, chat_template=own)
    theirs = ours.model_copy(update={"provider": "vllm", "options": {"chat_template": own}})
    messages = [user(PICTURES.draw(1), "What?")]
    prompt = hf.open_renderer(ours, PICTURES)(messages)
    renderer = vllm.open_renderer(theirs, PICTURES)
    assert renderer is not None
    assert renderer.note.startswith("vLLM writes prompts by the same template")
    assert (prompt.text, prompt.added) == ("<image>What?", (BEGIN,))
    expected = replace(prompt, added=(), tokens=prompt.tokens - 1)
    assert renderer(messages) == expected


def test_vllm_tells_the_processor_the_bounds(tmp_path: Path) -> None:
    """The provider hf scales the picture only, and leaves the processor its own bounds."""
    messages = [user(PICTURES.draw(5), "What?")]
    tokens = []
    for bound in (None, 60_000):
        options = {} if bound is None else {"min_pixels": bound, "max_pixels": 4 * bound}
        folder = tmp_path / str(bound)
        renderer = vllm.open_renderer(served("qwen2-vl", folder, **options), PICTURES)
        assert renderer is not None
        tokens.append(renderer(messages).image_tokens)
    assert tokens[1] > tokens[0]
