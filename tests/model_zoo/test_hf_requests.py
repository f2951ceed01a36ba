"""Single requests to the transformers backend: limits, refusals, failures, closing."""

import asyncio
import gc
import sys
import threading
import weakref
from itertools import count
from typing import Any

import pytest

from mmconv.core.errors import ConfigError, Refused, Transient
from mmconv.core.types import Sampling
from model_zoo.hf import open_backend
from model_zoo.hf.backend import check_context
from model_zoo.hf.prompts import render
from tests.messages import message, user
from tests.model_zoo.hf_support import PICTURES, ask, backend, count_batches, loaded, said, spec
from tests.tiny_checkpoints.parts import CONTEXT

ALTERNATING = (
    "{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('the system role is not supported') }}{% endif %}"
    "{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] }}{% endfor %}<|assistant|>"
)
FORGETFUL = (
    "{% for message in messages %}{% if message['role'] != 'system' %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] }}{% endif %}{% endfor %}<|assistant|>"
)


async def test_a_reply_says_how_long_it_is_and_why_it_ended() -> None:
    async with backend("llama") as model:
        cut = await ask(model, user("What is it?"), max_tokens=5)
        drawn = [
            ask(model, user("What is it?"), max_tokens=300, temperature=3.0, trial=trial)
            for trial in range(8)
        ]
        replies = await asyncio.gather(*drawn)
    assert (cut.finish, cut.output_tokens) == ("length", 5)
    assert cut.seconds > 0
    ended = [reply for reply in replies if reply.finish == "stop"]
    assert 0 < len(ended) < 8
    assert all(reply.input_tokens == cut.input_tokens for reply in replies)
    assert all((reply.output_tokens or 0) <= 300 for reply in ended)
    assert all(reply.output_tokens == 300 for reply in replies if reply.finish == "length")


async def test_requests_of_one_batch_end_at_their_own_limits() -> None:
    async with backend("llama") as model:
        sizes = count_batches(model)
        limits = (3, 9, 6)
        short, *others = await asyncio.gather(
            *[ask(model, user("What is it?"), max_tokens=limit) for limit in limits]
        )
    assert sizes == [3]
    assert [reply.output_tokens for reply in (short, *others)] == [3, 9, 6]
    assert others[0].text.encode().startswith(others[1].text.encode()[:3])


async def test_only_requests_with_equal_settings_share_a_batch() -> None:
    async with backend("llama") as model:
        sizes = count_batches(model)
        await asyncio.gather(
            *[ask(model, user(f"What is {number}?")) for number in range(3)],
            *[ask(model, user("What is it?"), temperature=1.0, trial=trial) for trial in range(2)],
            ask(model, user("What is it?"), temperature=1.0, top_p=0.5),
            ask(model, user("What is it?"), stop=("x",)),
        )
    assert sorted(sizes) == [1, 1, 2, 3]


async def test_a_stop_string_ends_the_reply_and_is_not_part_of_it() -> None:
    async with backend("llama") as model:
        whole = await ask(model, user("What is it?"), max_tokens=60)
        stop = whole.text[-6:-3]
        place = whole.text.index(stop)
        short = await ask(model, user("What is it?"), max_tokens=60, stop=("never", stop))
    assert short.text == whole.text[:place].strip()
    assert short.finish == "stop"
    assert (short.output_tokens or 0) < (whole.output_tokens or 0)


@pytest.mark.parametrize("padding", ["<|pad|>", "<|end|>", None])
async def test_a_stopped_reply_has_the_tokens_that_it_has_alone(padding: str | None) -> None:
    """Whatever token fills up its row while others of the batch go on."""
    async with backend("llama") as model:
        checkpoint = loaded(model)
        pad = checkpoint.tokenizer.convert_tokens_to_ids(padding or "!")
        checkpoint.settings.pad_token_id = pad
        whole = await ask(model, user("What is it?"), max_tokens=60)
        options: dict[str, Any] = {"max_tokens": 60, "stop": (whole.text[3:6],)}
        alone = await ask(model, user("What is it?"), **options)
        other = ask(model, user("the other one, please, is what?"), **options)
        beside, longer = await asyncio.gather(ask(model, user("What is it?"), **options), other)
    assert (beside.text, beside.finish) == (alone.text, "stop")
    assert beside.output_tokens == alone.output_tokens
    assert (alone.output_tokens or 0) < (longer.output_tokens or 0)


async def test_the_checkpoints_own_sampling_holds_without_a_temperature() -> None:
    async with backend("llama") as model:
        settings = loaded(model).settings
        greedy = await ask(model, user("What is it?"), temperature=0.0)
        plain = await ask(model, user("What is it?"), temperature=None)
        settings.update(do_sample=True, temperature=1.5, top_k=20, top_p=0.9, min_p=0.01)
        drawn = {
            (await ask(model, user("What is it?"), temperature=None, trial=n)).text
            for n in (1, 2, 3)
        }
        settings.update(top_k=1)
        certain = await ask(model, user("What is it?"), temperature=None)
        settings.update(do_sample=False, num_beams=4)
        with pytest.raises(Refused, match="beam search"):
            await ask(model, user("What is it?"), temperature=None)
    assert plain.text == greedy.text == certain.text
    assert len(drawn) == 3


async def test_too_long_a_prompt_is_refused_and_never_cut() -> None:
    async with backend("llama") as model:
        short = await ask(model, user("What is it?" * 100), max_tokens=1)
        question = user("What is it?" * (100 * (CONTEXT - 500) // (short.input_tokens or 1)))
        reply = await ask(model, question, max_tokens=1)
        room = CONTEXT - (reply.input_tokens or 0)
        assert 0 < room < CONTEXT // 2
        with pytest.raises(Refused, match=f"the model has room for {CONTEXT}") as refusal:
            await ask(model, question, max_tokens=room + 1)
        assert model.checkpoint is not None
        check_context(model.checkpoint, reply.input_tokens or 0, room)
    assert refusal.value.kind == "context"


async def test_what_exceeds_a_processors_memory_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise MemoryError

    async with backend("llava") as model:
        monkeypatch.setattr(type(loaded(model).processor), "__call__", fails)
        with pytest.raises(Refused, match="do not fit into memory") as refusal:
            await ask(model, user(PICTURES.draw(0), "What is it?"))
    assert refusal.value.kind == "memory"


async def test_a_text_that_holds_the_image_mark_is_refused() -> None:
    async with backend("llava") as model:
        with pytest.raises(Refused, match="'<image>', which stands for an image"):
            await ask(model, user(PICTURES.draw(0), "What does <image> mean?"))


async def test_what_a_template_cannot_write_is_refused() -> None:
    async with backend("llama", chat_template=ALTERNATING) as model:
        assert (await ask(model, user("What?"), said("That."), user("Why?"))).output_tokens
        with pytest.raises(Refused, match="the system role is not supported"):
            await ask(model, message("system", "Be brief."), user("What?"))
        with pytest.raises(Refused, match="`mmconv options BENCHMARK` says how"):
            await ask(model, message("system", "Be brief."), user("What?"))
        with pytest.raises(Refused, match=r"roles must alternate.*options\.chat_template$"):
            await ask(model, user("What?"), user("Why?"))


async def test_what_a_template_leaves_out_is_refused() -> None:
    async with backend("llama", chat_template=FORGETFUL) as model:
        with pytest.raises(Refused, match=r"of a system message;.*`mmconv options BENCHMARK`"):
            await ask(model, message("system", "Be brief."), user("What?"))
    blind = FORGETFUL.replace("message['content']", "message['content'][-1]['text']")
    async with backend("llava", chat_template=blind) as model:
        with pytest.raises(Refused, match=r"made 0 places for 1 image\(s\)"):
            await ask(model, user(PICTURES.draw(0), "What?"))


async def test_a_template_of_the_tokenizer_gets_images_as_marks() -> None:
    plain = FORGETFUL.replace("'<|' +", "bos_token + '<|' +")
    async with backend("llava") as model:
        loaded(model).processor.chat_template = None
        loaded(model).tokenizer.chat_template = plain
        one = await ask(model, user(PICTURES.draw(0), "What is it?"))
        two = await ask(model, user(PICTURES.draw(0), "What", PICTURES.draw(1), " is it?"))
    assert one.input_tokens is not None
    assert two.input_tokens == one.input_tokens + 16


async def test_images_stand_in_a_plain_transcript() -> None:
    async with backend("llava", chat_template="plain") as model:
        messages = [message("system", "Be brief."), user("Look:", PICTURES.draw(0)), said("Yes?")]
        rendered = render(loaded(model), [*messages, user("Why?")], model.options)
        assert (await ask(model, *messages, user("Why?"))).output_tokens
    assert rendered.text == ("Be brief. Question: Look:<image> Answer: Yes? Question: Why? Answer:")


async def test_images_are_scaled_by_the_stated_policy_first() -> None:
    async with backend("qwen2-vl", max_pixels=2500) as model:
        reply = await ask(model, user(PICTURES.draw(5), "What?"))
    seen = reply.seen[0]
    assert seen.width * seen.height <= 2500
    assert seen.width / seen.height == pytest.approx(300 / 220, rel=0.05)


async def test_a_bug_reaches_everyone_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**_: Any) -> Any:
        raise ZeroDivisionError("a bug")

    async with backend("llama") as model:
        monkeypatch.setattr(loaded(model).model, "generate", fails)
        asked = [ask(model, user(f"What is {number}?")) for number in range(3)]
        failures = await asyncio.gather(*asked, return_exceptions=True)
    assert [str(failure) for failure in failures] == ["a bug"] * 3


async def test_a_caller_that_gives_up_costs_the_others_nothing() -> None:
    async with backend("llama", max_batch=1) as model:
        sizes = count_batches(model)
        tasks = [asyncio.create_task(ask(model, user(f"What is {n}?"))) for n in range(4)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        replies = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(replies[3], asyncio.CancelledError)
    assert [type(reply).__name__ for reply in replies[:3]] == ["Reply"] * 3
    assert sizes == [1, 1, 1]


async def test_closing_stops_at_the_next_token_and_fails_what_waits() -> None:
    async with backend("t5", max_batch=1) as model:
        under_way, loop, tokens = asyncio.Event(), asyncio.get_running_loop(), count(1)

        def note(*_: object) -> None:
            if next(tokens) == 5:
                loop.call_soon_threadsafe(under_way.set)

        loaded(model).model.register_forward_hook(note)
        asked = [
            asyncio.create_task(
                model.generate([user("What?")], Sampling(max_tokens=100_000), affinity="")
            )
            for _ in range(2)
        ]
        async with asyncio.timeout(20):
            await under_way.wait()
            await model.aclose()
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["the backend was closed"] * 2
        assert [type(outcome) for outcome in outcomes] == [Transient] * 2
        with pytest.raises(Transient, match="closed"):
            await ask(model, user("What?"))


async def test_closing_while_a_picture_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end, really_read = threading.Event(), threading.Event(), PICTURES.read

    def read(sha256: str) -> bytes:
        begun.set()
        assert may_end.wait(20)
        return really_read(sha256)

    async with backend("llava") as model:
        asked = asyncio.create_task(ask(model, user(PICTURES.draw(0), "What?")))
        monkeypatch.setattr(PICTURES, "read", read)
        assert await asyncio.to_thread(begun.wait, 20)
        await model.aclose()
        may_end.set()
        with pytest.raises(Transient, match="closed"):
            await asked


async def test_closing_twice_is_safe_and_frees_the_model() -> None:
    async with backend("llava") as model:
        await ask(model, user(PICTURES.draw(0), "What?"))
        weights = weakref.ref(loaded(model).model)
        await model.aclose()
        await model.aclose()
        gc.collect()
        assert weights() is None


async def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "model_zoo.hf.backend", None)
    with pytest.raises(ConfigError, match=r"pip install 'mmconv\[hf\]'$"):
        await open_backend(spec("llama"), PICTURES)


async def test_a_reply_is_passed_on_as_it_is_written() -> None:
    asked = user("What is it?")
    heard: list[str] = []
    async with backend("llama") as model:
        whole, other = await asyncio.gather(
            ask(model, asked, max_tokens=24), ask(model, user("Why is it there?"), max_tokens=9)
        )
        stop = whole.text[-6:-3]
        for sampling in (Sampling(max_tokens=24), Sampling(max_tokens=24, stop=(stop,))):
            heard.clear()
            streamed, beside = await asyncio.gather(
                model.stream(
                    (asked,), sampling, affinity="", listen=lambda _, piece: heard.append(piece)
                ),
                ask(model, user("Why is it there?"), max_tokens=9),
            )
            assert beside.text == other.text
            assert streamed.text.startswith("".join(heard))
            assert len(heard) > 1
            assert whole.text.startswith(streamed.text)
