"""What runs may be made of and what judges may be asked: the lists, held against what is taken."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from mmconv.api.schemas import PromptInfo
from mmconv.benchmarks.registry import TITLES
from mmconv.benchmarks.shared.options import describe
from mmconv.service.catalogue import prompts
from mmconv.service.runs.requests import open_options
from tests.mmconv.benchmarks.shared.requests import KINDS, REQUESTS
from tests.mmconv.service.conftest import Serve

CASES = {f"{each.benchmark}/{each.prompt}": each for each in prompts()}

EXAMPLES = {f"{each['benchmark']}/{each['prompt']}": each for each in REQUESTS.values()}

OTHERS: dict[str, Any] = {
    name: value for document in REQUESTS.values() for name, value in document.items()
}
"""A value of every field that any judgement has."""


def faults(info: PromptInfo, document: dict[str, Any]) -> list[str]:
    """The fields that are wrong with a request by this prompt."""
    try:
        asked = KINDS[info.benchmark].model_validate(document)
    except ValidationError as error:
        return [str(each["loc"][0]) for each in error.errors()]
    return [field.partition("[")[0] for field, _ in asked.faults()]


def least(name: str) -> dict[str, Any]:
    """A request of the fields that are told to be needed, and no others."""
    info = CASES[name]
    kept = {"benchmark", "prompt", "judge", *info.needed}
    document = {"judge": "judge"} | EXAMPLES[name]
    return {field: value for field, value in document.items() if field in kept}


def test_every_prompt_is_listed() -> None:
    assert CASES.keys() == EXAMPLES.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_prompt_needs_what_is_told_and_takes_no_more(name: str) -> None:
    info = CASES[name]
    assert faults(info, least(name)) == []
    for field in info.needed:
        without = {key: value for key, value in least(name).items() if key != field}
        assert field in faults(info, without), field
    fields = KINDS[info.benchmark].model_fields
    for field in fields.keys() - {"benchmark", "prompt", "judge", *info.needed}:
        if field in OTHERS:
            details = faults(info, least(name) | {field: other(name, field)})
            assert (field not in details) == (field in info.optional), field


def other(name: str, field: str) -> Any:
    """A value of the field that is not its default, from another request of the benchmark."""
    benchmark = name.partition("/")[0]
    found = [
        each[field] for key, each in REQUESTS.items() if key.startswith(benchmark) and field in each
    ]
    return (found or [OTHERS[field]])[0]


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
    assert {*listed["convbench"]["seats"]} == {"candidate", "judge"}
    assert "minimum" not in {each["name"] for each in listed["fixed"]["options"]}
    assert (listed["foreign"]["conditions"], listed["foreign"]["options"]) == ({}, [])
    assert "x.jsonl" not in answer.text


async def test_prompts_are_listed(serve: Serve) -> None:
    served = await serve()
    listed = (await served.client.get("/v1/prompts")).json()["data"]
    shapes = (await served.client.get("/openapi.json")).json()["components"]["schemas"]
    assert len(listed) == len(CASES)
    for each in listed:
        assert {*each["needed"], *each["optional"]} <= shapes[each["shape"]]["properties"].keys()
