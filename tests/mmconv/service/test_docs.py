from __future__ import annotations

import re
from typing import Any

import pytest

from tests.mmconv.service.conftest import Served


@pytest.fixture
async def document(served: Served) -> dict[str, Any]:
    return dict((await served.client.get("/openapi.json")).json())


async def test_every_operation_is_on_the_page(served: Served, document: dict[str, Any]) -> None:
    page = (await served.client.get("/docs")).text
    for path, operations in document["paths"].items():
        assert f"<code>{path}</code>" in page
        assert all(operation["description"] for operation in operations.values())


async def test_the_page_loads_nothing_and_runs_nothing(served: Served) -> None:
    answer = await served.client.get("/docs")
    assert not re.search(r"<script|<link|<img|@import|url\(|https?://", answer.text)
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


async def test_all_errors_have_the_one_shape(document: dict[str, Any]) -> None:
    for operations in document["paths"].values():
        for operation in operations.values():
            responses = operation["responses"]
            assert {"400", "401", "403", "408", "413", "429", "500"} <= responses.keys()
            for status, response in responses.items():
                if status[0] in "45":
                    schema = response["content"]["application/json"]["schema"]
                    assert schema["$ref"].endswith("/ErrorBody")
    assert "HTTPValidationError" not in document["components"]["schemas"]
