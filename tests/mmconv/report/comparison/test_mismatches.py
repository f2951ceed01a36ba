"""What is told of runs whose settings differ, and which runs are left out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmconv.core.config import ModelSpec, RunSpec, SamplingSpec
from mmconv.report.comparison.differences import compare
from mmconv.report.comparison.runs import LONGEST, mismatches, open_runs, other_settings
from mmconv.run_folder.layout import Manifest
from mmconv.run_folder.saved_run import FinishedRun
from tests.mmconv.benchmarks.cmteval.dialogues import record, write
from tests.mmconv.report.runs import ALPHA, BETA, make_run

ECHO = ModelSpec(provider="fake", model="echo")


def run(
    label: str, candidate: ModelSpec = ECHO, *, fingerprint: str = "echo", **fields: Any
) -> FinishedRun:
    """A run of a candidate with these settings."""
    spec = RunSpec(models={"candidate": candidate}, **{"benchmark": "convbench", **fields})
    return FinishedRun(
        folder=Path(label),
        label=label,
        spec=spec,
        manifest=Manifest(
            run=label,
            benchmark=spec.benchmark,
            conditions=("free",),
            samples=1,
            seed=0,
            models={"candidate": fingerprint},
            provenance={},
            notes=(),
            mmconv="0",
            python="3",
            packages={},
        ),
        summary=None,
        tables=(),
    )


def told(*runs: FinishedRun) -> list[str]:
    return list(other_settings(*runs))


def options_told(benchmark: str) -> list[str]:
    """Which options are told of two runs in which every one is the label."""
    names = ("data", "images", "references", "subsets")
    runs = (run(each, benchmark=benchmark, options=dict.fromkeys(names, each)) for each in "ab")
    return [each.split()[1] for each in told(*runs)]


def test_where_files_lie_is_no_setting() -> None:
    assert options_told("cmteval") == ["images:", "subsets:"]


def test_a_benchmark_of_ones_own_has_files_as_file_benchmarks_do() -> None:
    assert options_told("mine.doubts:Doubts") == ["references:", "subsets:"]


def model(**fields: Any) -> ModelSpec:
    return ModelSpec.model_validate({"provider": "fake", "model": "echo", **fields})


def sampling(**fields: Any) -> Mapping[str, Any]:
    return {"sampling": {"candidate": fields}}


def test_settings_in_a_model_s_file_are_told() -> None:
    poet = model(
        system="Be a poet.",
        sampling={"max_tokens": 24, "temperature": 1.3},
        options={"quantization": "4bit"},
    )
    assert told(run("plain", model(sampling={"max_tokens": 24})), run("poet", poet)) == [
        "models.candidate.system: not set in plain; Be a poet. in poet.",
        "models.candidate.options.quantization: not set in plain; 4bit in poet.",
        "sampling.candidate.temperature: the benchmark's own in plain; 1.3 in poet.",
    ]


def test_sampling_is_that_in_force_wherever_it_was_set() -> None:
    in_file = model(sampling={"max_tokens": 24, "temperature": 0.5})
    here, there = run("here", in_file), run("there", **sampling(max_tokens=24, temperature=0.5))
    assert told(here, there) == []
    hotter = run("hotter", in_file, **sampling(temperature=1.3))
    assert told(here, hotter) == [
        "sampling.candidate.temperature: 0.5 in here; 1.3 in hotter.",
    ]
    free = run("free", in_file, sampling={"candidate": SamplingSpec(temperature=None)})
    assert told(free, run("bare", model(sampling={"max_tokens": 24}))) == [
        "sampling.candidate.temperature: left to the server in free; the benchmark's own in bare."
    ]


def test_what_names_a_candidate_and_what_cannot_change_its_replies_are_not_told() -> None:
    other = model(
        model="scripted",
        name="other",
        attempts=3,
        price={"input": 1, "output": 2},
        options={"headers": {"X-Project": "b"}},
    )
    assert told(run("a", fingerprint="a"), run("b", other, fingerprint="b")) == []


def test_other_files_behind_the_same_settings_are_told() -> None:
    assert told(run("a", fingerprint="a"), run("b", fingerprint="b")) == [
        "candidate: the settings are the same, but the files or the backend differ."
    ]
    served = [run(port, model(base_url=f"http://localhost:{port}/v1")) for port in ("1", "2")]
    assert told(*served) == [
        "models.candidate.base_url: http://localhost:1/v1 in 1; http://localhost:2/v1 in 2."
    ]
    same = [
        run(port, model(base_url=f"http://localhost:{port}/v1", options={"identity": "m"}))
        for port in ("1", "2")
    ]
    assert told(*same) == []


def test_a_long_setting_is_shortened() -> None:
    [line] = told(run("a"), run("b", model(system="Be brief.\n" * 40)))
    assert line.startswith("models.candidate.system: not set in a; Be brief. Be brief. ")
    assert line.endswith(" ... in b.")
    assert len(line) < LONGEST + 60


def test_of_many_runs_each_value_is_told_once_and_that_of_most_at_last() -> None:
    runs = [run("a"), run("b", limit=8), run("c"), run("d", limit=8), run("e", limit=20)]
    assert told(*runs) == ["limit: 20 in e; not set in a and c; 8 in b and d."]
    more = [run(f"r{number}") for number in range(4)]
    assert told(*runs, *more) == ["limit: 20 in e; 8 in b and d; not set in the other 6."]


async def test_runs_of_one_model_over_several_data_are_named_after_these(tmp_path: Path) -> None:
    """A file beside a whole folder, and runs of the same data, by their seeds or hashes."""
    whole = await make_run("cmteval", tmp_path)
    data = write(tmp_path / "perturbed.json", [record(str(number)) for number in range(5)])
    perturbed = await make_run("cmteval", tmp_path, options={"data": str(data)})
    first, second = open_runs([whole, perturbed])
    assert (first.label, second.label) == ("alpha (data)", "alpha (perturbed.json)")
    assert dict(mismatches(first, second))["data"].startswith("the data differ: ")
    again = await make_run("cmteval", tmp_path, options={"data": str(data)}, seed=1)
    labels = [each.label for each in open_runs([whole, perturbed, again])]
    assert labels == ["alpha (data)", "alpha (seed 0)", "alpha (seed 1)"]
    trials = await make_run("cmteval", tmp_path, options={"data": str(data)}, seed=1, trials=2)
    labels = [each.label for each in open_runs([perturbed, again, trials])]
    assert labels[0] == "alpha (seed 0)"
    assert labels[1:] == [f"alpha ({each.name.split('-')[-1]})" for each in (again, trials)]
    other = await make_run("cmteval", tmp_path, BETA, options={"data": str(data)})
    assert [each.label for each in open_runs([whole, other])] == ["alpha", "beta"]


async def test_files_of_the_same_role_are_told_by_their_paths(tmp_path: Path) -> None:
    runs: list[Path] = []
    for name, candidate in (("one.json", ALPHA), ("two.json", BETA)):
        data = write(tmp_path / name, [record(str(number)) for number in range(len(runs) + 1)])
        runs.append(await make_run("cmteval", tmp_path, candidate, options={"data": str(data)}))
    [(kind, told)] = mismatches(*open_runs(runs))
    assert kind == "data"
    assert told == (
        f"the data differ: {tmp_path / 'one.json'} in alpha, {tmp_path / 'two.json'} in beta"
    )


async def test_it_is_said_that_samples_are_counted_with_their_trials(tmp_path: Path) -> None:
    for trials in (1, 2):
        runs = [
            await make_run("fbbench", tmp_path, candidate, trials=trials, limit=2)
            for candidate in (ALPHA, BETA)
        ]
        table = compare(runs).tables[0]
        assert table.rows["alpha"]["common"].value == 2.0 * trials
        told = "A sample counts once for each of its trials."
        assert (told in table.notes) is (trials == 2)
