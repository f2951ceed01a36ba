"""Where the operator allows fewer tokens than our defaults are: only what is asked is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from mmconv.service.run_requests import resolve
from tests.mmconv.benchmarks.requests import REQUESTS
from tests.mmconv.service.conftest import Serve
from tests.mmconv.service.test_run_requests import asked, settings

FEW: dict[str, Any] = {"max_tokens": 512}

SAID = {"model": "echo", "turns": [{"instruction": "Hello"}]}
JUDGED = {"judge": "judge"} | REQUESTS["convbench/direct_turn_1"]


@pytest.mark.parametrize(
    ("path", "body", "change", "param"),
    [
        ("dialogues", SAID, {"sampling": {"max_tokens": 513}}, "sampling.max_tokens"),
        ("dialogues", SAID, {"judge_max_tokens": 513}, "judge_max_tokens"),
        ("judgements", JUDGED, {"max_tokens": 513}, "max_tokens"),
    ],
)
async def test_only_what_a_client_asks_for_is_bounded(
    serve: Serve, path: str, body: dict[str, Any], change: dict[str, Any], param: str
) -> None:
    served = await serve(sizes=FEW)
    answer = await served.client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    refused = await served.client.post(f"/v1/{path}", json={**body, **change})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


def test_a_runs_sampling_that_names_no_tokens_is_taken() -> None:
    spec = resolve(settings(sizes=FEW), asked(sampling={"candidate": {"temperature": 0.5}}))
    assert spec.sampling["candidate"].temperature == 0.5


@pytest.mark.parametrize(("path", "body"), [("dialogues", SAID), ("chat/completions", None)])
async def test_temperatures_have_one_bound(
    serve: Serve, path: str, body: dict[str, Any] | None
) -> None:
    served = await serve()
    for hot, status in ((2.0, 200), (2.5, 400)):
        asked = (
            {"model": "echo", "messages": [{"role": "user", "content": "Hi"}], "temperature": hot}
            if body is None
            else {**body, "sampling": {"temperature": hot}}
        )
        assert (await served.client.post(f"/v1/{path}", json=asked)).status_code == status
