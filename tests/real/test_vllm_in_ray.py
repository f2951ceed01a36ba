"""A real vLLM inside a Ray actor, which this process starts."""

from pathlib import Path
from typing import Any

import pytest

from images import ImageStore
from mmconv.core.config import ModelSpec
from mmconv.core.types import Message, Sampling
from model_zoo.providers import provider_of
from tests.model_zoo.processes import RAY_SECONDS, children, wait_until_gone
from tests.pictures import picture
from tests.real.servers import say

pytestmark = [pytest.mark.real]

TURNS = ("What does the picture show?", "Why do you think so?", "Write a slogan for it.")


async def test_three_turns_about_an_image(
    vllm_options: dict[str, Any],
    vllm_checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "local")
    spec = ModelSpec(
        provider="vllm",
        model=str(vllm_checkpoint),
        options={**vllm_options, "log_folder": str(tmp_path / "logs"), "replicas": 1},
    )
    images = ImageStore(tmp_path / "images")
    image = images.add_bytes(picture(1, (640, 640)))
    before = children()
    backend = await provider_of(spec).open_backend(spec, images)
    started = children() - before
    history: list[Message] = []
    lengths = []
    for number, turn in enumerate(TURNS):
        history.append(say("user", turn, None if number else image))
        reply = await backend.generate(history, Sampling(max_tokens=16), affinity="one")
        history.append(say("assistant", reply.text))
        lengths.append(reply.input_tokens or 0)
        assert [seen.sha256 for seen in reply.seen] == [image.sha256]
    # 224 x 224 pixels are 64 visual tokens
    assert 64 < lengths[0] < lengths[1] < lengths[2]
    await backend.aclose()
    wait_until_gone(started, RAY_SECONDS)
