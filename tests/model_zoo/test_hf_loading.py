"""Checkpoints load whole, whatever else happens in the process at the time, or not at all."""

from __future__ import annotations

import json
import queue
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mmconv.core.errors import ConfigError
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


class Waits(threading.Condition):
    """Tells by name of each thread that has to wait; `said` raises where none does for long."""

    def __init__(self) -> None:
        super().__init__()
        self._names: queue.Queue[str] = queue.Queue()

    def wait(self, timeout: float | None = None) -> bool:
        self._names.put(threading.current_thread().name)
        return super().wait(timeout)

    def said(self, name: str) -> None:
        while self._names.get(timeout=10) != name:
            pass


def test_a_load_is_alone_and_goes_before_who_came_later(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = Waits()
    monkeypatch.setattr("model_zoo.hf.load_lock.Condition", lambda: waits)
    lock = LoadLock()
    order: list[str] = []

    def run(name: str) -> None:
        with lock.running():
            order.append(name)

    def load() -> None:
        with lock.loading():
            order.append("load")
            third.start()
            waits.said("third")
            order.append("loaded")

    second, third = (threading.Thread(target=run, args=(n,), name=n) for n in ("second", "third"))
    loading = threading.Thread(target=load, name="load")
    with lock.running():
        loading.start()
        waits.said("load")
        second.start()
        waits.said("second")
        assert order == []
    for thread in (loading, second, third):
        thread.join(10)
    assert order[:2] == ["load", "loaded"]
    assert set(order[2:]) == {"second", "third"}


def _digest(model: object) -> str:
    import hashlib

    import torch

    assert isinstance(model, torch.nn.Module)
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
