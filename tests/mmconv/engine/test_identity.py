"""What makes two runs the same: results decide, not how a run is carried out or typed."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from images import ImageStore
from mmconv.core.config import ModelSpec, PriceSpec, RunSpec, SamplingSpec
from mmconv.core.errors import ConfigError
from mmconv.engine.identity import OPERATIONAL, identify
from mmconv.engine.setup import build_benchmark, build_model, build_models, find_benchmark
from mmconv.run_folder.layout import Shard

MODEL = ModelSpec(provider="openai", model="m", base_url="http://h/v1", options={"identity": "m"})
OPERATED: dict[str, Any] = {
    "api_key_env": "MY_KEY",
    "price": PriceSpec(input=1, output=2),
    "max_concurrency": 2,
    "timeout": 30.0,
    "attempts": 99,
    "wait_for_server": 60.0,
    "replicas": 8,
    "gpus": 0.5,
    "batch": True,
    "detached": True,
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.jsonl").write_text('{"id": "1", "riddle": "What has keys?"}\n')
    return tmp_path


def run(candidate: ModelSpec = MODEL, data: str = "data.jsonl", **fields: Any) -> RunSpec:
    return RunSpec(
        benchmark="tests.example_benchmark:Riddles",
        options={"data": data},
        models={"candidate": candidate, "judge": ModelSpec(provider="fake", model="judge")},
        **fields,
    )


def identified(spec: RunSpec, shard: Shard | None = None) -> str:
    library = ImageStore()
    roles = build_models(spec, partial(build_model, images=library)).items()
    fingerprints = {name: role.model.fingerprint for name, role in roles}
    return identify(spec, build_benchmark(spec, library), fingerprints, shard or Shard())


def test_how_a_model_is_asked_makes_no_other_run() -> None:
    assert OPERATED.keys() == OPERATIONAL
    for field, value in OPERATED.items():
        assert identified(run(MODEL.model_copy(update={field: value}))) == identified(run()), field


def test_a_server_that_options_identity_names_may_move() -> None:
    moved = MODEL.model_copy(update={"base_url": "http://elsewhere/v1"})
    assert identified(run(moved)) == identified(run())
    moved, unnamed = (each.model_copy(update={"options": {}}) for each in (moved, MODEL))
    assert identified(run(moved)) != identified(run(unnamed))


@pytest.mark.parametrize(
    "update",
    [
        {"model": "n", "name": "m", "options": {}},
        {"name": "n"},
        {"system": "Be brief."},
        {"sampling": SamplingSpec(seed=1)},
        {"options": {"identity": "m", "max_side": 9}},
    ],
)
def test_what_changes_replies_or_tables_makes_another_run(update: dict[str, Any]) -> None:
    assert identified(run(MODEL.model_copy(update=update))) != identified(run())


@pytest.mark.parametrize(
    "fields",
    [
        {"seed": 1},
        {"trials": 2},
        {"limit": 1},
        {"samples": ("1",)},
        {"sampling": {"judge": {"seed": 1}}},
    ],
)
def test_so_does_every_setting_of_the_run(fields: dict[str, Any]) -> None:
    assert identified(run(**fields)) != identified(run())


def test_chosen_samples_are_the_same_however_they_are_named(here: Path) -> None:
    (here / "data.jsonl").write_text('{"id": 1, "riddle": "?"}\n{"id": "a", "riddle": "!"}\n')
    assert identified(run(samples=("a", "1", "a"))) == identified(run(samples=(1, "a")))
    limited, drawn, other = run(limit=1), run(limit=1, shuffle=0), run(limit=1, shuffle=1)
    assert len({identified(each) for each in (limited, drawn, other)}) == 3


def test_runs_that_choose_none_have_the_names_that_they_had() -> None:
    benchmark = build_benchmark(run(), ImageStore())
    name = identify(run(), benchmark, {"candidate": "c", "judge": "j"}, Shard())
    assert name == "riddles-m-17564694"


def test_files_are_what_lies_there_however_that_is_typed(here: Path) -> None:
    (here / "link.jsonl").symlink_to(here / "data.jsonl")
    for typed in (str(here / "data.jsonl"), "./data.jsonl", "link.jsonl"):
        assert identified(run(data=typed)) == identified(run()), typed
    (here / "other.jsonl").write_bytes((here / "data.jsonl").read_bytes())
    assert identified(run(data="other.jsonl")) != identified(run())


def test_a_folder_of_data_and_runs_may_move(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = identified(run())
    moved = here / "moved"
    moved.mkdir()
    (moved / "data.jsonl").write_bytes((here / "data.jsonl").read_bytes())
    monkeypatch.chdir(moved)
    assert identified(run()) == inside
    assert identified(run(data="../data.jsonl")) != inside
    assert identified(run(data="../data.jsonl")) == identified(run(data=str(here / "data.jsonl")))


def test_so_are_lists_of_files_mappings_to_them_and_prompts(here: Path) -> None:
    def named(benchmark: str, root: Path, options: dict[str, Any]) -> str:
        spec = RunSpec(
            benchmark=benchmark,
            options=options,
            prompts=root / "prompts",
            models={"candidate": MODEL},
        )
        return identify(spec, find_benchmark(benchmark)(spec), {"candidate": "f"}, Shard())

    def botchat(root: Path) -> str:
        return named("botchat", root, {"data": f"{root}/b", "opponents": [f"{root}/a"]})

    def cmteval(root: Path) -> str:
        return named("cmteval", root, {"data": {"hard": f"{root}/b"}})

    for name in (botchat, cmteval):
        assert name(Path()) == name(here) != name(here / "elsewhere")


def test_shards_are_told_apart() -> None:
    assert identified(run(), Shard.parse("3/16")) == f"{identified(run())}-3of16"
    for wrong in ("0/2", "3/2", "1"):
        with pytest.raises(ConfigError, match="expected i/n with i from 1 to n"):
            Shard.parse(wrong)
