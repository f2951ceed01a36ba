"""`mmconv check`: what is told of models that nobody loads, and of servers that are asked."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from mmconv.benchmarks.convbench.scenes import write_scenes
from mmconv.cli.check import command
from mmconv.errors import ConfigError
from model_zoo.pocket import WEIGHTS
from tests.mock_server import Behaviour, mock_server

NOBODY = "http://127.0.0.1:9/v1"


def on(url: str, model: str) -> dict[str, Any]:
    return {"provider": "openai", "model": model, "base_url": url, "timeout": 5}


def check(folder: Path, candidate: dict[str, Any] | str, judge: dict[str, Any] | str) -> Result:
    write_scenes(folder / "data", 2)
    options = {"data": str(folder / "data/data.jsonl"), "images": str(folder / "data/images")}
    seats = {"candidate": candidate, "judge": judge}
    spec = folder / "run.yaml"
    spec.write_text(yaml.safe_dump({"benchmark": "convbench", "options": options, "seats": seats}))
    return CliRunner().invoke(command, [str(spec), "--servers", "--out", str(folder / "runs")])


def test_what_is_served_is_told(tmp_path: Path) -> None:
    with mock_server(Behaviour(model="tiny/llava")) as url:
        told = check(tmp_path, on(url, "tiny/llava"), "fake/judge")
    assert told.exit_code == 0, told.output
    assert "candidate: llava is served" in told.output
    assert "judge:" not in told.output.partition("candidate: llava is served")[2]


def test_every_server_that_fails_is_told_at_once(tmp_path: Path) -> None:
    with mock_server(Behaviour(model="tiny/llava")) as url:
        told = check(tmp_path, on(url, "tiny/lava"), on(NOBODY, "judge"))
    fault = str(told.exception)
    assert "candidate: model lava: its server does not have 'tiny/lava'; did you mean" in fault
    assert "judge: model judge: " in fault and NOBODY in fault


def local(folder: Path) -> dict[str, Any]:
    """A checkpoint of one's own: the small one that is shipped, copied."""
    shutil.copytree(WEIGHTS, folder)
    return {"provider": "hf", "model": str(folder)}


def test_the_chat_template_is_told(tmp_path: Path) -> None:
    told = check(tmp_path, local(tmp_path / "own"), "fake/judge")
    assert told.exit_code == 0, told.output
    assert re.search(r"candidate: own \(hf\)\n    chat_template: [0-9a-f]{64}\n", told.output)
    assert "Not checked: what checkpoints hold;" in told.output


def test_weights_that_are_cut_short_are_told(tmp_path: Path) -> None:
    candidate = local(tmp_path / "own")
    file = tmp_path / "own" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    told = check(tmp_path, candidate, "fake/judge")
    assert isinstance(told.exception, ConfigError)
    assert str(told.exception).startswith(f"{file}: cut short or damaged (")


def test_every_checkpoint_that_cannot_be_opened_is_told_at_once(tmp_path: Path) -> None:
    models = [local(tmp_path / name) for name in ("a", "b")]
    for name in ("a", "b"):
        (tmp_path / name / "chat_template.jinja").unlink()
    told = check(tmp_path, models[0], models[1])
    lines = str(told.exception).splitlines()
    assert lines[0].startswith(f"candidate (a): model {tmp_path}/a: has no chat template")
    assert lines[1].startswith(f"judge (b): model {tmp_path}/b: has no chat template")
