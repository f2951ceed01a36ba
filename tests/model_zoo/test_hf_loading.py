"""Checkpoints load whole or not at all: options, fingerprints, missing libraries, foreign code."""

import hashlib
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, UserCodeError
from model_zoo.hf import fingerprint
from model_zoo.hf.loading import Checkpoint, load_checkpoint, naming
from model_zoo.hf.options import HfOptions
from tests.messages import user
from tests.model_zoo.hf_support import ask, backend, checkpoint, loaded, spec

TOGETHER = ("llava", "llama", "qwen2-vl", "llava", "t5", "llama")


def named(model: str = "some/model", **options: Any) -> ModelSpec:
    return ModelSpec(provider="hf", model=model, options=options)


def load(model: ModelSpec) -> Checkpoint:
    return load_checkpoint(model, HfOptions.of(model))


@pytest.mark.parametrize(
    "options",
    [
        {"dtypo": "auto"},
        {"dtype": "int8"},
        {"max_batch": 0},
        {"quantization": "3bit"},
        {"kind": "audio"},
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        fingerprint(named(**options))


def test_foreign_code_needs_a_pinned_revision() -> None:
    with pytest.raises(ConfigError, match=r"pin it by options\.revision"):
        fingerprint(named(trust_remote_code=True))
    assert fingerprint(named(trust_remote_code=True, revision="4f2a"))
    assert fingerprint(named(str(checkpoint("llama")), trust_remote_code=True))


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "float16"},
        {"quantization": "4bit"},
        {"revision": "4f2a"},
        {"attn_implementation": "eager"},
        {"max_pixels": 1000},
        {"chat_template": "{{ messages }}"},
        {"kind": "text"},
        {"template_kwargs": {"enable_thinking": False}},
        {"date": "2025-01-02"},
    ],
)
def test_what_changes_replies_changes_the_fingerprint(options: dict[str, Any]) -> None:
    assert fingerprint(named(**options)) != fingerprint(named())


@pytest.mark.parametrize(
    "options", [{"max_batch": 3}, {"max_batch_tokens": 99}, {"threads": 2}, {"device_map": "cpu"}]
)
def test_what_only_changes_speed_does_not(options: dict[str, Any]) -> None:
    assert fingerprint(named(**options)) == fingerprint(named())


def test_a_template_file_counts_by_its_content(tmp_path: Path) -> None:
    file = tmp_path / "own.jinja"
    file.write_text("{{ messages }}")
    first = fingerprint(named(chat_template=str(file)))
    assert first == fingerprint(named(chat_template="{{ messages }}"))
    file.write_text("{{ messages }}!")
    assert first != fingerprint(named(chat_template=str(file)))
    file.unlink()
    with pytest.raises(ConfigError, match=r"own\.jinja: No such file"):
        fingerprint(named(chat_template=str(file)))


def test_the_fingerprint_loads_no_model_library() -> None:
    program = (
        "import sys\n"
        "from mmconv.core.config import ModelSpec\n"
        "from model_zoo.hf import fingerprint\n"
        "fingerprint(ModelSpec(provider='hf', model=sys.argv[1]))\n"
        "print([name for name in ('torch', 'transformers') if name in sys.modules])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(checkpoint("llama"))],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert ran.stdout.strip() == "[]"


def test_checkpoints_that_load_at_once_are_whole() -> None:
    def digest(family: str) -> str:
        return _digest(load(spec(family)).model)

    alone = {family: digest(family) for family in set(TOGETHER)}
    with ThreadPoolExecutor(len(TOGETHER)) as threads:
        assert list(threads.map(digest, TOGETHER)) == [alone[family] for family in TOGETHER]


def test_a_checkpoint_that_lacks_weights_is_refused(tmp_path: Path) -> None:
    shutil.copytree(checkpoint("llava"), tmp_path / "partial")
    file = tmp_path / "partial" / "model.safetensors"
    weights = load_file(file)
    lost = sorted(weights)[0]
    del weights[lost]
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(ConfigError, match=r"1 of its weights .* would be random"):
        load(named(str(tmp_path / "partial")))


@pytest.mark.parametrize("old", [False, True])
def test_weights_that_cannot_be_read_are_named(tmp_path: Path, old: bool) -> None:
    shutil.copytree(checkpoint("llama"), tmp_path / "cut")
    file = tmp_path / "cut" / "model.safetensors"
    if old:
        weights = load_file(file)
        file.unlink()
        file = tmp_path / "cut" / "pytorch_model.bin"
        torch.save(weights, file, _use_new_zipfile_serialization=False)
    file.write_bytes(file.read_bytes()[:-1000])
    message = r"^model cut: its weights cannot be read: .*; copy or download them again$"
    with pytest.raises(ConfigError, match=message):
        load(named(str(tmp_path / "cut")))


@pytest.mark.parametrize("trusts", [False, True])
def test_weights_that_misfit_the_configuration_are_refused(tmp_path: Path, trusts: bool) -> None:
    shutil.copytree(checkpoint("llama"), tmp_path / "misfit")
    file = tmp_path / "misfit" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"intermediate_size": 96}))
    misfit = named(str(tmp_path / "misfit"), trust_remote_code=trusts)
    with pytest.raises(ConfigError, match=r"^model misfit: the shapes of its weights differ"):
        load(misfit)


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
    def supported(including_emulation: bool = True) -> bool:
        return native or including_emulation

    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    model = load(spec("llama", quantization="4bit", dtype=dtype)).model
    chosen = model.config.quantization_config.bnb_4bit_compute_dtype
    assert chosen == getattr(torch, computes_in)


def _digest(model: object) -> str:
    assert isinstance(model, torch.nn.Module)
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (
            ImportError("X requires the Torchvision library"),
            "needs a library that is not installed: X requires the Torchvision library",
        ),
        (
            ImportError("cannot import name 'x' from 'transformers.utils'"),
            "cannot be loaded by this version of its libraries: cannot import name 'x' from "
            "'transformers.utils'",
        ),
    ],
)
def test_what_is_missing_is_named(error: ImportError, problem: str) -> None:
    with pytest.raises(ConfigError) as raised, naming(spec("llama")):
        raise error
    assert str(raised.value) == f"model llama: {problem}"


@pytest.mark.parametrize("trusts", [True, False])
def test_code_of_a_checkpoint_is_no_bug(trusts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("its own words")

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", fails)
    with pytest.raises(UserCodeError if trusts else RuntimeError) as error:
        load(spec("llama", trust_remote_code=trusts))
    if trusts:
        assert str(error.value).startswith("model llama: the code that the checkpoint brings fails")
        assert "RuntimeError: its own words" in str(error.value)
        assert "another version of transformers" in str(error.value)
