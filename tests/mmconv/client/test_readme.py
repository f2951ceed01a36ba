"""README's example of the client, as it stands there, against a server of the same names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mmconv.benchmarks.convbench.scenes import write_scenes
from tests.mmconv.service.conftest import Servers

README = Path(__file__).parents[3] / "README.md"


def test_the_example_does_what_it_says(
    start: Servers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    [example] = [block for block in blocks if "mmconv.client" in block]
    monkeypatch.chdir(tmp_path)
    data, images = write_scenes(Path("scenes"), 2)
    server = start(
        models={name: {"provider": "fake", "model": "judge"} for name in ("pocket", "judge")},
        data={
            "scenes": {
                "benchmark": "convbench",
                "options": {"data": str(data.absolute()), "images": str(images.absolute())},
            }
        },
    )
    exec(example.replace("http://localhost:8080", server.url))
    assert "| S1 | perception |" in capsys.readouterr().out
