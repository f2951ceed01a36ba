"""Fixtures of real servers: vLLM serving a tiny checkpoint, and a PostgreSQL.

`.ci/run` prepares both and tells in the environment where they are; where it does not run, the
tests that need them are skipped. A module that wants a fixture imports it in its `conftest.py`.
"""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from images import ImageStore
from mmconv.core.config import ModelSpec
from mmconv.core.types import Image, Message, Role, Text
from model_zoo.vllm import Served, open_backend
from tests.model_zoo.processes import children, wait_until_gone

ROOT = Path(__file__).parents[2]

VLLM_PYTHON = "MMCONV_TEST_VLLM_PYTHON"
POSTGRES_URL = "MMCONV_TEST_POSTGRES_URL"

MAX_PIXELS = 224 * 224

MAX_LENGTH = 16384

CPU_ARGUMENTS = (
    # on a CPU a seeded request whose prompt is taken in pieces kills vLLM 0.32
    "--no-enable-chunked-prefill",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RealVllm:
    """A running vLLM: the spec it was started by, the backend, and the images it can be shown."""

    spec: ModelSpec
    backend: Served
    images: ImageStore


@pytest.fixture(scope="session")
def vllm_options() -> dict[str, Any]:
    """Options by which the real vLLM starts on a CPU; skips where there is none."""
    python = os.environ.get(VLLM_PYTHON)
    if not python:
        pytest.skip(f"{VLLM_PYTHON} names no interpreter with vLLM (.ci/run sets it)")
    return {
        "python": python,
        "dtype": "float32",
        "enforce_eager": True,
        "max_model_len": MAX_LENGTH,
        "limit_images": 4,
        "max_pixels": MAX_PIXELS,
        "extra_args": CPU_ARGUMENTS,
        "env": {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"},
        "startup_seconds": 300,
    }


@pytest.fixture(scope="session")
def vllm_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen2-VL with random weights."""
    folder = tmp_path_factory.mktemp("checkpoint")
    subprocess.run(
        [sys.executable, "-m", "tests.real.make_checkpoint", "qwen2-vl", str(folder)],
        cwd=ROOT,
        check=True,
    )
    return folder


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def real_vllm(
    vllm_options: dict[str, Any], vllm_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RealVllm]:
    """The checkpoint, served by vLLM through our own provider for the whole session.

    Tests that use the backend run in the session's event loop; others ask its `base_url`.
    """
    logs = str(tmp_path_factory.mktemp("vllm"))
    spec = ModelSpec(
        provider="vllm",
        model=str(vllm_checkpoint),
        name="tiny-qwen2-vl",
        options={**vllm_options, "log_folder": logs},
    )
    images = ImageStore(tmp_path_factory.mktemp("images"))
    before = children()
    backend = await open_backend(spec, images)
    assert isinstance(backend, Served)
    started = children() - before
    yield RealVllm(spec=spec, backend=backend, images=images)
    await backend.aclose()
    wait_until_gone(started, 5)


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """A SQLAlchemy URL of an empty PostgreSQL database of the test's own, dropped afterwards."""
    server = os.environ.get(POSTGRES_URL)
    if not server:
        pytest.skip(f"{POSTGRES_URL} names no PostgreSQL server (.ci/run starts one)")
    from sqlalchemy import create_engine, make_url, text

    name = f"mmconv_{uuid4().hex}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield make_url(server).set(database=name).render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


def say(role: Role, text: str, image: Image | None = None) -> Message:
    """What is said to a model behind a server, after the image if there is one."""
    words = Text(text=text)
    return Message(role=role, parts=(words,) if image is None else (image, words))
