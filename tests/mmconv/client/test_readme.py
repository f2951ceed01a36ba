"""The examples of the clients in both READMEs, against a server of the same names."""

import re
from pathlib import Path

import pytest

from tests.drawn_data import write_scenes
from tests.mmconv.service.conftest import Servers

ROOT = Path(__file__).parents[3]


def example(page: Path) -> str:
    """The page's example of a client."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return next(str(block) for block in blocks if "mmconv.client" in block)


def test_the_examples_do_what_they_say(
    start: Servers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_scenes(Path("scenes"), 2)
    server = start(
        models={name: {"provider": "fake", "model": "judge"} for name in ("pocket",)},
        data={
            "scenes": {
                "benchmark": "scenes",
                "options": {"families": "shapes", "levels": 1, "n": 2},
            }
        },
    )
    exec(example(ROOT / "README.md").replace("http://localhost:8080", server.url))
    assert "| S1 | perception |" in capsys.readouterr().out
    # a module of its own: its functions look its names up there
    many = example(ROOT / "mmconv" / "client" / "README.md")
    exec(many.replace("http://localhost:8080", server.url), {})
    assert re.fullmatch(r"scenes-pocket-\w+ \d+\n", capsys.readouterr().out)
