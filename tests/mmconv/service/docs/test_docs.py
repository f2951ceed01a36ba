from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from mmconv.service.docs.openapi import PARAMETERS
from mmconv.service.docs.schema_words import bounds_of, kind_of
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.run_settings import drawn


@pytest.fixture
async def document(served: Served) -> dict[str, Any]:
    return dict((await served.client.get("/openapi.json")).json())


async def page_of(served: Served) -> str:
    return (await served.client.get("/docs")).text


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


async def test_every_operation_is_on_the_page(served: Served, document: dict[str, Any]) -> None:
    page = await page_of(served)
    for path, method, operation in operations(document):
        assert f'<span class="method">{method.upper()}</span> <code>{path}</code>' in page
        assert operation["description"]


async def test_the_page_loads_nothing_and_runs_nothing(served: Served) -> None:
    answer = await served.client.get("/docs")
    assert not re.search(r"<script|<link|<img|@import|url\(|https?://", answer.text)
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


async def test_every_link_leads_somewhere_and_every_name_has_one(
    served: Served, document: dict[str, Any]
) -> None:
    page = await page_of(served)
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(set(ids)) == len(ids)
    links = set(re.findall(r'href="#([^"]+)"', page))
    assert links <= set(ids)
    assert document["components"]["schemas"].keys() <= links
    assert len([each for each in ids if each.startswith(("get-", "post-", "delete-"))]) == len(
        operations(document)
    )


async def test_what_parameters_mean_is_told_of_none_that_is_not_there(
    document: dict[str, Any],
) -> None:
    there = {
        parameter["name"]
        for _, _, operation in operations(document)
        for parameter in operation.get("parameters", ())
    }
    assert PARAMETERS.keys() <= there


async def test_no_backtick_is_left_outside_examples(served: Served) -> None:
    page = await page_of(served)
    assert "`" not in re.sub(r"<pre>.*?</pre>", "", page, flags=re.DOTALL)


async def test_headers_of_answers_are_told(served: Served, document: dict[str, Any]) -> None:
    for path, _, operation in operations(document):
        told = operation["responses"]
        assert told["429"]["headers"].keys() == told["503"]["headers"].keys() == {"Retry-After"}
        assert told["401"]["headers"].keys() == {"WWW-Authenticate"}
        if path in ("/v1/runs", "/v1/dialogues") and "202" in told:
            assert "Location" in told["202"]["headers"]
        if path.endswith("/report"):
            assert "ETag" in told["200"]["headers"]
    page = await page_of(served)
    assert "429 (with Retry-After)" in page
    assert "Header <code>Location</code>" in page


async def test_the_document_says_where_a_token_must_be_sent(serve: Serve) -> None:
    token = {"name": "t", "sha256": "0" * 64, "scopes": ["read"]}
    needed: list[dict[str, Any]] = [{"token": []}]
    for fields, security in (({"tokens": [token]}, needed), ({}, [*needed, {}])):
        served = await serve(**fields)
        document = (await served.client.get("/openapi.json")).json()
        assert document["security"] == security
        assert "security" not in document["paths"]["/v1/runs"]["get"]
        assert document["paths"]["/health"]["get"]["security"] == []


async def test_every_parameter_says_what_it_means(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), (method, path, parameter["name"])


async def test_the_words_of_the_benchmarks_are_explained(served: Served) -> None:
    page = unescape(re.sub(r"</?code>", "", await page_of(served)))
    for words in (
        "追问 (Follow-up)",
        "GR general reasoning",
        "1 if neither is, -1 if both are",
    ):
        assert words in page


async def test_every_example_is_served(
    serve: Serve, tmp_path: Path, document: dict[str, Any]
) -> None:
    served = await serve(data={"convbench": drawn(tmp_path)["shapes"]})
    sent = []
    for path, _, operation in operations(document):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        for title, example in content.get("examples", {}).items():
            answer = await served.client.post(path, json=example["value"])
            assert answer.status_code in (200, 202), (title, answer.text)
            sent.append(path)
    assert set(sent) == {
        "/v1/chat/completions",
        "/v1/dialogues",
        "/v1/judgements",
        "/v1/runs",
    }


@pytest.mark.parametrize(
    ("schema", "words", "bounds"),
    [
        ({"type": "array", "items": {"type": "integer"}, "minItems": 1}, "list of integer", "not"),
        (
            {"type": "array", "prefixItems": [{"$ref": "#/x/T"}] * 3, "maxItems": 3, "minItems": 3},
            'list of exactly 3 <a href="#T"><code>T</code></a>',
            "",
        ),
        ({"type": "array", "items": {}, "maxItems": 0}, "empty list", ""),
        (
            {"anyOf": [{"type": "number", "minimum": 0, "maximum": 2}, {"type": "null"}]},
            "number or null",
            "at least 0, at most 2",
        ),
        (
            {"enum": ["a", "<b>"]},
            "<code>&#34;a&#34;</code> or <code>&#34;&lt;b&gt;&#34;</code>",
            "",
        ),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "by name", ""),
        ({"type": "string", "pattern": "^a$", "default": "a"}, "text", "of the form <code>^a$</co"),
        ({}, "anything", ""),
    ],
)
def test_a_schema_is_told_in_words(schema: dict[str, Any], words: str, bounds: str) -> None:
    assert words in kind_of(schema)
    assert bounds in bounds_of(schema)
    assert bool(bounds) == bool(bounds_of(schema))


async def test_all_errors_have_the_one_shape(document: dict[str, Any]) -> None:
    for _, _, operation in operations(document):
        responses = operation["responses"]
        assert {"400", "401", "403", "408", "413", "429", "500"} <= responses.keys()
        for status, response in responses.items():
            if status[0] in "45":
                schema = response["content"]["application/json"]["schema"]
                assert schema["$ref"].endswith("/ErrorBody")
    assert "HTTPValidationError" not in document["components"]["schemas"]


async def test_a_small_image_is_a_webp(document: dict[str, Any]) -> None:
    answer = document["paths"]["/v1/images/{image}/thumbnail"]["get"]["responses"]["200"]
    assert answer["content"].keys() == {"image/webp"}


async def test_metrics_are_text(document: dict[str, Any]) -> None:
    answer = document["paths"]["/metrics"]["get"]["responses"]["200"]
    assert answer["content"] == {"text/plain": {"schema": {"type": "string"}}}
