"""What a checkpoint was saved with: prompts stay whole, replies end where they should."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import transformers

from mmconv.core.types import Reply
from model_zoo import hf
from model_zoo.hf import decoding
from model_zoo.hf.backend import HfBackend
from model_zoo.hf.sampling import stream_seed
from tests.messages import user
from tests.model_zoo.hf_support import (
    PICTURES,
    ask,
    backend,
    checkpoint,
    loaded,
    named,
    opened,
    set_fields,
)

# most of its loaders are untyped
library: Any = transformers

LONG = user("the red circle stands left of the blue square and why " * 4)
ASKED = user("What is it?")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A Llama's folder, to be changed."""
    return shutil.copytree(checkpoint("llama"), tmp_path / "copy")


async def reply_of(folder: Path, **sampling: Any) -> Reply:
    async with opened(folder) as model:
        return await ask(model, ASKED, **sampling)


def call(folder: Path) -> None:
    """Save the processor after the call that a collator makes of it in training."""
    processor = library.AutoProcessor.from_pretrained(folder)
    processor.tokenizer(["why"], truncation=True, max_length=24, padding="max_length")
    processor.save_pretrained(folder)


def declare(folder: Path) -> None:
    set_fields(
        folder, "tokenizer_config.json", max_length=24, truncation=True, padding="max_length"
    )


@pytest.mark.parametrize("save", [call, declare])
async def test_a_prompt_is_neither_cut_nor_filled_up(tmp_path: Path, save: Any) -> None:
    shutil.copytree(checkpoint("llava"), tmp_path / "saved")
    save(tmp_path / "saved")
    prompts = [[LONG], [user(PICTURES.draw(0), *LONG.parts)], [user("a")]]
    async with backend("llava") as model:
        plain = [await ask(model, *prompt) for prompt in prompts]
    async with opened(tmp_path / "saved") as model:
        replies = [await ask(model, *prompt) for prompt in prompts]
    expected = [reply.input_tokens for reply in plain]
    assert [reply.input_tokens for reply in replies] == expected
    assert [reply.text for reply in replies] == [reply.text for reply in plain]
    renderer = hf.open_renderer(named(tmp_path / "saved"), PICTURES)
    assert [renderer(prompt).tokens for prompt in prompts] == expected


def opening(folder: Path, tag: str) -> None:
    file = folder / "chat_template.jinja"
    file.write_text(file.read_text().replace("'<|assistant|>'", f"'<|assistant|>{tag}\\n'"))


@pytest.mark.parametrize("tag", ["<think>", "[THINK]"])
async def test_thought_that_the_template_opens_alone_is_no_answer(copy: Path, tag: str) -> None:
    opening(copy, tag)
    reply = await reply_of(copy)
    assert (reply.text, reply.finish) == ("", "length")
    assert reply.reasoning


async def said_ids(model: HfBackend, count: int) -> list[int]:
    """The tokens of a greedy reply, of `count` at least."""
    rows: list[list[int]] = []
    generate = model.decoder._generate

    def noted(batch: Any) -> Any:
        made = generate(batch)
        rows.extend(row for row, _ in made)
        return made

    model.decoder._generate = noted  # type: ignore[method-assign]
    await ask(model, ASKED, max_tokens=count)
    model.decoder._generate = generate  # type: ignore[method-assign]
    return rows[0]


@pytest.mark.parametrize("special", [False, True])
async def test_tags_of_thought_are_found_as_special_tokens(copy: Path, special: bool) -> None:
    async with opened(copy) as model:
        ids = await said_ids(model, 12)
    rename(copy, {ids[0]: "<think>", next(i for i in ids[4:] if i != ids[0]): "</think>"}, special)
    reply = await reply_of(copy, max_tokens=12)
    assert reply.reasoning
    assert reply.text


def rename(folder: Path, names: dict[int, str], special: bool) -> None:
    """Give tokens other texts."""
    file = folder / "tokenizer.json"
    saved = json.loads(file.read_text())
    model = saved["model"]
    olds = {token for token, number in model["vocab"].items() if number in names}
    model["vocab"] = {names.get(number, token): number for token, number in model["vocab"].items()}
    model["merges"] = [merge for merge in model["merges"] if not olds & {*merge, "".join(merge)}]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    saved["added_tokens"] += [
        {"id": number, "content": name, "special": special, **flags}
        for number, name in names.items()
    ]
    file.write_text(json.dumps(saved))


async def test_the_tokenizers_own_end_ends_a_reply_beside_the_settings(copy: Path) -> None:
    template = copy / "chat_template.jinja"
    template.write_text(template.read_text().replace("{{ eos_token }}", "<|end|>"))
    async with opened(copy) as model:
        ids = await said_ids(model, 12)
        whole = loaded(model).stop_ids
        name = loaded(model).tokenizer.convert_ids_to_tokens(ids[5])
    set_fields(copy, "tokenizer_config.json", eos_token=name)
    async with opened(copy) as model:
        assert loaded(model).stop_ids == whole | {ids[5]}
        reply = await ask(model, ASKED, max_tokens=12)
    assert (reply.finish, reply.output_tokens) == ("stop", ids.index(ids[5]) + 1)


IN_THE_WAY = {
    "forced_eos_token_id": 2,
    "min_length": 400,
    "max_time": 1e-9,
    "prompt_lookup_num_tokens": 3,
    "penalty_alpha": 0.6,
    "dola_layers": "low",
    "cache_implementation": "quantized",
    "use_cache": False,
}
"""Settings that would break a batch, or tell falsely why a reply ended."""


async def two_replies(folder: Path) -> tuple[list[tuple[str, str]], bool]:
    """Those of a batch, and whether the model kept what it had computed."""
    async with opened(folder) as model:
        cached: set[bool] = set()
        loaded(model).model.register_forward_pre_hook(
            lambda _model, _args, message: cached.add(message["use_cache"]), with_kwargs=True
        )
        asked = [ask(model, ASKED, max_tokens=8), ask(model, LONG, max_tokens=12)]
        replies = await asyncio.gather(*asked)
    return [(reply.text, reply.finish) for reply in replies], cached == {True}


@pytest.mark.parametrize("setting", IN_THE_WAY)
async def test_settings_that_are_in_a_batchs_way_change_no_reply(copy: Path, setting: str) -> None:
    async with opened(copy) as model:
        ends = (await said_ids(model, 6))[5]
    # one that the reply holds, so that a least length would change it
    set_fields(copy, "generation_config.json", eos_token_id=[2, ends])
    plain = await two_replies(copy)
    set_fields(copy, "generation_config.json", **{setting: IN_THE_WAY[setting]})
    assert await two_replies(copy) == plain


async def test_a_calls_sampling_goes_before_the_settings(copy: Path) -> None:
    greedy = await reply_of(copy, temperature=0.0)
    single = await reply_of(copy, temperature=1.0, extra={"top_k": 1})
    assert single.text == greedy.text
    set_fields(copy, "generation_config.json", top_k=1, repetition_penalty=5.0)
    open_to_all = {"top_k": -1, "repetition_penalty": 1.0}
    assert (await reply_of(copy, temperature=1.0, extra=open_to_all)).text != greedy.text
    assert (await reply_of(copy, extra={"repetition_penalty": 1.0})).text == greedy.text
    assert (await reply_of(copy)).text != greedy.text


async def test_stop_strings_of_the_settings_end_a_reply_as_a_requests_do(copy: Path) -> None:
    async with opened(copy) as model:
        whole = await ask(model, ASKED, max_tokens=40)
        stop = whole.text[3:6]
        asked = await ask(model, ASKED, max_tokens=40, stop=(stop,))
    set_fields(copy, "generation_config.json", stop_strings=[stop])
    async with opened(copy) as model:
        own, _ = await asyncio.gather(
            ask(model, ASKED, max_tokens=40), ask(model, LONG, max_tokens=40)
        )
    assert (own.text, own.finish) == (asked.text, "stop")
    assert own.output_tokens == asked.output_tokens
    assert own.text != whole.text


@pytest.mark.parametrize(("other", "alike"), [(0, True), (1, False)])
async def test_each_picture_has_noise_of_its_own(
    other: int, alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tokens that stand for pictures are the same for all of one size."""
    seeds: list[int] = []

    def noted(*settings: Any) -> int:
        seeds.append(stream_seed(*settings))
        return seeds[-1]

    monkeypatch.setattr(decoding, "stream_seed", noted)
    async with backend("llava") as model:
        for number in (0, other):
            await ask(model, user(PICTURES.draw(number), "What?"), temperature=1.0)
    assert (seeds[0] == seeds[1]) is alike
