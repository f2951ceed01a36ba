"""What a request may set, whatever the benchmark: no file, and what its options model knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mmconv.benchmarks.registry import TITLES
from mmconv.service.errors import Problem
from mmconv.service.run_requests import RunRequest, name_run, open_options, resolve
from mmconv.service.settings import Settings

FILES = {"data", "images", "annotations", "positions", "opponents", "references"}


def settings(**fields: Any) -> Settings:
    data = {"set": {"benchmark": "mtbench101", "options": {"data": "x.jsonl"}}}
    models = {"a": {"provider": "fake", "model": "echo"}}
    return Settings.model_validate({"models": models, "data": data} | fields)


def asked(**fields: Any) -> RunRequest:
    return RunRequest.model_validate({"data": "set", "models": {"candidate": "a"}} | fields)


@pytest.mark.parametrize("benchmark", TITLES)
def test_options_that_name_files_are_the_operators(benchmark: str) -> None:
    allowed = open_options(benchmark)
    assert not allowed & FILES
    assert {"max_tokens", "generate_only", "skip_bad_records"} <= allowed


def test_a_benchmark_from_elsewhere_takes_no_options_from_clients() -> None:
    assert open_options("somebody.riddles:Riddles") == frozenset()


def test_what_the_operator_set_cannot_be_changed() -> None:
    options = {"data": "x.jsonl", "minimum": True}
    data = {"set": {"benchmark": "mtbench101", "options": options}}
    with pytest.raises(Problem, match="cannot be set here"):
        resolve(settings(data=data), asked(options={"minimum": False}))
    assert resolve(settings(data=data), asked()).options == options


def test_no_conditions_are_not_all_of_them() -> None:
    with pytest.raises(Problem, match="name at least 1, or leave it out"):
        resolve(settings(), asked(conditions=[]))


def test_models_may_go_by_their_former_name() -> None:
    models = {"candidate": "mock"}
    request = RunRequest.model_validate({"data": "shapes", "seats": models})
    assert request == RunRequest(data="shapes", models=models)


def test_a_model_is_called_by_its_public_name() -> None:
    secret = {"provider": "hf", "model": "/srv/checkpoints/internal-7b"}
    spec = resolve(settings(models={"a": secret}), asked())
    assert spec.models["candidate"].label == "a"


def test_an_id_stands_for_all_that_a_run_depends_on(tmp_path: Path) -> None:
    def named(configured: Settings, request: RunRequest) -> str:
        return name_run(request, resolve(configured, request))

    (tmp_path / "mtbench101").mkdir()
    first = named(settings(), asked())
    assert first == named(settings(), asked(trials=1, options={}))
    assert first.startswith("set-a-")
    others = {
        named(settings(), asked(seed=1)),
        named(settings(), asked(options={"minimum": False})),
        named(settings(prompts=tmp_path), asked()),
        named(settings(models={"a": {"provider": "fake", "model": "judge"}}), asked()),
    }
    assert len({first, *others}) == 5
    patient = {"provider": "fake", "model": "echo", "attempts": 99, "max_concurrency": 1}
    assert first == named(settings(models={"a": patient}), asked())


def test_a_judge_who_is_asked_nothing_is_no_part_of_a_run() -> None:
    alone = resolve(settings(), asked(options={"generate_only": True}))
    roles = {"candidate": "a", "judge": "a"}
    sampling = {"judge": {"max_tokens": 9}}
    judged = asked(models=roles, sampling=sampling, options={"generate_only": True})
    assert resolve(settings(), judged) == alone


def test_a_role_that_the_benchmark_has_not_is_named() -> None:
    roles = {"candidate": "a", "foo": "a"}
    with pytest.raises(Problem, match="mtbench101 has no role 'foo'; there are: candidate, judge"):
        resolve(settings(), asked(models=roles))
    data = {"set": {"benchmark": "botchat", "options": {"data": "x.jsonl"}}}
    assert set(resolve(settings(data=data), asked(models=roles)).models) == {"candidate", "foo"}
