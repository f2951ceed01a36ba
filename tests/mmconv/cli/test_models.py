"""`mmconv models`: what is told of the shipped models, and which of them."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.cli.listing import IMAGES, MODEL, NEED_NO_FILE, PARAMETERS, TERMS
from mmconv.core.config import AboutSpec, ModelSpec, load_model, model_files
from mmconv.core.errors import ConfigError
from model_zoo.openai_api.client import _DEFAULT_CONCURRENCY
from model_zoo.providers import PROVIDERS, provider_of
from model_zoo.simulated.fake import FAKES
from model_zoo.vllm.options import CONCURRENCY
from tests.mmconv.processes import succeed, typed


def listed(*arguments: str) -> dict[str, Any]:
    result = succeed("models", "--format", "json", *arguments)
    rows: dict[str, dict[str, Any]] = orjson.loads(result.stdout)["models"]
    return {
        name: {column: cell["value"] for column, cell in row.items()} for name, row in rows.items()
    }


def test_all_are_listed() -> None:
    assert list(listed()) == [*model_files(), *NEED_NO_FILE]
    assert list(listed("fake/")) == [f"fake/{name}" for name in FAKES]
    assert list(listed("reference")) == ["reference", "reference/chrf", "reference/bleu"]


@pytest.mark.parametrize("name", NEED_NO_FILE)
def test_what_needs_no_file_can_be_opened_and_no_other_of_its_provider(name: str) -> None:
    spec = load_model(name)
    options: dict[str, Any] = {"script": ["Yes."]} if name == "fake/scripted" else {}
    provider = provider_of(spec)
    assert provider.fingerprint(spec.model_copy(update={"options": options}))
    with pytest.raises(ConfigError) as raised:
        provider.fingerprint(spec.model_copy(update={"model": "mute"}))
    mates = [each for each in NEED_NO_FILE if each.startswith(f"{spec.provider}/")]
    assert all(mate.partition("/")[2] in str(raised.value) for mate in mates)


def test_every_field_of_a_model_file_is_told_with_its_default() -> None:
    result = succeed("models", "--fields")
    output = " ".join(result.output.split())
    fields = [name for name in ModelSpec.model_fields if name != "about"]
    fields += [f"about.{name}" for name in AboutSpec.model_fields]
    assert all(re.search(rf"^  {re.escape(name)} ", result.output, re.MULTILINE) for name in fields)
    assert all(
        " ".join((field.description or "?").split()) in output
        for name, field in ModelSpec.model_fields.items()
        if name != "about"
    )
    for facts in ("[an integer above 0; default: 8]", "[a text; required]", "default: 600.0]"):
        assert facts in output
    for facts in ("[a mapping; default: not set]", "[true or false; default: not set]"):
        assert facts in output


def fields(provider: str) -> str:
    result = succeed("models", "--fields", provider)
    return result.output


@pytest.mark.parametrize("provider", sorted({*PROVIDERS} - {"replay", "ray"}))
def test_every_option_of_a_provider_is_told_with_its_meaning(provider: str) -> None:
    """Those that it names where it is told of one that there is not."""
    output = fields(provider)
    options = set(re.findall(r"^  options\.([\w.]+) ", output, re.MULTILINE))
    meant = re.findall(r"^  options\.[\w.]+ +(\S.*)$", output, re.MULTILINE)
    assert len(meant) >= len(options)
    assert all(re.match("[A-Z]", meaning) for meaning in meant)
    mates = [name.partition("/")[2] for name in NEED_NO_FILE if name.startswith(f"{provider}/")]
    kinds: list[dict[str, str]] = [{}]
    if provider in ("simulated", "damaged"):
        mates, kinds = ["candidate", "judge"], [{}, {"provider": "fake"}]
    mates = mates or ["scenes" if provider == "pocket" else "org/name"]
    known: set[str] = set()
    for model, damage in product(mates, kinds):
        spec = ModelSpec(provider=provider, model=model, options={"no-such": 1, **damage})
        with pytest.raises(ConfigError) as raised:
            provider_of(spec).fingerprint(spec)
        assert str(raised.value).startswith(f"model {spec.label}: options: wrong configuration\n")
        known |= set(re.findall(r"\w+", str(raised.value).partition("; there are: ")[2]))
    assert known == {name.partition(".")[0] for name in options}


def test_a_users_provider_has_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_zoo").mkdir()
    needed = "def fingerprint(spec): ...\nasync def open_backend(spec, images): ...\n"
    own = "from pydantic import BaseModel\nclass Options(BaseModel):\n    words: int\n"
    (tmp_path / "own_zoo" / "mine.py").write_text(needed + own)
    (tmp_path / "own_zoo" / "bare.py").write_text(needed)
    assert "options.words  -\n                 [an integer; required]" in fields("own_zoo.mine")
    result = typed("models", "--fields", "own_zoo.bare")
    assert "own_zoo.bare has no pydantic model" in str(result.exception)


def test_where_the_options_of_providers_are_told_is_told() -> None:
    output = typed("models", "--fields").output
    assert all(f"  mmconv models --fields {name} " in output for name in PROVIDERS)


def test_the_default_concurrency_is_the_one_that_is_told() -> None:
    description = str(ModelSpec.model_fields["max_concurrency"].description)
    assert f"{_DEFAULT_CONCURRENCY} for a server" in description
    assert f"{CONCURRENCY} per rank of a vLLM" in description


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
    result = typed("models", "no-such-model")
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception) == (
        "no shipped model has 'no-such-model' in its name, model, provider or licence"
    )
