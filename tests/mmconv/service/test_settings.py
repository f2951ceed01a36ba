"""Settings: read from files and options, and checked before anything is served."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mmconv.core.errors import ConfigError, StoreError
from mmconv.service.command import make_token, read_settings
from mmconv.service.run_requests import check_settings
from mmconv.service.settings import SCOPES, Allowance, Settings, Sizes, TokenSpec
from mmconv.service.state import open_service
from tests.mmconv.service.run_settings import drawn

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


@pytest.mark.parametrize(
    ("models", "overrides", "info"),
    [
        (["=fake/echo"], [], "a model has no name"),
        (["fake/echo"], ["preload=[gpt]"], "preload: 'gpt' is none of the models"),
    ],
)
def test_unnameable_models_are_refused(models: list[str], overrides: list[str], info: str) -> None:
    with pytest.raises(ConfigError, match=info):
        read_settings(None, models, {}, overrides)


def test_models_are_named_by_file_by_fields_and_by_option(file: Path) -> None:
    settings = read_settings(file, ["echo=fake/echo", "fake/slow"], {"port": 9}, ["sizes.turns=5"])
    assert list(settings.models) == ["tiny", "judge", "echo", "fake/slow"]
    assert settings.models["judge"].provider == "openai"
    assert settings.data["mini"].options == {"data": "rows.jsonl"}
    assert (settings.port, settings.sizes.turns) == (9, 5)
    assert settings.place.store_url == str(Path("served") / "store.sqlite")


def test_the_environments_database_comes_first(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_nothing_to_serve_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"name a model, as in `mmconv serve --model pocket`, or"):
        read_settings(None, [], {}, ["port=9"])
    empty = tmp_path / "serve.yaml"
    empty.write_text("port: 9\n")
    with pytest.raises(ConfigError, match=r"serve\.yaml: .*\n  models is needed and not set"):
        read_settings(empty, [], {}, [])


def test_a_database_in_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    database = tmp_path / "no" / "x.db"
    settings = Settings.model_validate(
        {
            "models": {"m": "fake/echo"},
            "out": str(tmp_path / "runs"),
            "database": f"sqlite:///{database}",
        }
    )

    async def opened() -> None:
        async with open_service(settings):
            pass

    with pytest.raises(StoreError, match=rf"the database: folder {database.parent} does not exist"):
        asyncio.run(opened())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["bad name!", "../a", "", "a\n", "a" * 65])
def test_a_name_that_the_settings_would_not_take_makes_no_token(name: str) -> None:
    with pytest.raises(ConfigError, match="up to 64 letters, digits"):
        make_token(name)


def test_a_made_token_fits_its_entry(tmp_path: Path) -> None:
    info = make_token("ada")
    token, _, entry = info.partition("\n\n")
    path = tmp_path / "serve.yaml"
    path.write_text(entry.partition("For the settings:\n")[2])
    settings = read_settings(path, ["fake/echo"], {}, [])
    assert settings.tokens[0].name == "ada"
    assert token not in entry


def test_the_shipped_settings_can_be_read() -> None:
    shipped = read_settings(SHIPPED, [], {}, [])
    assert list(shipped.models) == ["llava-1.5-7b", "echo", "judge"]


def test_the_shipped_settings_show_every_setting_and_its_default() -> None:
    info = yaml.safe_load("\n".join(uncommented(SHIPPED.read_text().splitlines())))
    assert info.keys() == Settings.model_fields.keys()
    defaults = Settings.model_validate({"models": {"m": "fake/echo"}}).model_dump(mode="json")
    given = {"models", "data"}
    assert {name: info[name] for name in info.keys() - given} == {
        name: [*value] if isinstance(value, tuple) else value
        for name, value in defaults.items()
        if name not in given
    }


def test_the_shipped_settings_tell_what_every_field_of_a_group_means() -> None:
    text = SHIPPED.read_text()
    for kind in (Allowance, Sizes):
        for name in kind.model_fields:
            # Once with its meaning, once with its value.
            assert len(re.findall(rf"\b{name}\b", text)) >= 2, name
    for scope in SCOPES:
        assert re.search(rf"^#   {scope} +\w", text, re.MULTILINE), scope
    for name in TokenSpec.model_fields:
        assert re.search(rf"^# +(- )?{name}: ", text, re.MULTILINE), name


def uncommented(lines: list[str]) -> Iterator[str]:
    """The file with the settings that are commented out, and without what is said of them."""
    for line in lines:
        setting = re.match(r"# ([a-z_]+):( |$)", line)
        known = setting is not None and setting[1] in Settings.model_fields
        if not line.startswith("#"):
            yield line
        elif known or re.match(r"#   [a-z_]+: [\w.]+$", line):
            yield line.removeprefix("# ")


ECHO = {"provider": "fake", "model": "echo"}


def settings(data: dict[str, Any], **models: Any) -> Settings:
    return Settings.model_validate({"models": {"echo": ECHO} | models, "data": {"big": data}})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"benchmark": "foo"}, r"data\.big\.benchmark: benchmark 'foo' is not known; there are:"),
        ({"benchmark": "no.such:thing"}, "module 'no' is not on Python's path"),
        ({"benchmark": "fbbench"}, r"data\.big\.options\.data is needed and not set"),
        (
            {"benchmark": "fbbench", "options": {"data": "x", "dat": 1}},
            "is not a field here; did you mean data",
        ),
        (
            {"benchmark": "fbbench", "options": {"data": "x", "max_tokens": "many"}},
            "max_tokens is the text 'many', not a whole number",
        ),
    ],
)
def test_what_can_never_work_is_refused(data: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_settings(settings(data))


def test_what_may_be_there_later_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "images").mkdir()
    options = {"data": str(tmp_path / "nope.xlsx"), "images": str(tmp_path / "images")}
    keyed = {"provider": "openai", "model": "x", "api_key_env": "OPENAI_API_KEY"}
    data = {"benchmark": "convbench", "options": options}
    file, key = check_settings(settings(data, judge=keyed, second=keyed))
    assert file.startswith(f"data.big.options.data: {tmp_path / 'nope.xlsx'} does not exist")
    assert key.startswith("models.judge (x), second (x): environment variable OPENAI_API_KEY")


def test_settings_that_work_are_passed_in_silence(tmp_path: Path) -> None:
    shapes = drawn(tmp_path, 1)["shapes"]
    assert check_settings(settings(shapes)) == ()
    # Anything may be an option of a benchmark from elsewhere.
    theirs = {"benchmark": "tests.example_benchmark:Riddles", "options": {"any": 1}}
    assert check_settings(settings(theirs)) == ()
