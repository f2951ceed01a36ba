"""Run and model files: overrides, secrets, and errors that name the field."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmconv.config import ModelSpec, RunSpec, override, read_spec, secret, validate
from mmconv.errors import ConfigError

RUN = {"benchmark": "convbench", "seats": {"candidate": "fake/echo"}}


def test_a_run_file_is_read_with_overrides_on_top(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("benchmark: convbench\nseats: {candidate: fake/echo}\nseed: 3\n")
    spec = read_spec(file, RunSpec, ["seed=4", "options.grading=[direct]"])
    assert (spec.seed, spec.options, spec.seats["candidate"].model) == (
        4,
        {"grading": ["direct"]},
        "echo",
    )


def test_overriding_leaves_the_original_alone() -> None:
    document = {"a": {"b": 1}}
    assert override(document, ["a.b=2", "c.d=x"]) == {"a": {"b": 2}, "c": {"d": "x"}}
    assert document == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("nonsense", "expected field.field=value"),
        ("benchmark.x=1", "'benchmark' is a value"),
        ("seed=[1", "not YAML"),
    ],
)
def test_a_bad_override_is_told(item: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        override(RUN, [item])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"trails": 2}, "trails is no field here; did you mean trials?"),
        ({"benchmark": None}, "benchmark: "),
        ({"limit": 0}, "limit: "),
        ({"sampling": {"judge": {}}}, "the seat 'judge', which no model sits on"),
        ({"sampling": {"candidate": {"top_p": 2}}}, r"sampling\.candidate\.top_p"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(RunSpec, {**RUN, **fields}, "run.yaml")


def test_what_is_needed_is_named() -> None:
    with pytest.raises(ConfigError, match="seats is needed and not set"):
        validate(RunSpec, {"benchmark": "convbench"}, "run.yaml")


def test_a_secret_is_read_by_its_variable_and_missed_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MMCONV_TEST_KEY", "s3cret")
    assert secret("MMCONV_TEST_KEY") == "s3cret"
    monkeypatch.delenv("MMCONV_TEST_KEY")
    assert secret(None) is None
    with pytest.raises(ConfigError, match="MMCONV_TEST_KEY is not set"):
        secret("MMCONV_TEST_KEY")


@pytest.mark.parametrize(
    ("spec", "label"),
    [
        (ModelSpec(provider="hf", model="/ckpts/llava/"), "llava"),
        (ModelSpec(provider="openai", model="org/name"), "name"),
        (ModelSpec(provider="openai", model="x", name="mine"), "mine"),
    ],
)
def test_a_model_is_labelled_by_its_name_or_the_end_of_its_path(
    spec: ModelSpec, label: str
) -> None:
    assert spec.label == label
