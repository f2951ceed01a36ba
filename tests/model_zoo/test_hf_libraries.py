"""What is told where a checkpoint needs a library that is not there, or brings code that fails."""

from __future__ import annotations

from typing import Any

import pytest

from mmconv.core.errors import ConfigError, OwnCodeError
from model_zoo.hf.options import read_options
from tests.model_zoo.hf_support import spec


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ImportError("Using bitsandbytes 4-bit requires it"), "run: pip install 'mmconv[quant]'"),
        (ImportError("X requires the Torchvision library"), "run: pip install torchvision"),
        (ImportError("Package `num2words` is required"), "run: pip install num2words torchvision"),
        (ImportError("Using a `device_map` requires Accelerate"), "run: pip install 'mmconv[hf]'"),
        (
            ImportError("packages that were not found in your environment: einops, timm"),
            "run: pip install einops timm",
        ),
        (ModuleNotFoundError("No module named 'cv2'"), "is not installed: No module named 'cv2'"),
        (
            ImportError("cannot import name 'x' from 'transformers.utils'"),
            "cannot be loaded by this version of its libraries: cannot import name 'x' from "
            "'transformers.utils'",
        ),
    ],
)
def test_what_is_missing_is_named_with_what_brings_it(error: ImportError, said: str) -> None:
    from model_zoo.hf.writer import naming

    with pytest.raises(ConfigError) as told, naming(spec("llama")):
        raise error
    assert str(told.value).startswith("model llama: ")
    assert str(told.value).endswith(said)


def test_flash_attention_is_a_package_of_its_own() -> None:
    from transformers.utils.import_utils import is_flash_attn_2_available

    from model_zoo.hf.loading import load_checkpoint

    if is_flash_attn_2_available():
        pytest.skip("flash-attn is installed")
    asked = spec("llama", attn_implementation="flash_attention_2")
    with pytest.raises(ConfigError, match=r"run: pip install flash-attn --no-build-isolation$"):
        load_checkpoint(asked, read_options(asked))


@pytest.mark.parametrize("error", [AttributeError, TypeError, AssertionError, RuntimeError])
@pytest.mark.parametrize("trusts", [True, False])
def test_code_that_a_checkpoint_brings_is_told_from_a_bug(
    trusts: bool, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    from model_zoo.hf import loading

    def fails(*_: Any, **__: Any) -> Any:
        raise error("its own words")

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", fails)
    asked = spec("llama", trust_remote_code=trusts)
    with pytest.raises(OwnCodeError if trusts else error) as told:
        loading.load_checkpoint(asked, read_options(asked))
    if trusts:
        assert str(told.value).startswith("model llama: the code that the checkpoint brings fails")
        assert f"{error.__name__}: its own words" in str(told.value)
        assert "another version of transformers" in str(told.value)


def test_a_model_of_that_kind_that_does_not_fit_is_no_fault_of_its_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from model_zoo.hf import loading

    def full(*_: Any) -> Any:
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr(loading, "_load", full)
    asked = spec("llama", trust_remote_code=True)
    with pytest.raises(ConfigError, match="does not fit into memory"):
        loading.load_checkpoint(asked, read_options(asked))


@pytest.mark.parametrize(("family", "takes"), [("llama", False), ("gemma3", True)])
def test_whether_a_model_takes_token_types_is_known_once_it_is_loaded(
    family: str, takes: bool
) -> None:
    from model_zoo.hf.loading import load_checkpoint

    asked = spec(family)
    assert load_checkpoint(asked, read_options(asked)).token_types is takes
