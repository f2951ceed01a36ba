"""The provider `openai` against `transformers serve`: a server of another make than vLLM's.

It comes with what the project's own environment has, so it needs no preparation. What it does not
offer, guided output and refusals of prompts that are too long, is not asked of it.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from images import ImageStore
from mmconv.core.config import ModelSpec
from mmconv.core.errors import Refused
from mmconv.core.protocols import Backend
from mmconv.core.types import Image, Message, Reply, Sampling, SeenImage
from model_zoo import hf, openai_api
from model_zoo.vllm.server import ServerProcess, free_port
from tests.pictures import picture
from tests.real.servers import say
from tests.tiny_checkpoints import make_checkpoint

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

COMMAND = Path(sys.executable).parent / "transformers"
GREEDY = Sampling(max_tokens=12)
TURNS = ("What does the picture show?", "Why do you think so?", "Write a slogan for it.")


class Served:
    """The tiny LLaVA behind the server, and the images that it can be shown."""

    def __init__(self, checkpoint: Path, url: str) -> None:
        self.checkpoint = checkpoint
        self.images = ImageStore(checkpoint.with_name("images"))
        self._url = url

    async def open(self, **fields: Any) -> Backend:
        """A connection; `fields` are those of the model's file."""
        given = {"model": str(self.checkpoint), **fields}
        spec = ModelSpec(provider="openai", base_url=self._url, timeout=60, **given)
        return await openai_api.open_backend(spec, self.images)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    if not COMMAND.exists() or not all(map(find_spec, ("fastapi", "uvicorn"))):
        pytest.skip("transformers serve needs the extras hf and serve")
    folder = tmp_path_factory.mktemp("transformers")
    checkpoint = make_checkpoint("llava", folder / "tiny-llava")
    port = free_port()
    options = ("--device", "cpu", "--dtype", "float32", "--port", str(port))
    async with AsyncExitStack() as undo:
        server = ServerProcess(
            "transformers serve",
            [str(COMMAND), "serve", str(checkpoint), *options],
            log=folder / "server.log",
            env={"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        )
        undo.push_async_callback(server.stop)
        await server.wait_until_healthy(f"http://localhost:{port}/health", 120)
        yield Served(checkpoint, f"http://localhost:{port}/v1")


async def converse(backend: Backend, image: Image) -> list[Reply]:
    history: list[Message] = []
    replies = []
    for number, turn in enumerate(TURNS):
        history.append(say("user", turn, image if number == 0 else None))
        replies.append(await backend.generate(history, GREEDY, affinity="test"))
        history.append(say("assistant", replies[-1].text))
    return replies


async def draw(backend: Backend, trial: int) -> str:
    sampling = Sampling(temperature=1.0, max_tokens=12, seed=7, trial=trial)
    reply = await backend.generate([say("user", TURNS[0])], sampling, affinity="test")
    return reply.text


async def test_three_turns_about_an_image_are_those_of_the_model_in_process(served: Served) -> None:
    image = served.images.add_bytes(picture(1, (64, 48)))
    spec = ModelSpec(provider="hf", model=str(served.checkpoint), options={"dtype": "float32"})
    async with (
        aclosing(await served.open()) as there,
        aclosing(await hf.open_backend(spec, served.images)) as here,
    ):
        replies, expected = await converse(there, image), await converse(here, image)
    assert [reply.text for reply in replies] == [reply.text for reply in expected]
    assert [reply.input_tokens for reply in replies] == [reply.input_tokens for reply in expected]
    assert {reply.finish for reply in replies} == {"length"}
    seen = SeenImage(sha256=image.sha256, width=64, height=48)
    assert [reply.seen for reply in replies] == [(seen,)] * 3


async def test_the_image_is_looked_at(served: Served) -> None:
    images = [served.images.add_bytes(picture(seed, (64, 48))) for seed in range(4)]
    async with aclosing(await served.open()) as backend:
        texts = {(await converse(backend, image))[0].text for image in images}
    assert len(texts) > 1


async def test_it_draws_where_its_own_configuration_is_told_to(served: Served) -> None:
    """Without `do_sample`, which checkpoints often lack, it is greedy at any temperature."""
    drawing = {"extra_body": {"generation_config": '{"do_sample": true}'}}
    async with (
        aclosing(await served.open()) as greedy,
        aclosing(await served.open(options=drawing)) as backend,
    ):
        assert await draw(greedy, 0) == await draw(greedy, 1)
        assert await draw(backend, 0) == await draw(backend, 0)
        assert await draw(backend, 0) != await draw(backend, 1)


async def test_another_model_is_refused_in_the_servers_words(served: Served) -> None:
    async with aclosing(await served.open(model="other")) as backend:
        with pytest.raises(Refused, match="other") as caught:
            await backend.generate([say("user", "hello")], GREEDY, affinity="test")
    assert caught.value.kind == "rejected"
