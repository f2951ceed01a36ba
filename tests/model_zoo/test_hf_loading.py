"""Checkpoints load whole, whatever else happens in the process at the time, or not at all."""

from __future__ import annotations

import json
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mmconv.errors import ConfigError
from model_zoo.hf.load_lock import LoadLock
from model_zoo.hf.options import read_options
from tests.model_zoo.hf_support import ask, backend, checkpoint, loaded, spec, user

TOGETHER = ("llava", "llama", "qwen2-vl", "llava", "t5", "llama")


def test_checkpoints_that_load_at_once_are_whole() -> None:
    from model_zoo.hf.loading import load_checkpoint

    def load(family: str) -> str:
        asked = spec(family)
        return _digest(load_checkpoint(asked, read_options(asked)).model)

    alone = {family: load(family) for family in set(TOGETHER)}
    with ThreadPoolExecutor(len(TOGETHER)) as threads:
        assert list(threads.map(load, TOGETHER)) == [alone[family] for family in TOGETHER]


def test_a_checkpoint_that_lacks_weights_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    from model_zoo.hf.loading import load_checkpoint

    shutil.copytree(checkpoint("llava"), tmp_path / "partial")
    file = tmp_path / "partial" / "model.safetensors"
    weights = load_file(file)
    lost = sorted(weights)[0]
    del weights[lost]
    save_file(weights, file, {"format": "pt"})
    asked = spec("llava").model_copy(update={"model": str(tmp_path / "partial")})
    with pytest.raises(ConfigError, match=r"1 of its weights .* would be random"):
        load_checkpoint(asked, read_options(asked))


@pytest.mark.parametrize("old", [False, True])
def test_weights_that_cannot_be_read_are_named(tmp_path: Path, old: bool) -> None:
    """Where no fingerprint has looked at them: downloads of the hub's, or a file that is old."""
    import torch
    from safetensors.torch import load_file

    from model_zoo.hf.loading import load_checkpoint

    shutil.copytree(checkpoint("llama"), tmp_path / "cut")
    file = tmp_path / "cut" / "model.safetensors"
    if old:
        weights = load_file(file)
        file.unlink()
        file = tmp_path / "cut" / "pytorch_model.bin"
        torch.save(weights, file, _use_new_zipfile_serialization=False)
    file.write_bytes(file.read_bytes()[:-1000])
    asked = spec("llama").model_copy(update={"model": str(tmp_path / "cut")})
    with pytest.raises(ConfigError, match=rf"^{file}: .*; copy or download it again$"):
        load_checkpoint(asked, read_options(asked))


@pytest.mark.parametrize("trusts", [False, True])
def test_weights_of_other_shapes_than_the_configuration_are_refused(
    tmp_path: Path, trusts: bool
) -> None:
    from model_zoo.hf.loading import load_checkpoint

    shutil.copytree(checkpoint("llama"), tmp_path / "misfit")
    file = tmp_path / "misfit" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"intermediate_size": 96}))
    asked = spec("llama", trust_remote_code=trusts).model_copy(
        update={"model": str(tmp_path / "misfit")}
    )
    with pytest.raises(ConfigError, match=r"^model misfit: its weights have not the shapes"):
        load_checkpoint(asked, read_options(asked))


async def test_inputs_go_where_weights_are_that_are_not_kept_aside() -> None:
    """Weights that a device map offloads are on no device until they are needed."""
    kept = ("model.layers", "model.norm", "model.rotary_emb", "lm_head")
    aside = {"model.embed_tokens": "disk", **dict.fromkeys(kept, "cpu")}
    async with backend("llama") as model:
        expected = await ask(model, user("What is it?"), temperature=1.0)
    async with backend("llama", device_map=aside) as model:
        assert loaded(model).model.device.type == "meta"
        assert (await ask(model, user("What is it?"), temperature=1.0)).text == expected.text


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    ("dtype", "native", "computes_in"),
    [("auto", True, "bfloat16"), ("auto", False, "float32"), ("float16", False, "float16")],
)
def test_4_bit_weights_are_multiplied_in_what_the_device_has(
    dtype: str, native: bool, computes_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from model_zoo.hf.loading import load_checkpoint

    def supported(including_emulation: bool = True) -> bool:
        return native or including_emulation

    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    asked = spec("llama", quantization="4bit", dtype=dtype)
    model = load_checkpoint(asked, read_options(asked)).model
    chosen = model.config.quantization_config.bnb_4bit_compute_dtype
    assert chosen == getattr(torch, computes_in)


def test_a_load_is_alone_and_goes_before_who_came_later() -> None:
    lock = LoadLock()
    order: list[str] = []
    first_runs, first_may_end = threading.Event(), threading.Event()

    def run(name: str) -> None:
        with lock.running():
            order.append(name)
            if name == "first":
                first_runs.set()
                first_may_end.wait(10)
                order.append("first ends")

    def load() -> None:
        with lock.loading():
            order.append("load")
            time.sleep(0.05)  # long enough for the second to come in, if it could
            order.append("loaded")

    with ThreadPoolExecutor(3) as threads:
        threads.submit(run, "first")
        first_runs.wait(10)
        threads.submit(load)
        time.sleep(0.05)  # so that the load waits already
        threads.submit(run, "second")
        time.sleep(0.05)
        first_may_end.set()
    assert order == ["first", "first ends", "load", "loaded", "second"]


def _digest(model: object) -> str:
    import hashlib

    import torch

    assert isinstance(model, torch.nn.Module)
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
