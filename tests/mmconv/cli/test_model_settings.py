"""Fields of models that are set on the command line, and the folder that a run has with them."""

from pathlib import Path

import orjson
import pytest
from click.testing import Result

from tests.drawn_data import write_scenes
from tests.mmconv.processes import typed


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_scenes(tmp_path / "data", 1)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*more: str, data: Path = Path("data")) -> Result:
    files = ("--data", str(data / "data.jsonl"), "--images", str(data / "images"))
    roles = ("--candidate", "fake/echo", "--judge", "fake/judge")
    return typed("run", "convbench", *files, *roles, "--no-page", *more)


def folders(here: Path) -> list[Path]:
    return sorted((here / "runs").glob("convbench-*"))


def test_a_run_resumes_in_its_folder_whatever_its_models_are_set_to(
    here: Path,
) -> None:
    assert run().exit_code == 0
    [folder] = folders(here)
    patient = (
        "--set",
        "models.judge.attempts=99",
        "--set",
        "models.judge.price={input: 1, output: 2}",
    )
    again = run(*patient, data=here / "data")
    assert again.exit_code == 0, again.output
    assert folders(here) == [folder]
    spec = orjson.loads((folder / "spec.json").read_bytes())["spec"]
    assert spec["models"]["judge"]["attempts"] == 99
    assert spec["options"]["data"] == str(here / "data" / "data.jsonl")
    roles = orjson.loads((folder / "summary.json").read_bytes())["models"]
    assert all(role["requested"] == 0 for role in roles.values())
    assert run("--set", "models.judge.system=Be kind.").exit_code == 0
    assert len(folders(here)) == 2


def test_a_url_from_the_environment_is_not_written_down(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A port on which nobody answers; one attempt tells it at once.
    monkeypatch.setenv("MMCONV_TEST_URL", "http://127.0.0.1:9/hidden/v1")
    (here / "mine.yaml").write_text("provider: openai\nmodel: m\nattempts: 1\n")
    judge = ("--set", "models.judge=mine.yaml", "--set", "models.judge.base_url=${MMCONV_TEST_URL}")
    assert run(*judge, "--conditions", "free").exit_code != 0
    [folder] = folders(here)
    assert "${MMCONV_TEST_URL}" in (folder / "spec.json").read_text()
    written = [path for path in (here / "runs").rglob("*") if path.is_file()]
    assert not [path for path in written if b"hidden" in path.read_bytes()]
    monkeypatch.delenv("MMCONV_TEST_URL")
    result = run(*judge, "--conditions", "free")
    assert "environment variable MMCONV_TEST_URL is not set" in str(result.exception)
