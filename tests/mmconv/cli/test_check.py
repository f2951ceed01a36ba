"""`mmconv check --servers` against a real server on the loopback interface, and against none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from mmconv.benchmarks.convbench.scenes import write_scenes
from mmconv.cli.check import command
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
