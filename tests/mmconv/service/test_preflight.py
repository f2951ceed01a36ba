"""What is told before anything is served, and what becomes of jobs that are another server's."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from mmconv.core.errors import ConfigError
from mmconv.service.preflight import check_settings
from mmconv.service.settings import Settings
from tests.mmconv.service.conftest import Serve
from tests.mmconv.service.run_settings import drawn, request, until

ECHO = {"provider": "fake", "model": "echo"}


def settings(data: dict[str, Any], **models: Any) -> Settings:
    return Settings.model_validate({"models": {"echo": ECHO} | models, "data": {"big": data}})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"benchmark": "foo"}, r"data\.big\.benchmark: benchmark 'foo' is not known; there are:"),
        ({"benchmark": "no.such:thing"}, "there is no module 'no'"),
        ({"benchmark": "fbbench"}, r"data\.big\.options\.data is needed and not set"),
        (
            {"benchmark": "fbbench", "options": {"data": "x", "dat": 1}},
            "fbbench has no such option; did you mean data",
        ),
        (
            {"benchmark": "fbbench", "options": {"data": "x", "max_tokens": "many"}},
            r"options\.max_tokens: should be a valid integer",
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
    assert file.startswith(f"data.big.options.data: {tmp_path / 'nope.xlsx'} is not there")
    assert key.startswith("models.judge (x), second (x): environment variable OPENAI_API_KEY")


def test_settings_that_work_are_passed_in_silence(tmp_path: Path) -> None:
    shapes = drawn(tmp_path, 1)["shapes"]
    assert check_settings(settings(shapes)) == ()
    # Anything may be an option of a benchmark from elsewhere.
    theirs = {"benchmark": "tests.example_benchmark:Riddles", "options": {"any": 1}}
    assert check_settings(settings(theirs)) == ()


@pytest.mark.parametrize("gone", ["data", "model"])
async def test_runs_of_what_is_not_here_wait_for_a_server_that_has_it(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture, gone: str
) -> None:
    models = {"echo": ECHO, "judge": {"provider": "fake", "model": "judge"}}
    asked = request(seats={"candidate": "other", "judge": "judge"})
    whole: dict[str, Any] = {
        "models": {**models, "other": ECHO},
        "data": drawn(tmp_path),
        "database": str(tmp_path / "queue.sqlite"),
    }
    first = await serve(**whole, out=tmp_path / "first")
    first.shared.draining.set()
    first.shared.queue.news.set()
    [run] = [(await first.client.post("/v1/runs", json=asked)).json()["id"]]
    lesser = {"data": {}} if gone == "data" else {"models": models}
    named = "data set 'shapes'" if gone == "data" else "model 'other'"
    with caplog.at_level(logging.WARNING):
        second = await serve(**whole | lesser, out=tmp_path / "second")
        await until(lambda: f"{run} is left to a server that has {named}" in caplog.text)
    told = (await second.client.get(f"/v1/runs/{run}")).json()
    assert told["state"] == "queued"
