"""The lists of what runs and judgements are made of, held against what is accepted."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from mmconv.benchmarks.options import describe
from mmconv.benchmarks.registry import CLASSES, TITLES, find_class
from mmconv.service.run_requests import open_options
from tests.mmconv.service.conftest import Serve


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
    assert [each["benchmark"]["id"] for each in listed] == [*CLASSES]
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
