"""Damage on purpose: what the model is shown, which answers are shuffled, how keys tell of it."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from images.drawn import draw_sample
from images.policy import blank, blur
from mmconv.core.config import ModelSpec, load_model
from mmconv.core.errors import ConfigError
from mmconv.core.keys import hash_json
from mmconv.core.protocols import Backend, ImageSource
from mmconv.core.types import Image, Message, Reply, Sampling, Text
from mmconv.engine.setup import build_model, is_served
from model_zoo import openai_api
from model_zoo.providers import provider_of
from model_zoo.simulated.damage import shuffle_words
from tests.messages import Messages
from tests.mock_server import Behaviour, mock_server

PICTURE = draw_sample("shapes", 1, 0, 1, "en").drawing.png
ANSWER = "2 of them: the red circle and the blue star."


class OnePicture:
    """An image source that knows one picture."""

    def read(self, sha256: str) -> bytes:
        return PICTURE


class Looking:
    """A backend that remembers the picture that it was shown."""

    max_concurrency = 3
    closed = False

    def __init__(self, images: ImageSource) -> None:
        self.images = images
        self.shown: list[bytes] = []

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        self.shown += [
            self.images.read(part.sha256)
            for message in messages
            for part in message.parts
            if isinstance(part, Image)
        ]
        return Reply(text=ANSWER)

    async def aclose(self) -> None:
        self.closed = True


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> list[Looking]:
    """Puts a provider in place; returns the backends that it opened."""
    opened: list[Looking] = []

    async def open_looking(spec: ModelSpec, images: ImageSource) -> Looking:
        assert spec.options == {"eyes": 2}
        opened.append(Looking(images))
        return opened[-1]

    module = ModuleType("tests.looking")
    module.fingerprint = lambda spec: hash_json([spec.model, dict(spec.options)])  # type: ignore[attr-defined]
    module.open_backend = open_looking  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tests.looking", module)
    return opened


def spec(**damage: object) -> ModelSpec:
    options = {"provider": "tests.looking", "options": {"eyes": 2}, **damage}
    return ModelSpec(provider="damaged", model="m", options=options)


def conversation(turns: int) -> list[Message]:
    image = Image(sha256="0" * 64, media_type="image/png", width=256, height=256)
    messages = [Message(role="user", parts=(image, Text(text="Turn 1?")))]
    for turn in range(2, turns + 1):
        messages.append(Message(role="assistant", parts=(Text(text="Yes."),)))
        messages.append(Message(role="user", parts=(Text(text=f"Turn {turn}?"),)))
    return messages


async def opened(**damage: object) -> Backend:
    model = spec(**damage)
    return await provider_of(model).open_backend(model, OnePicture())


async def shown(provider: list[Looking], **damage: object) -> bytes:
    backend = await opened(**damage)
    reply = await backend.generate(conversation(1), Sampling(), affinity="")
    assert reply.text == ANSWER
    return provider[-1].shown[-1]


async def test_only_the_turns_named_are_shuffled(provider: list[Looking]) -> None:
    backend = await opened(shuffled_turns=[2])
    texts = [
        (await backend.generate(conversation(turns), Sampling(), affinity="")).text
        for turns in (1, 2, 3)
    ]
    assert texts[0] == texts[2] == ANSWER
    assert texts[1] == shuffle_words(ANSWER) != ANSWER
    assert sorted(texts[1].split()) == sorted(ANSWER.split())
    assert provider[-1].shown[-1] == PICTURE


async def test_closing_closes_the_model(provider: list[Looking]) -> None:
    backend = await opened(shuffled_turns=[2])
    assert backend.max_concurrency == 3
    await backend.aclose()
    assert provider[-1].closed


async def test_the_model_gets_the_damaged_image(provider: list[Looking]) -> None:
    assert await shown(provider, picture="blank") == blank(PICTURE)
    assert await shown(provider, picture="blur", radius=0.3) == blur(PICTURE, 0.3)


@pytest.mark.usefixtures("provider")
def test_no_damage_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="nothing is damaged"):
        provider_of(spec())


def test_an_unknown_provider_is_named() -> None:
    spec = ModelSpec(provider="damaged", model="m", options={"provider": "x.y", "picture": "blur"})
    with pytest.raises(ConfigError, match=r"x\.y"):
        provider_of(spec)


def about(model: ModelSpec) -> Mapping[str, str]:
    return provider_of(model).metadata(model)


def test_a_damaged_model_has_the_metadata_of_the_whole_one() -> None:
    expected = about(load_model("pocket-blind"))
    assert expected == about(load_model("pocket"))
    assert len(expected["chat_template"]) == 64
    options = {"provider": "fake", "picture": "blur"}
    assert about(ModelSpec(provider="damaged", model="echo", options=options)) == {}


def damaged(provider: str, model: str, options: dict[str, Any], **fields: Any) -> ModelSpec:
    damage = {"provider": provider, "options": options, "shuffled_turns": [1]}
    return ModelSpec(provider="damaged", model=model, options=damage, **fields)


def check(function: str, model: ModelSpec) -> Any:
    return getattr(provider_of(model), function)(model)


async def test_a_model_on_a_server_can_be_damaged() -> None:
    with mock_server(Behaviour(model="tiny/llava")) as url:
        spec = damaged("openai", "tiny/llava", {}, base_url=url)
        assert await provider_of(spec).probe(spec) == ("tiny/llava",)
        assert await is_served(spec)
        model = build_model(spec, OnePicture())
        assert await model.open() == 80
        await model.aclose()
    whole = spec.model_copy(update={"provider": "openai", "options": {}})
    damage = {"picture": None, "radius": 0.1, "shuffled_turns": [1]}
    expected = ["damaged", 2, openai_api.fingerprint(whole), damage]
    assert provider_of(spec).fingerprint(spec) == hash_json(expected)


def test_a_damaged_model_keeps_the_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set"):
        check("check_key", damaged("openai", "gpt-4o", {}))
    with pytest.raises(ConfigError, match="takes no images"):
        check("check_sight", damaged("hf", "org/name", {"kind": "text"}))
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(ConfigError, match="has no chat template"):
        check("check_ready", damaged("hf", str(tmp_path), {}))
    assert check("guides_output", damaged("openai", "m", {"guided_json": True}))
    assert not check("guides_output", damaged("openai", "m", {}))
    with pytest.raises(ConfigError, match="provider hf asks no server"):
        provider_of(damaged("hf", "org/name", {}, base_url="http://localhost:8000/v1"))
