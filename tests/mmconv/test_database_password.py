"""A run whose store is a PostgreSQL with a password: it is written nowhere, and resuming works."""

from pathlib import Path

import pytest
from sqlalchemy import make_url

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.engine.run import Place, Result, open_evaluation, read_run
from tests.drawn_data import write_scenes
from tests.real.servers import postgres_url

__all__ = ["postgres_url"]

PASSWORD = "never-to-be-seen"

pytestmark = pytest.mark.real


@pytest.fixture
def url(postgres_url: str) -> str:
    """The database with a password that the server, which trusts this machine, does not ask for."""
    return make_url(postgres_url).set(password=PASSWORD).render_as_string(hide_password=False)


async def run(spec: RunSpec, place: Place) -> Result:
    async with open_evaluation(spec, place) as evaluation:
        return await evaluation.run(evaluation.runner(), page=True)


def spec_of(folder: Path) -> RunSpec:
    data, images = write_scenes(folder, 2)
    return RunSpec(
        benchmark="convbench",
        options={"data": str(data), "images": str(images)},
        models={
            "candidate": ModelSpec(provider="fake", model="echo"),
            "judge": ModelSpec(provider="fake", model="judge"),
        },
    )


@pytest.mark.parametrize("known", [True, False], ids=["in the environment", "nowhere"])
async def test_the_password_is_written_nowhere_and_the_run_goes_on(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    made = await run(spec_of(tmp_path / "data"), Place(out=tmp_path / "out", store=url))
    assert made.complete
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert "spec.json" in {path.name for path in written}
    assert not [path for path in written if PASSWORD.encode() in path.read_bytes()]
    monkeypatch.setenv("MMCONV_DATABASE_URL", url if known else "")
    spec, place, _, _ = read_run(made.folder)
    assert (place.store == url) == known
    again = await run(spec, place)
    assert (again.stats.requested, again.stats.replies) == (0, made.stats.replies)
