"""That a line of the log can be found for what a client complains of, and tells whose it was."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.mmconv.service.conftest import MODELS, Serve, Served
from tests.mmconv.service.run_settings import CHAT, drawn, ended, request
from tests.mmconv.service.tokens import bearer, token

DEAD = {
    "provider": "fake",
    "model": "echo",
    "options": {"rate": 1.0, "kinds": ["timeout"]},
    "attempts": 1,
}
DIALOGUE = {"model": "dead", "turns": [{"instruction": "a"}, {"instruction": "b"}]}


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/chat/completions", {**CHAT, "model": "dead"}), ("/v1/dialogues", DIALOGUE)],
)
async def test_a_failed_models_line_names_it_the_request_and_the_token(
    serve: Serve, caplog: pytest.LogCaptureFixture, path: str, body: dict[str, Any]
) -> None:
    served = await serve(models={**MODELS, "dead": DEAD}, tokens=[token("bob", "chat")])
    answer = await served.client.post(path, json=body, headers=bearer("bob"))
    name = answer.headers["x-request-id"]
    [line] = [each.getMessage() for each in caplog.records if "dead failed" in each.getMessage()]
    assert line.startswith(f"POST '{path}', request {name} of bob: the model dead failed (timeout)")


async def test_every_request_has_an_id_of_its_own(served: Served) -> None:
    paths = ("/health", "/v1/models", "/v1/models", "/v1/nowhere", "/")
    answers = [await served.client.get(path) for path in paths]
    assert len({each.headers["x-request-id"] for each in answers}) == len(paths)


async def test_a_bug_is_logged_with_the_id_that_the_client_got(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_given: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("mmconv.service.state.Service.model", fail)
    answer = await served.client.get("/v1/models/x")
    name = answer.headers["x-request-id"]
    assert answer.status_code == 500
    assert f"GET '/v1/models/x', request {name} of local: the server failed" in caplog.text


async def test_a_jobs_end_is_logged(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    models = {**MODELS, "dead": DEAD}
    served = await serve(data=drawn(tmp_path), models=models, synchronous_calls=0)
    with caplog.at_level(logging.INFO):
        for candidate in ("echo", "dead"):
            seats = {"candidate": candidate, "judge": "judge"}
            posted = await served.client.post("/v1/runs", json=request(seats=seats))
            run = posted.json()["id"]
            found = await ended(served.client, run)
            told = f"{found['progress']['asked']} calls asked, {found['lost']} lost, of local"
            [line] = [
                each.getMessage()
                for each in caplog.records
                if f"run {run}: {found['state']} after" in each.getMessage()
            ]
            assert line.endswith(told)
        told = (await served.client.post("/v1/dialogues?wait=20", json=DIALOGUE)).json()
    assert f"{told['id']}: no call was answered: timeout" in caplog.text
    assert f"dialogue {told['id']}: failed after" in caplog.text
