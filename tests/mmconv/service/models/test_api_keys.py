"""Models whose key the server lacks: marked where they are listed, refused where they are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mmconv.service.docs.examples import EXAMPLES
from mmconv.store.jobs import Filter
from tests.mmconv.service.conftest import MODELS, Serve
from tests.mmconv.service.run_settings import drawn, request

KEYLESS = {"provider": "openai", "model": "x", "api_key_env": "MMCONV_NO_SUCH_KEY"}
SAID = [{"role": "user", "content": "Hello"}]
TURNS = [{"instruction": "What is it?", "reference": "A kite."}]
REQUESTS: list[tuple[str, dict[str, Any], str]] = [
    ("chat/completions", {"model": "keyless", "messages": SAID}, "model"),
    ("dialogues", {"model": "keyless", "turns": TURNS}, "model"),
    ("dialogues", {"model": "echo", "judge": "keyless", "turns": TURNS}, "judge"),
    (
        "judgements",
        {**next(iter(EXAMPLES["POST /v1/judgements"].values())), "judge": "keyless"},
        "judge",
    ),
    (
        "runs",
        request(seats={"candidate": "keyless", "judge": "judge"}),
        "seats.candidate",
    ),
]


@pytest.mark.parametrize(("path", "body", "param"), REQUESTS)
@pytest.mark.parametrize("calls", [0, 100])
async def test_it_is_refused_by_name_and_nothing_is_queued(
    serve: Serve, tmp_path: Path, path: str, body: dict[str, Any], param: str, calls: int
) -> None:
    models = {**MODELS, "keyless": KEYLESS}
    served = await serve(models=models, data=drawn(tmp_path), synchronous_calls=calls)
    refused = await served.client.post(f"/v1/{path}", json=body)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (409, "model_unusable", param)
    assert "'keyless'" in error["message"]
    assert "MMCONV_NO_SUCH_KEY" not in refused.text
    assert await served.shared.queue.page(Filter()) == []


async def test_it_is_marked_in_the_list(serve: Serve) -> None:
    served = await serve(models={**MODELS, "keyless": KEYLESS})
    listed = (await served.client.get("/v1/models")).json()["data"]
    assert {card["id"]: card["usable"] for card in listed} == {
        **dict.fromkeys(MODELS, True),
        "keyless": False,
    }
    one = await served.client.get("/v1/models/keyless")
    assert one.json()["usable"] is False
