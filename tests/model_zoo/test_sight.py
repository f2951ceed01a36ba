"""Which checkpoints are known, before they are loaded, to take no images."""

import json
from pathlib import Path
from typing import Any

import pytest

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from model_zoo import hf, vllm
from model_zoo.checkpoints import require_sight
from model_zoo.providers import provider_of
from tests.model_zoo.hf_support import checkpoint
from tests.tiny_checkpoints import FAMILIES

WITHOUT_PICTURES = {"evolla", "mistral4"}
"""transformers lists a model of proteins and one of text among those of images and text."""


def folder(path: Path, config: Any) -> str:
    (path / "config.json").write_text(json.dumps(config))
    return str(path)


def is_blind(model: str) -> bool:
    try:
        require_sight(model)
    except ConfigError as error:
        assert "config.json describes no part for images" in str(error)
        return True
    return False


@pytest.mark.parametrize("family", FAMILIES)
def test_a_checkpoint_is_known_as_its_loader_knows_it(family: str) -> None:
    from transformers import AutoConfig

    from model_zoo.hf.loading import kind_of
    from model_zoo.hf.options import HfOptions

    path = str(checkpoint(family))
    kind = kind_of(AutoConfig.from_pretrained(path), HfOptions())
    assert is_blind(path) == (kind != "image-text")


def test_no_architecture_that_sees_is_taken_for_a_blind_one(tmp_path: Path) -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as NAMES,
    )

    blind = set()
    for name in NAMES:
        config = json.loads(CONFIG_MAPPING[name]().to_json_string())
        if is_blind(folder(tmp_path, config)):
            blind.add(name)
    assert blind <= WITHOUT_PICTURES


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "own", "auto_map": {"AutoModel": "own.py"}},
        {"hidden_size": 4},
        [],
        {"model_type": "omni", "thinker_config": {"visual": {"depth": 2}}},
    ],
)
def test_what_a_configuration_does_not_tell_is_not_known(tmp_path: Path, config: Any) -> None:
    assert not is_blind(folder(tmp_path, config))


def test_a_hub_name_a_file_and_a_spoilt_configuration_are_not_known(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    (tmp_path / "model.gguf").write_bytes(b"weights")
    assert not any(map(is_blind, ["org/model", str(tmp_path), str(tmp_path / "model.gguf")]))


def test_an_option_of_hf_decides_and_a_served_model_is_not_looked_at(tmp_path: Path) -> None:
    model = folder(tmp_path, {"model_type": "llama"})
    hf.check_sight(ModelSpec(provider="hf", model=model, options={"kind": "image-text"}))
    with pytest.raises(ConfigError, match=r"options\.kind is text"):
        hf.check_sight(ModelSpec(provider="hf", model="org/name", options={"kind": "text"}))
    served = ModelSpec(provider="vllm", model=model, base_url="http://localhost:8000/v1")
    provider_of(served).check_sight(served)


@pytest.mark.parametrize("provider", ["hf", "vllm"])
def test_a_hub_name_is_known_where_it_was_downloaded(snapshot: Path, provider: str) -> None:
    folder(snapshot, {"model_type": "llama"})
    check = hf.check_sight if provider == "hf" else vllm.check_sight
    for options in ({}, {"revision": "0123abc"}):
        with pytest.raises(ConfigError, match=r"0123abc/config\.json describes no part for images"):
            check(ModelSpec(provider=provider, model="org/name", options=options))
    check(ModelSpec(provider=provider, model="org/name", options={"revision": "other"}))
    check(ModelSpec(provider=provider, model="org/other"))
