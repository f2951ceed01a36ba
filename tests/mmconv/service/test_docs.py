"""The documentation page, and the lists of what runs and judgements are made of."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from mmconv.benchmarks.options import describe
from mmconv.benchmarks.registry import CLASSES, TITLES, find_class
from mmconv.service.run_requests import open_options
from tests.mmconv.service.conftest import Serve, Served
from tests.mmconv.service.run_settings import drawn, ended


@pytest.fixture
async def document(served: Served) -> dict[str, Any]:
    return dict((await served.client.get("/openapi.json")).json())


async def test_the_page_loads_nothing_remote(served: Served) -> None:
    page = await served.client.get("/docs")
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(links) == 3
    for link in (*links, "/static/swagger-ui.css"):
        asset = await served.client.get(link)
        assert link.startswith("/static/")
        assert asset.status_code == 200
        assert not re.search(r"(@import|url\().{0,2}(https?:|//)", asset.text)
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self' 'sha256-")
    assert "http" not in policy
    assert "'unsafe-inline'" not in policy.partition("style-src-attr")[0]


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


async def test_headers_of_responses_are_documented(document: dict[str, Any]) -> None:
    for path, _, operation in operations(document):
        responses = operation["responses"]
        assert (
            responses["429"]["headers"].keys()
            == responses["503"]["headers"].keys()
            == {"Retry-After"}
        )
        assert responses["401"]["headers"].keys() == {"WWW-Authenticate"}
        if path in ("/v1/runs", "/v1/dialogues") and "202" in responses:
            assert "Location" in responses["202"]["headers"]
        if path.endswith("/report"):
            assert "ETag" in responses["200"]["headers"]


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
        assert operation["description"]
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), (method, path, parameter["name"])


async def test_examples_are_served(serve: Serve, tmp_path: Path, document: dict[str, Any]) -> None:
    served = await serve(data={"convbench": drawn(tmp_path)["shapes"]})
    sent, run = [], ""
    # a run is posted before it is annotated
    for path, method, operation in sorted(operations(document), key=lambda each: each[1] != "post"):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        for title, example in content.get("examples", {}).items():
            address = path.replace("{run}", run)
            answer = await served.client.request(method, address, json=example["value"])
            assert answer.status_code in (200, 202), (title, answer.text)
            sent.append(path)
            if path == "/v1/runs":
                run = (await ended(served.client, answer.json()["id"]))["id"]
    assert set(sent) == {
        "/v1/chat/completions",
        "/v1/dialogues",
        "/v1/dialogues:batch",
        "/v1/judgements",
        "/v1/responses",
        "/v1/runs",
        "/v1/runs/{run}",
        "/v1/runs/{run}/agreement",
    }


async def test_all_errors_have_the_one_shape(document: dict[str, Any]) -> None:
    for _, _, operation in operations(document):
        responses = operation["responses"]
        assert {"400", "401", "403", "408", "413", "429", "500", "503"} <= responses.keys()
        for status, response in responses.items():
            if status[0] in "45":
                schema = response["content"]["application/json"]["schema"]
                assert schema["$ref"].endswith("/ErrorBody")
    assert "HTTPValidationError" not in document["components"]["schemas"]


async def test_data_sets_are_listed_with_conditions_and_options(serve: Serve) -> None:
    options = {"data": "x.jsonl", "minimum": False}
    data = {name: {"benchmark": name, "options": {"data": "x"}} for name in TITLES}
    data["fixed"] = {"benchmark": "mtbench101", "options": options}
    data["foreign"] = {"benchmark": "somebody.riddles:Riddles", "options": {}}
    served = await serve(data=data)
    answer = await served.client.get("/v1/data")
    listed = {each["name"]: each for each in answer.json()["data"]}
    assert list(listed) == list(data)
    for name in TITLES:
        info = listed[name]
        assert {each["name"] for each in info["options"]} == open_options(name)
        assert info["conditions"]
        for option in info["options"]:
            assert option["about"], option["name"]
            field = describe(name).options.model_fields[option["name"]]
            kind: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
            assert kind.validate_python(option["default"]) == field.default
            assert option["takes"]
    assert list(listed["convbench"]["conditions"])[:2] == ["free", "perception"]
    assert {*listed["convbench"]["roles"]} == {"candidate", "judge"}
    assert "minimum" not in {each["name"] for each in listed["fixed"]["options"]}
    assert (listed["foreign"]["conditions"], listed["foreign"]["options"]) == ({}, [])
    assert "x.jsonl" not in answer.text


async def test_what_can_be_judged_is_listed(serve: Serve) -> None:
    served = await serve()
    listed = (await served.client.get("/v1/prompts")).json()["data"]
    judged = [name for name in CLASSES if name != "scenes"]
    assert [each["benchmark"]["id"] for each in listed] == judged
    for each in listed:
        kind = find_class(each["benchmark"]["id"])
        fields = kind.sample_type.model_fields.items()
        assert [*each["sample"]["properties"]] == [
            field.validation_alias or name for name, field in fields
        ]
        assert [*each["conditions"]] == [*kind.conditions]
        names = {option["name"] for option in each["options"]}
        assert names < open_options(each["benchmark"]["id"])
        assert "judge_retries" in names
        assert "skip_bad_records" not in names
        assert each["prompts"]
