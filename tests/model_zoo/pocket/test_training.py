"""The training of the pocket model: reproducible, and apart from the package."""

import subprocess
import sys
import tomllib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from model_zoo.pocket.train import Stage, train

ROOT = Path(__file__).parents[3]
LIBRARY: Any = transformers
STEPS = {"sight": 2, "language": 1, "joint": 3}


def test_training_is_reproducible_and_its_checkpoint_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # emulated by most CPUs, which takes five times as long
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    stages = [Stage(name=name, steps=STEPS[name], size=6, rate=1e-3) for name in STEPS]
    for folder in ("first", "second"):
        train(tmp_path / folder, stages)
    files = [tmp_path / folder / "model.safetensors" for folder in ("first", "second")]
    assert files[0].read_bytes() == files[1].read_bytes()
    model = LIBRARY.AutoModelForImageTextToText.from_pretrained(tmp_path / "first")
    assert model.dtype == torch.float32
    processor = LIBRARY.AutoProcessor.from_pretrained(tmp_path / "first")
    assert processor.tokenizer.image_token == "<image>"


def test_the_package_imports_nothing_of_the_training() -> None:
    code = (
        "import sys; from importlib import import_module;"
        "from model_zoo.providers import PROVIDERS;"
        "[import_module(path) for path in PROVIDERS.values()]; import mmconv.cli.evaluating;"
        "sys.exit(any(name in sys.modules for name in sys.argv[1:]))"
    )
    training = ["model_zoo.pocket.train", "model_zoo.pocket.recipe"]
    subprocess.run([sys.executable, "-c", code, *training], cwd=ROOT, check=True)
    excluded = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    files = [f"{name.replace('.', '/')}.py" for name in training]
    assert excluded["targets"]["wheel"]["exclude"] == files
