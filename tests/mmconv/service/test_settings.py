from __future__ import annotations

import sys
from itertools import takewhile
from pathlib import Path

import pytest
import yaml

from mmconv.errors import ConfigError
from mmconv.service.command import command, make_token, read_settings
from mmconv.service.settings import Allowance, Settings, Sizes

SHIPPED = Path(__file__).parents[3] / "configs" / "serve.yaml"

FILE = """
models:
  tiny: {provider: hf, model: /checkpoints/tiny}
  judge: gpt-4o
data:
  mini: {benchmark: convbench, options: {data: rows.jsonl}}
out: served
limits: {requests_per_minute: 60}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "serve.yaml"
    path.write_text(FILE)
    return path


def test_models_are_named_by_file_by_fields_and_by_option(file: Path) -> None:
    settings = read_settings(file, ["echo=fake/echo", "fake/slow"], {"port": 9}, ["sizes.turns=5"])
    assert list(settings.models) == ["tiny", "judge", "echo", "fake/slow"]
    assert settings.models["judge"].provider == "openai"
    assert settings.data["mini"].options == {"data": "rows.jsonl"}
    assert (settings.port, settings.sizes.turns) == (9, 5)
    assert settings.place.store_url == str(Path("served") / "store.sqlite")


def test_the_environment_names_the_database_first(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = read_settings(file, [], {}, ["database=elsewhere.sqlite"])
    assert settings.place.store_url == "elsewhere.sqlite"
    monkeypatch.setenv("MMCONV_DATABASE_URL", "postgresql+psycopg://u@h/db")
    assert settings.place.store_url == "postgresql+psycopg://u@h/db"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("modles=1", "did you mean models"),
        ("models.x=gpt-4oo", "did you mean gpt-4o"),
        ("tokens=[{name: a, sha256: abc, scopes: [read]}]", "tokens.0.sha256"),
        ("tokens=[{name: ../a, sha256: abc, scopes: [read]}]", "tokens.0.name"),
        ("host=0.0.0.0", "configure tokens, or bind to 127.0.0.1"),
        ("host=example.org", "configure tokens"),
        ("sizes.turns=0", "greater than 0"),
    ],
)
def test_what_is_wrong_is_named(file: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_settings(file, [], {}, [override])


def test_two_tokens_may_not_be_the_same() -> None:
    entry = {"name": "a", "sha256": "0" * 64, "scopes": ["read"]}
    with pytest.raises(ValueError, match="two tokens have the same sha256"):
        Settings.model_validate(
            {"models": {"m": "fake/echo"}, "tokens": [entry, entry | {"name": "b"}]}
        )


def test_nothing_to_serve_is_told() -> None:
    with pytest.raises(ConfigError, match="models is needed"):
        read_settings(None, [], {}, [])


def test_a_made_token_fits_its_entry(tmp_path: Path) -> None:
    told = make_token("ada")
    token, _, entry = told.partition("\n\n")
    path = tmp_path / "serve.yaml"
    path.write_text(entry.partition("For the settings:\n")[2])
    settings = read_settings(path, ["fake/echo"], {}, [])
    assert settings.tokens[0].name == "ada"
    assert token not in entry


def test_the_shipped_settings_can_be_read_and_show_the_defaults() -> None:
    shipped = read_settings(SHIPPED, [], {}, [])
    assert list(shipped.models) == ["llava-1.5-7b", "echo", "judge"]
    lines = SHIPPED.read_text().split("\n")
    for group, kind in (("limits", Allowance), ("sizes", Sizes)):
        start = lines.index(f"# {group}:") + 1
        block = takewhile(lambda line: line.startswith("#   "), lines[start:])
        told = yaml.safe_load("\n".join(line.removeprefix("# ") for line in block))
        assert told == kind().model_dump(include=told.keys())


def test_missing_libraries_are_told_with_their_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mmconv.service.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ConfigError, match=r"pip install 'mmconv\[serve\]'"):
        command.main(["--model", "fake/echo"], standalone_mode=False)
