"""Chat templates as checkpoints' own files have them, in the layouts that the hub has."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from mmconv.core.keys import hash_bytes
from model_zoo.chat_templates import (
    TRANSCRIPT,
    Template,
    find_template,
    lacks_template,
    name_template,
)

OWN = "{{ messages }} as this checkpoint has it"
NAMED = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": OWN}]

LAYOUTS: dict[str, dict[str, Any]] = {
    "a file of its own": {"chat_template.jinja": OWN},
    "the tokenizer's": {"tokenizer_config.json": {"chat_template": OWN}},
    "one of the tokenizer's": {"tokenizer_config.json": {"chat_template": NAMED}},
    "the processor's, before": {"chat_template.json": {"chat_template": OWN}},
    "the processor's": {"processor_config.json": {"chat_template": OWN}},
    "two, the file's first": {
        "tokenizer_config.json": {"chat_template": "no"},
        "chat_template.jinja": OWN,
    },
    "two, the processor's first": {
        "chat_template.jinja": "no",
        "chat_template.json": {"chat_template": OWN},
    },
}


def checkpoint(folder: Path, files: dict[str, Any]) -> str:
    """A folder that passes for a checkpoint where nobody loads it."""
    usual = {"config.json": {"model_type": "llama"}, "tokenizer_config.json": {}}
    for name, content in {**usual, **files}.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text, encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_template_is_found_where_checkpoints_have_it(tmp_path: Path, layout: str) -> None:
    model = checkpoint(tmp_path, LAYOUTS[layout])
    assert find_template(model) == OWN
    assert not lacks_template(model)
    assert name_template(model, None, None) == hash_bytes(OWN.encode())


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"tokenizer_config.json": {"chat_template": None}},
        {"tokenizer_config.json": {"chat_template": NAMED[:1]}},
        {"processor_config.json": "no JSON"},
    ],
)
def test_a_folder_without_one_is_known_to_lack_it(tmp_path: Path, files: dict[str, Any]) -> None:
    model = checkpoint(tmp_path, files)
    assert find_template(model) is None
    assert lacks_template(model)
    assert name_template(model, None, None) == "not known"


@pytest.mark.parametrize(
    "files",
    [
        {"config.json": {"model_type": "smolvlm"}},
        {"config.json": {"auto_map": {"AutoModel": "modeling.Own"}}},
        {"tokenizer_config.json": {"auto_map": {}}},
        {"tekken.json": {}},
    ],
)
def test_code_may_bring_one(tmp_path: Path, files: dict[str, Any]) -> None:
    assert not lacks_template(checkpoint(tmp_path, files))


def test_nothing_is_known_of_what_is_not_at_hand(tmp_path: Path) -> None:
    assert not lacks_template("org/never-downloaded")
    assert name_template("org/never-downloaded", None, None) == "not known"
    assert not lacks_template(str(tmp_path))


def test_what_a_manifest_says(tmp_path: Path) -> None:
    model = checkpoint(tmp_path, {"chat_template.jinja": "no"})
    assert name_template(model, None, OWN) == hash_bytes(OWN.encode())
    assert name_template(model, None, "plain") == TRANSCRIPT
    (tmp_path / "chat_template.jinja").unlink()
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    assert name_template(model, None, None) == TRANSCRIPT


def test_an_option_is_a_file_a_text_or_plain(tmp_path: Path) -> None:
    file = tmp_path / "own.jinja"
    file.write_text(OWN)
    option: TypeAdapter[str] = TypeAdapter(Template)
    for given, text in ((str(file), OWN), (OWN, OWN), ("plain", "plain")):
        assert option.validate_python(given) == text
    with pytest.raises(ValidationError, match=r"'Plain' is neither a file named \*\.jinja"):
        option.validate_python("Plain")
    file.write_bytes(b"\xff")
    with pytest.raises(ValidationError, match=r"own\.jinja: .*decode"):
        option.validate_python(str(file))
