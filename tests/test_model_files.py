"""The shipped model files: each one is read, is named in keys offline, and says only what it must.

Whether a checkpoint of that name exists and fits its comment cannot be seen from here.
"""

import re
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from mmconv.core.config import AboutSpec, ModelSpec, RunSpec, SamplingSpec, load_model, model_files
from mmconv.core.errors import ConfigError
from mmconv.core.types import Image, Message, Text
from model_zoo.anthropic_api import AnthropicOptions
from model_zoo.google_api import GoogleOptions
from model_zoo.hf import HfOptions
from model_zoo.openai_api import request
from model_zoo.providers import PROVIDERS, provider_of
from model_zoo.simulated.damage import DamagedOptions
from model_zoo.vllm.options import VllmOptions

FILES = model_files()
OPTIONS: dict[str, type[BaseModel]] = {
    "anthropic": AnthropicOptions,
    "damaged": DamagedOptions,
    "google": GoogleOptions,
    "hf": HfOptions,
    "openai": request.OpenAIOptions,
    "pocket": HfOptions,
    "vllm": VllmOptions,
}
each_file = pytest.mark.parametrize("name", FILES)


@pytest.fixture(scope="module")
def secrets() -> set[str]:
    """The variables that hold the files' keys."""
    return {load_model(name).api_key_env or "OPENAI_API_KEY" for name in FILES}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, secrets: set[str]) -> None:
    """Neither a network nor a secret."""

    def refuse(*_: object) -> None:
        raise AssertionError("no connection may be opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    for name in secrets:
        monkeypatch.delenv(name, raising=False)


def fingerprint(name: str) -> str:
    spec = load_model(name)
    return provider_of(spec).fingerprint(spec)


def test_there_are_as_many_as_the_readme_says() -> None:
    readme = Path(__file__).parent.with_name("README.md").read_text(encoding="utf-8")
    assert f" {len(FILES)} [model files](" in readme
    assert {load_model(name).provider for name in FILES} == set(OPTIONS)


@each_file
@pytest.mark.usefixtures("bare")
def test_a_file_has_a_fingerprint_without_network_or_secret(name: str) -> None:
    assert load_model(name).provider in PROVIDERS
    assert re.fullmatch("[0-9a-f]{64}", fingerprint(name))


def test_no_two_files_are_the_same_model() -> None:
    owners: dict[tuple[str, str], str] = {}
    for name in FILES:
        key = (load_model(name).provider, fingerprint(name))
        assert key not in owners, f"{name} is {owners[key]}"
        owners[key] = name


@each_file
def test_a_file_is_short_and_opens_with_a_sentence(name: str) -> None:
    lines = FILES[name].read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"# [A-Z].*\.", lines[0])
    assert len(lines) <= 13
    assert max(map(len, lines)) <= 100


@each_file
def test_a_label_is_the_name_and_tells_the_provider(name: str) -> None:
    spec = load_model(name)
    assert re.fullmatch("[a-z0-9]+([.-][a-z0-9]+)*", name)
    assert spec.label == name
    assert name.endswith("-vllm") == (spec.provider == "vllm")


@each_file
def test_what_is_set_is_no_default(name: str) -> None:
    spec = load_model(name)
    assert repeated(ModelSpec, spec.model_dump(exclude_unset=True)) == []
    assert repeated(OPTIONS[spec.provider], dict(spec.options)) == []
    assert repeated(AboutSpec, spec.about.model_dump(exclude_unset=True)) == []
    if spec.sampling is not None:
        # a null stands for more than the default: it goes before what a benchmark asks for
        settings = spec.sampling.model_dump(exclude_unset=True, exclude_none=True)
        assert repeated(SamplingSpec, settings) == []


def repeated(kind: type[BaseModel], options: dict[str, Any]) -> list[str]:
    return [field for field, value in options.items() if kind.model_fields[field].default == value]


@each_file
def test_what_is_told_about_a_model_fits_its_first_line(name: str) -> None:
    """Weights of two bytes per parameter; one byte where they are in FP8."""
    about = load_model(name).about
    first = FILES[name].read_text(encoding="utf-8").splitlines()[0]
    if load_model(name).provider in ("hf", "vllm"):
        assert about.images is ("text only" not in first)
    weights = re.search(r"(\d+) GB", first)
    if about.parameters is not None and weights is not None:
        size = about.parameters * (1 if "FP8" in first else 2)
        assert abs(size - float(weights[1])) <= max(1.0, 0.05 * size)


def test_what_is_told_about_a_model_is_no_part_of_a_run() -> None:
    spec = RunSpec.model_validate({"benchmark": "convbench", "models": {"candidate": "gpt-4o"}})
    assert spec.models["candidate"].about.images
    assert "about" not in spec.model_dump_json()


@each_file
def test_no_file_runs_code_from_the_hub(name: str) -> None:
    assert "trust_remote_code" not in load_model(name).options


@each_file
def test_a_key_is_sent_only_to_whom_it_belongs(name: str) -> None:
    spec = load_model(name)
    assert (spec.base_url is None) == (spec.api_key_env is None)
    if spec.base_url is not None:
        assert spec.base_url.startswith("https://")


def conversation(spec: ModelSpec, *parts: Text | Image) -> list[Message]:
    return [
        Message(role="system", parts=(Text(text=spec.system or ""),)),
        Message(role="user", parts=parts),
        Message(role="assistant", parts=(Text(text="A red bus."),)),
        Message(role="user", parts=(Text(text="Where is it?"),)),
    ]


def written(name: str, family: str, *parts: Text | Image) -> str:
    """A two-turn conversation as the file's template writes it, by a tiny model of that family."""
    pytest.importorskip("transformers", reason="needs the extra hf")
    from model_zoo.hf.loading import load_checkpoint
    from model_zoo.hf.prompts import render
    from tests.model_zoo import hf_support

    spec = load_model(name)
    checkpoint = load_checkpoint(hf_support.spec(family), HfOptions(dtype="float32"))
    options = HfOptions(chat_template=str(spec.options["chat_template"]))
    return render(checkpoint, conversation(spec, *parts), options).text


@pytest.mark.parametrize("name", ["llava-1.5-7b", "llava-1.5-13b", "llava-1.6-vicuna-13b"])
def test_llava_turns_are_written_as_in_its_training(name: str) -> None:
    picture = Image(sha256="0" * 64, media_type="image/png", width=8, height=8)
    assert written(name, "llava", picture, Text(text="What is this?")) == (
        "A chat between a curious human and an artificial intelligence assistant. The assistant "
        "gives helpful, detailed, and polite answers to the human's questions. "
        "USER: <image>\nWhat is this? ASSISTANT: A red bus.</s>USER: Where is it? ASSISTANT:"
    )


@pytest.mark.parametrize("name", ["vicuna-7b-v1.5", "vicuna-13b-v1.5"])
def test_vicuna_turns_are_written_as_in_its_training(name: str) -> None:
    text = written(name, "llama", Text(text="What is this?"))
    assert text == (
        "<|begin|>A chat between a curious user and an artificial intelligence assistant. "
        "The assistant gives helpful, detailed, and polite answers to the user's questions. "
        "USER: What is this? ASSISTANT: A red bus.</s>USER: Where is it? ASSISTANT:"
    )


def test_a_model_is_named_by_its_shipped_file() -> None:
    assert load_model("qwen2.5-vl-7b").model == "Qwen/Qwen2.5-VL-7B-Instruct"


def test_a_model_is_named_by_a_path(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"provider": "hf", "model": "some/model", "name": "mine"}))
    assert load_model(str(file)) == ModelSpec(provider="hf", model="some/model", name="mine")


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("hf/Qwen/Qwen2-0.5B-Instruct", "hf", "Qwen/Qwen2-0.5B-Instruct"),
        ("hf//ckpts/x", "hf", "/ckpts/x"),
        ("vllm/./ckpts/x", "vllm", "./ckpts/x"),
        ("fake/echo", "fake", "echo"),
    ],
)
def test_a_model_is_named_by_provider_and_model(name: str, provider: str, model: str) -> None:
    assert load_model(name) == ModelSpec(provider=provider, model=model)


@pytest.mark.parametrize(
    ("name", "hint"), [("qwen2.5-vl-8b", "; did you mean qwen2.5-vl-7b?"), ("hf/", ""), ("", "")]
)
def test_an_unknown_name_is_told_with_what_was_looked_for(name: str, hint: str) -> None:
    message = (
        f"model {name!r} is not a shipped model (see `mmconv models`), not a .yaml file, "
        f"and not of the form provider/model{hint}"
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        load_model(name)


def test_a_missing_file_is_told_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "gone.yaml"
    with pytest.raises(ConfigError, match=re.escape(f"{file}: No such file")):
        load_model(str(file))


def test_the_example_of_a_whole_file_sets_every_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_URL", raising=False)
    text = (Path(FILES["gpt-4o"]).parent / "README.md").read_text(encoding="utf-8")
    example = text.partition("```yaml\n")[2].partition("```")[0]
    spec = ModelSpec.model_validate(yaml.safe_load(example))
    assert spec.model_fields_set == ModelSpec.model_fields.keys()
    assert provider_of(spec).fingerprint(spec)


@each_file
def test_every_image_fits_what_anthropic_takes(name: str) -> None:
    """10 MiB of base64, and 8000 pixels a side."""
    spec = load_model(name)
    if "anthropic.com" in str(spec.base_url):
        assert 4 * -(-spec.options["max_bytes"] // 3) <= 10 * 2**20
        assert spec.options["max_side"] <= 8000


@each_file
def test_what_refuses_a_temperature_is_not_sent_top_p_either(name: str) -> None:
    """CMT-Eval sets both; Anthropic's endpoint takes one of them at most."""
    spec = load_model(name)
    sampling = spec.sampling or SamplingSpec()
    left = {field for field in sampling.model_fields_set if getattr(sampling, field) is None}
    if "temperature" in left or "anthropic.com" in str(spec.base_url):
        assert "top_p" in left or name.startswith("gemini")
