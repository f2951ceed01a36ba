"""Sweep files: which cells they have, and what is said about wrong ones."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from mmconv.cli.shared.options import read_spec
from mmconv.core.errors import ConfigError
from mmconv.engine.matrix import Cell, read_sweep

SCENES = {"benchmark": "convbench", "options": {"data": "scenes/data.jsonl"}}
SMALL: dict[str, Any] = {"models": ["pocket"], "benchmarks": [SCENES], "judge": "reference/chrf"}


def read(folder: Path, *overrides: str, **fields: Any) -> tuple[Cell, ...]:
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump({**SMALL, **fields}))
    return read_sweep(path, overrides)


def test_every_model_meets_every_benchmark_with_every_seed(tmp_path: Path) -> None:
    chat = {"benchmark": "mtbench101", "options": {"data": "dialogues.jsonl"}, "name": "chat"}
    cells = read(tmp_path, models=["pocket", "fake/echo"], benchmarks=[SCENES, chat], seeds=[3, 4])
    assert [cell.name for cell in cells] == [
        f"{benchmark}, {model}, seed {seed}"
        for benchmark in ("convbench", "chat")
        for model in ("pocket", "echo")
        for seed in (3, 4)
    ]
    assert {cell.spec.models["judge"].provider for cell in cells} == {"reference"}
    assert [cell.spec.seed for cell in cells] == [3, 4] * 4


def test_a_cell_is_the_run_that_is_typed(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("{provider: fake, model: echo}")
    [cell] = read(tmp_path, models=[str(own)], seeds=[5])
    options = {
        "candidate": str(own),
        "judge": "reference/chrf",
        "data": "scenes/data.jsonl",
        "seed": 5,
    }
    assert cell.spec == read_spec("convbench", options)
    assert cell.model == "own"


def test_patterns_name_files_and_shipped_models(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.yaml").write_text("{provider: fake, model: echo}")
    cells = read(tmp_path, models=["pocket*", "pocket", f"{tmp_path}/[ab].yaml"])
    assert [cell.model for cell in cells] == ["pocket", "pocket-blind", "pocket-confused", "a", "b"]


def test_a_run_file_is_a_benchmark_whose_candidate_is_replaced(tmp_path: Path) -> None:
    run = {**SCENES, "limit": 3, "models": {"candidate": "gpt-4o", "judge": "gpt-4.1"}}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(run))
    [cell] = read(tmp_path, benchmarks=[str(tmp_path / "small.yaml")])
    assert cell.name == "small, pocket"
    labels = {role: model.label for role, model in cell.spec.models.items()}
    assert labels == {"candidate": "pocket", "judge": "gpt-4.1"}


def test_overrides_reach_the_cells_that_they_match(tmp_path: Path) -> None:
    overrides = [
        {"models": "pocket*", "set": {"sampling.candidate.max_tokens": 99, "limit": 4}},
        {"models": ["pocket-blind", "x"], "seeds": [1], "set": {"limit": 5}},
    ]
    cells = read(
        tmp_path, "trials=2", models=["pocket*", "fake/echo"], seeds=[0, 1], overrides=overrides
    )
    limits = {(cell.model, cell.seed): cell.spec.limit for cell in cells}
    assert limits == {
        **{
            (name, seed): 4
            for name in ("pocket", "pocket-blind", "pocket-confused")
            for seed in (0, 1)
        },
        ("pocket-blind", 1): 5,
        ("echo", 0): None,
        ("echo", 1): None,
    }
    assert {cell.spec.trials for cell in cells} == {2}
    assert "candidate" not in cells[-1].spec.sampling


def test_a_run_without_a_seed_has_the_seed_0(tmp_path: Path) -> None:
    [cell] = read(tmp_path, overrides=[{"seeds": [0], "set": {"limit": 4}}])
    assert cell.spec.limit == 4


def test_a_judge_goes_where_there_is_something_to_judge(tmp_path: Path) -> None:
    silent = {**SCENES, "options": {**SCENES["options"], "generate_only": True}}  # type: ignore[dict-item]
    [cell] = read(tmp_path, benchmarks=[silent])
    assert set(cell.spec.models) == {"candidate"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model": ["pocket"]}, r"sweep.yaml: wrong configuration\n  model is not a field here"),
        ({"models": "pocket"}, r"models is a list: write \[pocket\]"),
        ({"models": ["pockets"]}, r"sweep.yaml: models.0: .*'pockets' is not a shipped model"),
        ({"models": ["none*"]}, r"models.0: 'none\*' matches no model"),
        ({"models": [{"provider": "fake"}]}, r"models.0: wrong .*\n.*model is needed and not set"),
        (
            {"models": ["pocket", {"provider": "fake", "model": "echo", "name": "pocket"}]},
            r"models.1: two models are called pocket; set `name` in one",
        ),
        ({"benchmarks": ["convbench"]}, r"benchmarks.0: 'convbench' is not a run file"),
        ({"benchmarks": [{"options": {}}]}, r"benchmarks.0: benchmark is needed and not set"),
        ({"benchmarks": [{"benchmark": "convbnech"}]}, r"benchmarks.0: .*'convbnech' is not known"),
        ({"benchmarks": [SCENES, SCENES]}, r"benchmarks.1: two benchmarks are called convbench"),
        ({"benchmarks": [{**SCENES, "limits": 1}]}, r"convbench with pocket: .*\n.*limits is not"),
        ({"overrides": [{"models": "x", "set": {"limit": 1}}]}, r"overrides.0 matches no cell"),
        (
            {"overrides": [{"set": {"limit": 2}}, {"set": {"limit.x": 1}}]},
            r"overrides.1.set: 'limit' is a value",
        ),
        ({"seeds": [1.5]}, r"seeds.0"),
    ],
)
def test_a_sweeps_bad_field_is_named(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, **fields)
