"""The provider against a real vLLM: what a stand-in cannot show."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from images import ImageStore
from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, Refused
from mmconv.core.types import Image, Message, Reply, Sampling, SeenImage
from model_zoo.vllm import open_backend, open_renderer
from tests import torchvision_stub
from tests.pictures import picture
from tests.real.servers import MAX_LENGTH, MAX_PIXELS, ROOT, RealVllm, say
from tests.real.test_main_job import check_tables, needs_data, run

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

SHORT = Sampling(max_tokens=16)
TURNS = ("What does the picture show?", "Why do you think so?", "Write a slogan for it.")


async def ask(server: RealVllm, *messages: Message, sampling: Sampling = SHORT) -> Reply:
    return await server.backend.generate(messages, sampling, affinity="test")


async def converse(server: RealVllm, image: Image) -> list[Reply]:
    history: list[Message] = []
    replies = []
    for number, turn in enumerate(TURNS):
        history.append(say("user", turn, image if number == 0 else None))
        replies.append(await ask(server, *history))
        history.append(say("assistant", replies[-1].text))
    return replies


def add_scene(server: RealVllm, seed: int, size: tuple[int, int] = (640, 640)) -> Image:
    return server.images.add_bytes(picture(seed, size))


def server_log(server: RealVllm) -> str:
    [path] = Path(server.spec.options["log_folder"]).glob("*.log")
    return path.read_text(encoding="utf-8")


async def prefix_hits(server: RealVllm) -> float:
    """Prompt tokens that vLLM has found in its prefix cache so far."""
    url = server.backend.base_url.removesuffix("/v1") + "/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        metrics = await response.text()
    found = re.search(r"^vllm:prefix_cache_hits_total\{.*\} (\S+)$", metrics, re.MULTILINE)
    assert found, "vLLM reports no prefix cache"
    return float(found[1])


async def test_three_turns_about_an_image(real_vllm: RealVllm) -> None:
    image = add_scene(real_vllm, 1)
    replies = await converse(real_vllm, image)
    seen = SeenImage(sha256=image.sha256, width=224, height=224)
    assert [reply.seen for reply in replies] == [(seen,)] * 3
    lengths = [reply.input_tokens or 0 for reply in replies]
    # 224 x 224 pixels are 64 visual tokens: patches of 14 pixels, merged two by two
    assert 64 < lengths[0] < lengths[1] < lengths[2]
    assert all(0 < (reply.output_tokens or 0) <= 16 for reply in replies)
    assert [reply.text for reply in replies] == [
        reply.text for reply in await converse(real_vllm, image)
    ]


async def test_a_raw_prompt_has_the_tokens_that_vllm_counts(real_vllm: RealVllm) -> None:
    if missing := torchvision_stub.install():
        pytest.skip(missing)
    renderer = open_renderer(real_vllm.spec, real_vllm.images)
    assert renderer is not None
    # sizes that are scaled down, scaled to whole patches, and sent as they are
    for seed, size in enumerate(((640, 480), (150, 90), (112, 112))):
        history = [say("user", TURNS[0], add_scene(real_vllm, seed, size))]
        for turn in ("Two\nlines.", "A space "):
            reply = await ask(real_vllm, *history)
            assert renderer(history).tokens == reply.input_tokens
            history += [say("assistant", reply.text), say("user", turn)]


async def test_the_image_is_looked_at(real_vllm: RealVllm) -> None:
    replies = [
        await ask(real_vllm, say("user", TURNS[0], add_scene(real_vllm, seed))) for seed in (1, 2)
    ]
    assert replies[0].input_tokens == replies[1].input_tokens
    assert replies[0].text != replies[1].text


async def test_the_pixel_bound_is_kept(real_vllm: RealVllm) -> None:
    wide = add_scene(real_vllm, 3, (1200, 300))
    without = await ask(real_vllm, say("user", TURNS[0]))
    reply = await ask(real_vllm, say("user", TURNS[0], wide))
    seen = reply.seen[0]
    assert 0.97 * MAX_PIXELS < seen.width * seen.height <= MAX_PIXELS
    assert 48 <= (reply.input_tokens or 0) - (without.input_tokens or 0) <= 64 + 2
    assert "Passing `min_pixels` and `max_pixels`" not in server_log(real_vllm)


async def test_many_conversations_at_once(real_vllm: RealVllm) -> None:
    scenes = [add_scene(real_vllm, seed, (160, 80)) for seed in range(8)]
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(converse(real_vllm, scenes[number % len(scenes)]))
            for number in range(32)
        ]
    replies = [reply for task in running for reply in task.result()]
    assert len(replies) == 96
    assert all(reply.output_tokens for reply in replies)


async def test_a_conversation_finds_its_prefix_cached(real_vllm: RealVllm) -> None:
    opening = say("user", "An opening that no other test sends. " * 20)
    reply = await ask(real_vllm, opening)
    before = await prefix_hits(real_vllm)
    await ask(real_vllm, opening, say("assistant", reply.text), say("user", "Go on."))
    hits = await prefix_hits(real_vllm) - before
    assert 128 <= hits <= (reply.input_tokens or 0)


async def test_a_prompt_that_is_too_long_is_refused(real_vllm: RealVllm) -> None:
    with pytest.raises(Refused, match=str(MAX_LENGTH)) as caught:
        await ask(real_vllm, say("user", "many words " * MAX_LENGTH))
    assert caught.value.kind == "context"


async def test_too_many_images_are_refused(real_vllm: RealVllm) -> None:
    image = add_scene(real_vllm, 1)
    crowd = Message(role="user", parts=(image,) * 5)
    with pytest.raises(Refused) as caught:
        await ask(real_vllm, crowd)
    assert caught.value.kind == "rejected"


async def test_seeds_and_trials_draw_anew_and_can_be_repeated(real_vllm: RealVllm) -> None:
    async def drawn(trial: int) -> str:
        sampling = Sampling(temperature=1.0, max_tokens=16, seed=7, trial=trial)
        return (await ask(real_vllm, say("user", TURNS[0]), sampling=sampling)).text

    assert await drawn(0) == await drawn(0)
    assert await drawn(0) != await drawn(1)


async def test_a_schema_is_obeyed(real_vllm: RealVllm) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"better": {"enum": ["A", "B"]}},
        "required": ["better"],
        "additionalProperties": False,
    }
    sampling = Sampling(temperature=1.0, max_tokens=64, seed=1, schema=json.dumps(schema))
    reply = await ask(real_vllm, say("user", "Which answer is better?"), sampling=sampling)
    assert json.loads(reply.text)["better"] in {"A", "B"}


async def test_a_start_that_fails_shows_the_root_cause(
    vllm_options: dict[str, Any], vllm_checkpoint: Path, tmp_path: Path
) -> None:
    """A worker raises it; the engine and the server that fail after it say "see root cause"."""
    folder = tmp_path / "checkpoint"
    shutil.copytree(vllm_checkpoint, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    spec = ModelSpec(
        provider="vllm",
        model=str(folder),
        name="empty",
        options={**vllm_options, "log_folder": str(tmp_path)},
    )
    cause = "RuntimeError: Cannot find any model weights with"
    with pytest.raises(ConfigError, match=rf"^empty: the server ended with exit code 1: {cause}"):
        await open_backend(spec, ImageStore())


BOTH_VERDICTS = r"Rating: [1-9]\nOverall, Response [AB] is better\."
"""What the served model is guided to say: it would never say anything readable by itself."""


def as_judge(server: RealVllm) -> dict[str, Any]:
    """The served model with guided output."""
    return {
        "provider": "vllm",
        "model": server.spec.label,
        "base_url": server.backend.base_url,
        "options": {
            "max_pixels": MAX_PIXELS,
            "extra_body": {"structured_outputs": {"regex": BOTH_VERDICTS}},
        },
    }


@needs_data
async def test_a_served_model_as_candidate_and_judge(tmp_path: Path, real_vllm: RealVllm) -> None:
    judge = as_judge(real_vllm)
    candidate = {**judge, "options": {"max_pixels": MAX_PIXELS}}
    await asyncio.to_thread(run, tmp_path, {"candidate": candidate, "judge": judge})
    check_tables(tmp_path)


async def test_an_audit_does_not_trust_a_judge_with_random_weights(
    tmp_path: Path, real_vllm: RealVllm
) -> None:
    findings, page = await asyncio.to_thread(audit, tmp_path, as_judge(real_vllm))
    [finding] = findings
    assert "NOT TO BE TRUSTED: right answers" in finding
    assert "Can tiny-qwen2-vl be trusted as a judge of ConvBench?" in page


def audit(folder: Path, judge: dict[str, Any]) -> tuple[list[str], str]:
    """The findings of an audit over drawn scenes, and its page."""
    data = {"data": "drawn/data.jsonl", "images": "drawn/images", "judge_sees_image": True}
    options = {**data, "grading": ["direct"]}
    spec = {"benchmark": "convbench", "options": options, "models": {"judge": judge}}
    (folder / "run.yaml").write_text(yaml.safe_dump(spec), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    drawing = "scenes drawn --families shapes --levels 1 --n 8"
    for command in (drawing, "judge run.yaml --out runs"):
        line = [sys.executable, "-m", "mmconv", *command.split()]
        done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    [run] = folder.glob("runs/audit-*")
    findings = json.loads((run / "tables" / "audit.json").read_text())["findings"]
    return findings, (run / "report.html").read_text(encoding="utf-8")
