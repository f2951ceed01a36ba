"""Options of the transformers backend, and the fingerprint made of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from model_zoo.hf import fingerprint
from tests.model_zoo.hf_support import checkpoint


def named(model: str = "some/model", **options: Any) -> ModelSpec:
    return ModelSpec(provider="hf", model=model, options=options)


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


def test_foreign_code_in_a_local_folder_needs_none() -> None:
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


def test_a_copied_checkpoint_has_the_same_fingerprint(tmp_path: Path) -> None:
    original = checkpoint("llama")
    copied = shutil.copytree(original, tmp_path / "copy")
    assert fingerprint(named(str(original))) == fingerprint(named(str(copied)))


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
        timeout=60,
    )
    assert ran.stdout.strip() == "[]"
