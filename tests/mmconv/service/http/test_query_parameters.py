from __future__ import annotations

import pytest

from tests.mmconv.service.conftest import Served

POSTED = ("/v1/runs", "/v1/dialogues", "/v1/judgements", "/v1/chat/completions", "/v1/images")


@pytest.mark.parametrize("path", POSTED)
async def test_posts_refuse_parameters_that_they_do_not_know(served: Served, path: str) -> None:
    answer = await served.client.post(path, params={"zzz": "1"}, json={})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (400, "zzz", "unknown_parameter")


@pytest.mark.parametrize(
    ("path", "param"),
    [
        ("/health?zzz", "zzz"),
        ("/v1/runs?zzz=1", "zzz"),
        ("/v1/runs/x?zzz=1", "zzz"),
        ("/v1/runs/x/samples/1?prompt=true", "prompt"),
        ("/v1/runs/x/images/" + "0" * 64 + "?smal=true", "smal"),
        ("/v1/runs?state=done&state=failed", "state"),
        ("/v1/runs/x/samples/1?prompts=true&prompts=false", "prompts"),
        ("/web/choices?zzz=1", "zzz"),
    ],
)
async def test_what_is_unknown_or_repeated_is_refused(
    served: Served, path: str, param: str
) -> None:
    answer = await served.client.get(path)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def test_what_is_known_is_taken(served: Served) -> None:
    compared = "/v1/compare?runs=a,b&despite=judge&despite=data"
    assert (await served.client.get(compared)).status_code == 404
    assert (await served.client.get("/v1/runs?state=done&limit=1")).status_code == 200
    # Scripts of the pages read what stands here.
    assert (await served.client.get("/compare?runs=a,b&zzz=1")).status_code == 200
