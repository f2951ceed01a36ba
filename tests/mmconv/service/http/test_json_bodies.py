from __future__ import annotations

import orjson
import pytest

from mmconv.service.errors.problems import Problem
from mmconv.service.http.json_bodies import DEEPEST, read_json


def test_json_is_bounded_by_values_and_depth() -> None:
    deep = b"[" * DEEPEST + b"]" * DEEPEST
    assert read_json(b'{"a": [1, 2]}', 4) == {"a": [1, 2]}
    assert read_json(b"[" * (DEEPEST - 1) + b"]" * (DEEPEST - 1), 1000)
    with pytest.raises(Problem, match="more than 3 values"):
        read_json(b'{"a": [1, 2, 3]}', 3)
    with pytest.raises(Problem, match="nested"):
        read_json(b"[" + deep + b"," + deep + b"]", 1000)


@pytest.mark.parametrize(
    "text", ["a, b" * 50, '"quoted, ", ' * 20, "\\\\, " * 20, "[{,}]" * 20, "\n,"]
)
def test_signs_in_texts_separate_no_values(text: str) -> None:
    body = orjson.dumps({"a": text, "b": [1, text]})
    assert read_json(body, 5) == {"a": text, "b": [1, text]}
    with pytest.raises(Problem, match="more than 3 values"):
        read_json(body, 3)


@pytest.mark.parametrize("body", [b'"' * 100_000, b'"\\' * 100_000, b'["' + b"," * 100_000])
def test_texts_without_an_end_take_no_time(body: bytes) -> None:
    with pytest.raises((Problem, orjson.JSONDecodeError)):
        read_json(body, 10)


@pytest.mark.parametrize(
    "body",
    [
        b'{"data": "scenes", "data": "other"}',
        b'{"turns": [{"a": "x: y", "data": 1}, {"data": {}, "b": "::", "d\\u0061ta" : 2}]}',
        b'{"data": {"deep": [{"data": 1}]}, "data": {"data": 1}}',
        b'{"data": 1, "data": 2, "a": "\\u003a"}',
        b'{"data": 1, "data": 2, "a": "\\u003A"}',
    ],
)
def test_a_field_that_stands_twice_is_named(body: bytes) -> None:
    with pytest.raises(Problem, match="data: stands twice in one object") as caught:
        read_json(body, 100)
    assert (caught.value.status, caught.value.param) == (400, "data")


def test_equal_fields_of_several_objects_stand_once_in_each() -> None:
    body = b'{"data": [{"data": ":"}, {"data": "\\u003a\\"data\\":"}], "time": "1:2"}'
    assert read_json(body, 100)["time"] == "1:2"


def test_what_is_dropped_may_not_be_deep_either() -> None:
    deep = b"[" * 1000 + b"]" * 1000
    with pytest.raises(Problem, match="levels deep"):
        read_json(b'{"data": ' + deep + b', "data": 1}', 5000)
