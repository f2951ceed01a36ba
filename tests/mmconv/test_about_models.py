"""A run says by which chat template its models were asked, whether or not they are opened."""

import shutil
from pathlib import Path

import orjson
from click.testing import CliRunner

from mmconv.cli import commands
from mmconv.core.keys import hash_bytes
from model_zoo.pocket import WEIGHTS
from tests.drawn_data import write_scenes


def typed(*arguments: str) -> str:
    result = CliRunner().invoke(commands, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def run(folder: Path, *more: str) -> tuple[str, dict[str, dict[str, str]]]:
    """What a run prints, and what its manifest has of its models."""
    files = ("--data", str(folder / "data.jsonl"), "--images", str(folder / "images"))
    roles = ("--candidate", f"hf/{folder / 'own'}", "--judge", "fake/judge")
    out = folder / ("plain" if more else "runs")
    output = typed("run", "convbench", *files, *roles, "--no-page", "--out", str(out), *more)
    [manifest] = out.glob("*/manifest.json")
    return output, orjson.loads(manifest.read_bytes())["about_models"]


def test_the_chat_template_stands_in_the_manifest(tmp_path: Path) -> None:
    write_scenes(tmp_path, 1)
    shutil.copytree(WEIGHTS, tmp_path / "own")
    template = hash_bytes((tmp_path / "own" / "chat_template.jinja").read_bytes())
    message, about = run(tmp_path)
    assert about == {"candidate": {"chat_template": template}}
    assert "PLAIN" not in message
    message, about = run(tmp_path, "--set", "models.candidate.options.chat_template=plain")
    assert about == {"candidate": {"chat_template": "plain transcript"}}
    assert "NO CHAT TEMPLATE: candidate (own) received its turns as a plain transcript" in " ".join(
        message.split()
    )
