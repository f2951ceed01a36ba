"""`mmconv models`: what is told of the shipped models, and which of them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from mmconv.cli import commands
from mmconv.cli.models import IMAGES, MODEL, PARAMETERS, TERMS
from mmconv.config import ModelSpec, load_model, model_files
from mmconv.errors import ConfigError
from model_zoo import fake
from model_zoo.fake import STAND_INS


def listed(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(commands, ["models", "--format", "json", *arguments])
    assert result.exit_code == 0, result.output
    rows: dict[str, dict[str, Any]] = orjson.loads(result.stdout)["models"]
    return {
        name: {column: cell["value"] for column, cell in row.items()} for name, row in rows.items()
    }


def test_all_are_listed() -> None:
    stand_ins = [f"fake/{name}" for name in STAND_INS]
    assert list(listed()) == [*model_files(), *stand_ins]
    assert list(listed("fake")) == stand_ins


def test_every_stand_in_that_is_listed_can_be_opened() -> None:
    for name in STAND_INS:
        told: dict[str, Any] = {"script": ["Yes."]} if name == "scripted" else {}
        assert fake.fingerprint(ModelSpec(provider="fake", model=name, options=told))
    with pytest.raises(ConfigError, match=", ".join(STAND_INS)):
        fake.fingerprint(ModelSpec(provider="fake", model="mute"))


def test_a_row_tells_what_the_file_says() -> None:
    assert listed("qwen2.5-vl-7b")["qwen2.5-vl-7b"] == {
        PARAMETERS: 8.3,
        IMAGES: "yes",
        TERMS: "Apache-2.0",
        MODEL: "hf/Qwen/Qwen2.5-VL-7B-Instruct",
    }
    assert listed("gpt-3.5")["gpt-3.5-turbo"] == {
        IMAGES: "no",
        TERMS: "$0.5 in, $1.5 out",
        MODEL: "openai/gpt-3.5-turbo",
    }


@pytest.mark.parametrize(
    ("word", "one_of_them"),
    [
        ("QWEN2.5-vl", "qwen2.5-vl-7b"),
        ("vllm/", "qwen2.5-72b-vllm"),
        ("community", "pixtral-12b"),
        ("Llama 3.2", "llama-3.2-11b-vision"),
        ("$2.5", "gpt-4o"),
    ],
)
def test_a_word_is_looked_for_in_everything(word: str, one_of_them: str) -> None:
    found = listed(word)
    assert one_of_them in found
    for name, row in found.items():
        assert word.lower() in " ".join([name, row[TERMS], row[MODEL]]).lower()


def test_those_that_take_images_can_be_chosen() -> None:
    found = listed("llama", "--images")
    assert found
    assert all(load_model(name).about.images for name in found)
    assert "llama-3.1-8b" in listed("llama").keys() - found.keys()


def test_a_word_that_nothing_has_is_said() -> None:
    result = CliRunner().invoke(commands, ["models", "no-such-model"])
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception) == (
        "no shipped model has 'no-such-model' in its name, model, provider or licence"
    )
