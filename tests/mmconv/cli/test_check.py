"""`mmconv check`: what is told of models that nobody loads, and of servers that are asked."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from mmconv.cli.evaluating import check_command as command
from mmconv.core.errors import ConfigError
from model_zoo.pocket import WEIGHTS
from tests.drawn_data import write_scenes
from tests.mock_server import Behaviour, mock_server

NOBODY = "http://127.0.0.1:9/v1"


def on(url: str, model: str) -> dict[str, Any]:
    return {
        "provider": "openai",
        "model": model,
        "base_url": url,
        "timeout": 5,
        "wait_for_server": 0.3,
    }


def check(
    folder: Path,
    candidate: dict[str, Any] | str,
    judge: dict[str, Any] | str,
    flag: str = "--servers",
) -> Result:
    write_scenes(folder / "data", 2)
    options = {"data": str(folder / "data/data.jsonl"), "images": str(folder / "data/images")}
    roles = {"candidate": candidate, "judge": judge}
    spec = folder / "run.yaml"
    spec.write_text(yaml.safe_dump({"benchmark": "convbench", "options": options, "models": roles}))
    return CliRunner().invoke(command, [str(spec), flag, "--out", str(folder / "runs")])


def test_what_is_served_is_told(tmp_path: Path) -> None:
    with mock_server(Behaviour(model="tiny/llava")) as url:
        result = check(tmp_path, on(url, "tiny/llava"), "fake/judge")
    assert result.exit_code == 0, result.output
    assert "candidate: llava is served" in result.output
    assert "judge:" not in result.output.partition("candidate: llava is served")[2]


def test_every_server_that_fails_is_told_at_once(tmp_path: Path) -> None:
    with mock_server(Behaviour(model="tiny/llava")) as url:
        result = check(tmp_path, on(url, "tiny/lava"), on(NOBODY, "judge"))
    fault = str(result.exception)
    assert "candidate: model lava: its server does not have 'tiny/lava'; did you mean" in fault
    assert "judge: model judge: " in fault and NOBODY in fault


def local(folder: Path) -> dict[str, Any]:
    """A checkpoint of one's own: the small one that is shipped, copied."""
    shutil.copytree(WEIGHTS, folder)
    return {"provider": "hf", "model": str(folder)}


def test_the_chat_template_is_told(tmp_path: Path) -> None:
    result = check(tmp_path, local(tmp_path / "own"), "fake/judge")
    assert result.exit_code == 0, result.output
    assert re.search(r"candidate: own \(hf\)\n    chat_template: [0-9a-f]{64}\n", result.output)
    assert "Not checked: weights, tokenizers and processors (--models);" in result.output


def test_models_are_opened_without_their_weights(tmp_path: Path) -> None:
    candidate = local(tmp_path / "own")
    damaged = {
        "provider": "damaged",
        "model": candidate["model"],
        "options": {"provider": "hf", "picture": "blank"},
    }
    checked = check(tmp_path, candidate, damaged, "--models")
    assert checked.exit_code == 0, checked.output
    assert "candidate: own: configuration, tokenizer and processor open\n" in checked.output
    assert "judge: own: configuration, tokenizer and processor open\n" in checked.output
    assert "Not checked: weights, servers (--servers);" in checked.output
    stand_in = check(tmp_path, "fake/echo", "fake/judge", "--models")
    assert stand_in.exit_code == 0, stand_in.output
    assert "processor open" not in stand_in.output


def test_every_model_that_does_not_open_is_named(tmp_path: Path) -> None:
    """The files are there and sound, and are not what the library expects."""
    models = [local(tmp_path / name) for name in ("a", "b")]
    for name in ("a", "b"):
        (tmp_path / name / "config.json").write_text(
            '{"model_type": "no_such_model", "vision_config": {}}'
        )
    without = check(tmp_path, models[0], models[1])
    assert without.exit_code == 0, without.output
    error = str(check(tmp_path, models[0], models[1], "--models").exception)
    assert "candidate: model a: cannot be loaded: " in error and "`no_such_model`" in error
    assert "\njudge: model b: cannot be loaded: " in error


@pytest.mark.parametrize(
    ("patterns", "missing"),
    [
        (["config.json"], "configuration (config.json)"),
        (["tokenizer*"], "tokenizer (tokenizer.json or tokenizer.model)"),
        (["*processor*"], "processor (preprocessor_config.json or processor_config.json)"),
    ],
)
def test_a_file_that_is_missing_is_named(tmp_path: Path, patterns: list[str], missing: str) -> None:
    candidate = local(tmp_path / "own")
    for pattern in patterns:
        for file in (tmp_path / "own").glob(pattern):
            file.unlink()
    error = str(check(tmp_path, candidate, "fake/judge").exception)
    assert error == (
        f"candidate (own): {tmp_path / 'own'}: missing {missing}; copy it from the checkpoint "
        "that this one was made from, or download the checkpoint again"
    )


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("config.json", '{"a":', "not valid JSON ("),
        ("generation_config.json", "{", "not valid JSON ("),
        ("processor_config.json", "[]", "expected a JSON object; copy"),
        ("tokenizer.json", "version https://git-lfs.github.com/spec/v1", "only Git's pointer"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, file: str, text: str, problem: str) -> None:
    candidate = local(tmp_path / "own")
    (tmp_path / "own" / file).write_text(text)
    error = str(check(tmp_path, candidate, "fake/judge").exception)
    assert error.startswith(f"candidate (own): {tmp_path / 'own' / file}: {problem}")


def test_weights_that_are_cut_short_are_told(tmp_path: Path) -> None:
    candidate = local(tmp_path / "own")
    file = tmp_path / "own" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    result = check(tmp_path, candidate, "fake/judge")
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception).startswith(f"{file}: cut short or damaged (")


def test_every_checkpoint_that_cannot_be_opened_is_told_at_once(tmp_path: Path) -> None:
    models = [local(tmp_path / name) for name in ("a", "b")]
    for name in ("a", "b"):
        (tmp_path / name / "chat_template.jinja").unlink()
    result = check(tmp_path, models[0], models[1])
    lines = str(result.exception).splitlines()
    assert lines[0].startswith(f"candidate (a): model {tmp_path}/a: has no chat template")
    assert lines[1].startswith(f"judge (b): model {tmp_path}/b: has no chat template")
