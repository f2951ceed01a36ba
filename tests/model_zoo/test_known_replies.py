"""Fingerprints and replies of the models without weights: stored replies are found again by them.

The values were taken before these models became one package. Another one means that every stored
reply of the model is paid for again: raise the revision in its module and take it over here.
"""

import json
from collections.abc import Iterator
from hashlib import sha256
from random import Random
from typing import Any

import pytest

from images.drawn.script import write_script
from images.drawn.shapes import sample_scene
from images.drawn.truth import Dialogue
from judges.template import PromptSet
from mmconv.core.config import ModelSpec, load_model
from mmconv.core.errors import Refused
from mmconv.core.types import Image, Message, Sampling
from model_zoo.providers import find_provider, provider_of
from tests.messages import message
from tests.model_zoo.conftest import NoImages

PROPAGATION = {"after_right": 0.5, "after_wrong": 0.6}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "echo": ("fake", "echo", {}),
    "scripted": ("fake", "scripted", {"script": ["one", "two", "three"]}),
    "patterns": ("fake", "scripted", {"script": {"(?i)what": "this", "": "that"}}),
    "slow": ("fake", "slow", {"seconds": 0.001}),
    "failing": ("fake", "failing", {"rate": 0.0, "seed": 3}),
    "judge": ("fake", "judge", {}),
    "judge of five": (
        "fake",
        "judge",
        {"verdict": "rating", "lowest": 1, "highest": 5, "seed": 2, "closing": {"x": "{choice}"}},
    ),
    "judge of sides": ("fake", "judge", {"verdict": "choice", "choices": ["A", "B", "C"]}),
    "closing judge": ("fake", "judge", {"closing": {"Why": "So: {rating} {choice}"}}),
    "unreadable": ("fake", "unreadable", {}),
    "candidate": ("simulated", "candidate", {}),
    "alike": (
        "simulated",
        "candidate",
        {
            "perception": 0.3,
            "reasoning": PROPAGATION,
            "alike": {"levels": 0.2, "conditions": 0.5, "image": 0.4},
            "seed": 5,
        },
    ),
    "marker": ("simulated", "judge", {}),
    "hard marker": (
        "simulated",
        "judge",
        {"rating": {"right": 7, "wrong": 3, "spread": 2}, "win": {"right": 0.6}, "seed": 4},
    ),
    "chrf": ("reference", "chrf", {}),
    "bleu": ("reference", "bleu", {"focus_weight": 0.5}),
    "shuffled": ("damaged", "echo", {"provider": "fake", "shuffled_turns": [1, 3]}),
    "blurred": ("damaged", "echo", {"provider": "fake", "picture": "blur", "radius": 0.2}),
}
FINGERPRINTS = {
    "echo": "4c2b20b30f57ab934e0f0c736ef1d5ec43038dded91a34d2d4dc71749edc932d",
    "scripted": "6a78c7e844ca42e6d9e4f1e52931db797548f58138542fc004e13028f747fc59",
    "patterns": "cd70e42b0ef5bb9fea44dde87fc53feabcd675092af670afa4020719cddb0139",
    "slow": "d874639549dce68262b29fe5771cdedade39d6669f8ac2d195c082f526b489b3",
    "failing": "f12d08029539d365f6c8cf9100a22723c1c258e15c3cf2b22bdd04da013ba80d",
    "judge": "ae9ef699b6edd4890df552a6a0350a6840aa4b281c3ffb42444c2f773279aeb5",
    "judge of five": "97c02e21108a372a5b4ea4f250d3c4ca44dae5a041163623cca9aff7fd584e2c",
    "judge of sides": "5f20b08de6984f99f3c2427d4c4ee5c97e2c276b2ccdbf1564e0e457f6f29f38",
    "closing judge": "ad8afe2de2979ed93d756021b47bdfc8ebcc4851935485ae165f29a505458581",
    "unreadable": "7886f872be4d7150c0ce4ebf64f5425c64744a58eb25d71d4705432c500a6ff5",
    "candidate": "123540421b0348d082e99a1a3ac65c36535d2d3ec520736219345a7199177902",
    "alike": "de609a8830e41727db2dd1825ca2279fc98886b359de011b033a1ad1b229228a",
    "marker": "13c30ee39a4042d9aa2c03727db3b116259cb54ad238664d20d5e66fb789fdb3",
    "hard marker": "c9b266d63bac997daaae12af474d1743d112d81f9536330b009a7eef9c69115d",
    "chrf": "64c06decd51fd6d38713ee54e6dd593fa82ac7f4844fe102dc9ef9d501c9888a",
    "bleu": "2699f2f600ec34c9115d82f34f58c11444c12cc445c38ca9336868d98089129a",
    "shuffled": "13855ab2a0175746271a96482e8980500f8387ff81f9042b02454e17decd2773",
    "blurred": "7b335c059755e7f2d79f7318e8a362f168e15822f4e583081f484587fc3a7938",
}
REPLIES = {
    "echo": "34b28eb4ade93aee",
    "scripted": "36182c4a972e670c",
    "patterns": "36b09735af023a76",
    "slow": "34b28eb4ade93aee",
    "failing": "34b28eb4ade93aee",
    "judge": "d611538fee449b5f",
    "judge of five": "6eaddf64e340f5b0",
    "judge of sides": "126fdba733f4df6a",
    "closing judge": "efe832b0e4b1e198",
    "unreadable": "6e2f53e9fca453cf",
    "candidate": "1403d5628a435047",
    "alike": "51e664de73d730e9",
    "marker": "dda9db90ce800315",
    "hard marker": "0aaf9e7b6c8f7417",
    "chrf": "3aa70449b60fc3ec",
    "bleu": "6324a4b4c49b3d3a",
    "shuffled": "be7744608bbd6565",
    "blurred": "34b28eb4ade93aee",
}
SHIPPED = {
    "pocket": "c42d65d25691e52d5ad7bd437cece6ebb10371db5d314a0a46b64a1ab7019c76",
    "pocket-blind": "8baac8253679a61900b4624250a0dfee3248cc1d5d3f5166128115666e5c633f",
    "pocket-confused": "d1df048ec6362b745cc49748a5a9bf20bc456ce050035307e7672e8df1f18098",
}


def spec(name: str) -> ModelSpec:
    provider, model, options = MODELS[name]
    return ModelSpec(provider=provider, model=model, options=options)


def requests() -> Iterator[tuple[tuple[Message, ...], Sampling]]:
    """Conversations of one to three turns, and prompts of all judges, each in two trials."""
    for messages in (*conversations(), *judge_prompts()):
        for trial in (0, 1):
            yield messages, Sampling(trial=trial)
    schema = {"type": "object", "properties": {"score": {"type": "integer"}, "why": {}}}
    yield (message("user", "Rate it."),), Sampling(schema=json.dumps(schema))


def conversations() -> Iterator[tuple[Message, ...]]:
    for number in range(8):
        image = Image(sha256=f"{number // 2:064x}", media_type="image/png", width=8, height=9)
        turns = [message("user", image, f"What is in picture {number}?")]
        yield tuple(turns)
        for answer in ("I see a dog, and two cats.", "x (simulated reasoning: wrong)"):
            turns += [message("assistant", answer), message("user", "Why? And rate it.")]
            yield tuple(turns)


def judge_prompts() -> Iterator[tuple[Message, ...]]:
    for name in ("convbench", "convbench_reference"):
        prompts = PromptSet(name)
        for each in prompts.names:
            prompt = prompts[each]
            for number in range(6):
                slots = {slot: text(slot, number) for slot in prompt.slots}
                yield prompt.fill(slots)
    for asked in ("Rating: [[n]]", '"评估结果"\n轮次 1 - 用户: x\n轮次 2 - 用户:', "Index: n"):
        yield (message("system", "You judge."), message("user", f"{asked}\n<chat_end>"))
    yield (message("user", "Choice: Conversation 1\nConversation:\nA<chat_end>B<chat_end>"),)


def write(number: int) -> Dialogue:
    random = Random(f"scenes/stand-ins/0/{number}")
    return write_script(sample_scene(random), random)


def text(slot: str, number: int) -> str:
    """What a slot of ConvBench's prompts holds, in the language of scenes where it can."""
    script = write(number)
    kind, _, turn = slot.rpartition("_")
    if slot == "caption":
        return script.caption
    if turn not in ("1", "2", "3"):
        return f"1. Is it {slot} {number}?"
    whole = script.turns[int(turn) - 1]
    match kind:
        case "instruction":
            return whole.instruction
        case "reference" | "b":
            return whole.reference
        case "answer" | "a" if number > 2:
            return f"It. (simulated perception: {'wrong' if int(turn) < number - 2 else 'right'})"
        case "answer" | "a":
            return whole.reference[: len(whole.reference) * (number + 1) // 3]
    return f"{slot} {number}"


async def reply_hash(model: ModelSpec) -> str:
    """A hash of all replies and refusals of a model, without the time that they took."""
    backend = await provider_of(model).open_backend(model, NoImages())
    said: list[str] = []
    for messages, sampling in requests():
        try:
            reply = await backend.generate(messages, sampling, affinity="")
        except Refused as error:
            said.append(error.kind)
            continue
        said.append(
            repr((reply.text, reply.finish, reply.input_tokens, reply.output_tokens, reply.seen))
        )
    await backend.aclose()
    return sha256("\n".join(said).encode()).hexdigest()[:16]


@pytest.fixture(autouse=True)
def _one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version of sacrebleu is part of what names its judge."""
    monkeypatch.setattr(f"{find_provider('reference').fingerprint.__module__}.version", str)


@pytest.mark.parametrize("name", MODELS)
async def test_models_have_the_fingerprints_and_replies_that_they_had(name: str) -> None:
    model = spec(name)
    assert provider_of(model).fingerprint(model) == FINGERPRINTS[name]
    assert await reply_hash(model) == REPLIES[name]


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_models_have_the_names_that_they_had(name: str) -> None:
    model = load_model(name)
    assert provider_of(model).fingerprint(model) == SHIPPED[name]
