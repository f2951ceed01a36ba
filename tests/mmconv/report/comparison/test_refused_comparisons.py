"""What runs cannot be compared, what is told of their settings, and which runs are left out."""

from collections.abc import Mapping
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import orjson
import pytest

from mmconv.benchmarks.options import describe
from mmconv.core.config import ModelSpec, RunSpec, SamplingSpec
from mmconv.core.errors import ConfigError, DataError
from mmconv.report.comparison.differences import compare
from mmconv.report.comparison.leaderboard import make_leaderboard
from mmconv.report.comparison.runs import mismatches, open_runs, other_settings
from mmconv.run_folder.layout import Manifest
from mmconv.run_folder.saved_run import FinishedRun, read_scores
from tests.mmconv.benchmarks.cmteval.dialogues import record, write
from tests.mmconv.report.runs import BETA, JUDGE, Pair, make_run
from tests.pictures import picture


def change(path: Path, fields: Mapping[str, object]) -> None:
    """Set fields of a JSON file, named by their path in it."""
    document = orjson.loads(path.read_bytes())
    for place, value in fields.items():
        *outer, last = place.split("/")
        reduce(getitem, outer, document)[last] = value
    path.write_bytes(orjson.dumps(document))


def refusal(*runs: Path, **options: Any) -> str:
    with pytest.raises(ConfigError) as error:
        compare(runs, **options)
    return str(error.value)


def repaint(folder: Path) -> None:
    """Put another picture into every file."""
    for number, place in enumerate(folder.iterdir(), start=1000):
        place.write_bytes(picture(number))


async def test_other_data_judges_and_prompts_are_refused_unless_the_user_says_so(
    tmp_path: Path, copies: tuple[Path, Path]
) -> None:
    first, _ = copies
    second = await make_run("convbench", tmp_path, BETA, JUDGE.model_copy(update={"name": "b"}))
    # a judge of another name is the same judge
    compare([first, second])

    other = {
        "provenance/data/data.jsonl": "0" * 64,
        "provenance/prompts/direct_turn_1": "0" * 64,
        "provenance/code": {"mine.py": "0" * 64},
        "models/judge": "0" * 64,
    }
    change(second / "manifest.json", other)
    message = refusal(first, second)
    for word in ("data differ", "judge differs: arbiter in alpha, b in beta", "direct_turn_1"):
        assert word in message
    given = " ".join(f"--allow-mismatch {kind}" for kind in ("data", "judge", "prompts", "code"))
    assert given in message
    assert "prompts differ" in refusal(first, second, despite=("data", "judge"))
    message = refusal(first, second, despite=("data", "judge", "prompts"))
    assert "code of the benchmark differs between alpha and beta" in message
    for table in compare([first, second], despite=("data", "judge", "prompts", "code")).tables:
        assert sum(note.startswith("WARNING: ") for note in table.notes) == 4


JUDGING: dict[str, dict[str, Any]] = {
    "convbench": {"order": "random", "side_seed": 1, "failure_rating": 8},
    "botchat": {"dup_detect": {"threshold": 0.5}},
    "cmteval": {"judge_settings": "code"},
    "fbbench": {"maintenance": "all"},
    "dialogue": {"order": "A"},
    "mtbench101": {"guidelines": False},
}
"""Options of each benchmark with a judge that change how the same answers are judged."""


@pytest.fixture
def first(benchmark: str, pair: Pair) -> Path:
    return pair(benchmark)[0]


@pytest.mark.parametrize("benchmark", sorted(JUDGING.keys() - {"dialogue"}))
async def test_runs_judged_otherwise_differ(benchmark: str, first: Path, tmp_path: Path) -> None:
    description = describe(benchmark)
    judging = JUDGING[benchmark]
    assert judging.keys() <= description.judging <= description.options.model_fields.keys()
    second = await make_run(benchmark, tmp_path, BETA, options=judging)
    message = refusal(first, second)
    assert "judging options differ between alpha and beta" in message
    assert message.count("options.") == len(judging)
    with pytest.raises(ConfigError, match="--allow-mismatch judge compares"):
        make_leaderboard([first, second])
    made = compare([first, second], despite=["judge"])
    # said once, before the numbers
    assert len(made.warnings) == 1
    assert not any(note.startswith("option ") for note in made.tables[0].notes)
    # what is set to its default is what it is without being set
    same = description.options.model_construct().model_dump(mode="json", include={*judging})
    compare([first, await make_run(benchmark, tmp_path, BETA, options=same)])


async def test_runs_of_other_seeds_are_judged_on_the_same_sides(tmp_path: Path) -> None:
    order = {"order": "random"}
    runs = [await make_run("convbench", tmp_path, seed=seed, options=order) for seed in (0, 1)]
    sides = [
        {
            each.sample: each.tags["side"]
            for each in read_scores(run / "scores.jsonl")
            if each.metric == "win"
        }
        for run in runs
    ]
    assert sides[0] == sides[1]
    assert {*sides[0].values()} == {"A", "B"}
    drawn = await make_run("convbench", tmp_path, BETA, options={**order, "side_seed": 1})
    assert "options.side_seed is 0 and 1" in refusal(runs[0], drawn)


async def test_runs_of_other_trials_are_refused(tmp_path: Path, copies: tuple[Path, Path]) -> None:
    first, _ = copies
    second = await make_run("convbench", tmp_path, BETA, trials=2)
    for make in (compare, make_leaderboard):
        with pytest.raises(
            ConfigError, match="trials of each sample differ: 1 in alpha, 2 in beta"
        ):
            make([first, second])
    assert compare([first, second], despite=["data"]).warnings


def test_only_what_a_run_overrides_tells_its_judge_from_another(copies: tuple[Path, Path]) -> None:
    """Both judges have a limit; one also has a temperature, which happens to be the default."""
    first, second = copies

    for run in (first, second):
        change(run / "spec.json", {"spec/sampling/judge": {"max_tokens": 4096}})
    compare([first, second])
    change(second / "spec.json", {"spec/sampling/judge/temperature": 0.0})
    message = refusal(first, second)
    assert "; sampling.judge.temperature is the benchmark's own and 0.0" in message
    assert "max_tokens" not in message


def test_a_judge_is_the_same_wherever_its_sampling_is_set(copies: tuple[Path, Path]) -> None:
    in_its_file: dict[str, object] = {
        "spec/models/judge/sampling": {"max_tokens": 4096, "temperature": 0.5},
        "spec/sampling/judge": {"temperature": None},
    }
    in_the_run: dict[str, object] = {
        "spec/sampling/judge": {"max_tokens": 4096, "temperature": None}
    }
    for run, fields in zip(copies, (in_its_file, in_the_run), strict=True):
        change(run / "spec.json", fields)
    compare(copies)


def test_the_settings_in_which_a_judge_differs_are_named(copies: tuple[Path, Path]) -> None:
    _, second = copies
    change(second / "manifest.json", {"models/judge": "0" * 64})
    start = "the judge differs: arbiter in alpha, arbiter in beta; "
    message = refusal(*copies)
    assert f"{start}their settings are the same, but the files or the backend" in message
    change(second / "spec.json", {"spec/models/judge/base_url": "http://localhost:8933/v1"})
    address = f"{start}base_url is not set and http://localhost:8933/v1"
    message = refusal(*copies)
    assert f"{address}. If the same server has moved: " in message
    assert "options.identity" in message
    change(second / "spec.json", {"spec/sampling/judge": {"temperature": 0.7}})
    message = refusal(*copies)
    assert f"{address}, sampling.judge.temperature is the benchmark's own and 0.7" in message
    assert "options.identity" not in message


async def test_a_judge_that_was_answered_by_another_model_is_refused(tmp_path: Path) -> None:
    first = await make_run("fbbench", tmp_path)
    second = await make_run("fbbench", tmp_path, BETA)

    def answered_by(folder: Path, *names: str) -> None:
        counts = {"judge": dict.fromkeys(names, 3)}
        change(folder / "manifest.json", {"answered_by": counts})

    answered_by(first, "j-2024-08-06, fingerprint a", "j-2024-08-06, fingerprint b")
    compare([first, second])
    answered_by(second, "j-2024-08-06, fingerprint c")
    compare([first, second])
    answered_by(second, "j-2025-11-20")
    other = "server of the judge reports other models: j-2024-08-06 in alpha, j-2025-11-20 in beta"
    assert other in refusal(first, second)


async def test_other_pictures_of_the_same_names_are_refused(tmp_path: Path) -> None:
    first = await make_run("convbench", tmp_path)
    second = await make_run("convbench", tmp_path, BETA)
    options = orjson.loads((first / "spec.json").read_bytes())["spec"]["options"]
    repaint(Path(options["images"]))
    third = await make_run("convbench", tmp_path / "again", BETA, options=options)
    compare([first, second])
    message = refusal(first, third)
    assert "12 of the 12 samples that alpha and beta share" in message
    assert "--allow-mismatch data compares them" in message
    made = compare([first, third], despite=["data"])
    assert made.warnings[0].startswith("WARNING: the data differ: 12 of the 12 samples")
    for table in made.tables:
        assert made.warnings[0] in table.notes


async def test_what_cannot_be_compared_at_all_is_refused(tmp_path: Path) -> None:
    first = await make_run("convbench", tmp_path / "a", limit=2)
    text = await make_run("fbbench", tmp_path / "b")
    for make in (compare, make_leaderboard):
        with pytest.raises(ConfigError, match="a run of convbench"):
            make([first, text])
        with pytest.raises(ConfigError, match="at least two"):
            make([first])
    assert "named twice" in refusal(first, first / "." / "tables" / "..")
    assert "no run found (it has no spec.json" in refusal(first, tmp_path)
    (text / "scores.jsonl").unlink()
    with pytest.raises(DataError, match=r"not finished: it has no scores\.jsonl"):
        compare([text, first])


async def test_runs_without_a_common_sample_are_refused(tmp_path: Path) -> None:
    first = await make_run("convbench", tmp_path, limit=2)
    second = await make_run("convbench", tmp_path, BETA, limit=2)
    lines = (second / "scores.jsonl").read_bytes().splitlines()
    moved = [orjson.dumps(orjson.loads(line) | {"sample": "999"}) for line in lines]
    (second / "scores.jsonl").write_bytes(b"\n".join(moved))
    assert "no sample in common" in refusal(first, second)


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


def message(*runs: FinishedRun) -> list[str]:
    return list(other_settings(*runs))


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
    assert message(run("plain", model(sampling={"max_tokens": 24})), run("poet", poet)) == [
        "models.candidate.system: not set in plain; Be a poet. in poet.",
        "models.candidate.options.quantization: not set in plain; 4bit in poet.",
        "sampling.candidate.temperature: the benchmark's own in plain; 1.3 in poet.",
    ]


def test_sampling_is_that_in_force_wherever_it_was_set() -> None:
    in_file = model(sampling={"max_tokens": 24, "temperature": 0.5})
    here, there = run("here", in_file), run("there", **sampling(max_tokens=24, temperature=0.5))
    assert message(here, there) == []
    hotter = run("hotter", in_file, **sampling(temperature=1.3))
    assert message(here, hotter) == ["sampling.candidate.temperature: 0.5 in here; 1.3 in hotter."]
    free = run("free", in_file, sampling={"candidate": SamplingSpec(temperature=None)})
    assert message(free, run("bare", model(sampling={"max_tokens": 24}))) == [
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
    assert message(run("a", fingerprint="a"), run("b", other, fingerprint="b")) == []


def test_other_files_behind_the_same_settings_are_told() -> None:
    assert message(run("a", fingerprint="a"), run("b", fingerprint="b")) == [
        "candidate: the settings are the same, but the files or the backend differ."
    ]
    served = [run(port, model(base_url=f"http://localhost:{port}/v1")) for port in ("1", "2")]
    assert message(*served) == [
        "models.candidate.base_url: http://localhost:1/v1 in 1; http://localhost:2/v1 in 2."
    ]
    same = [
        run(port, model(base_url=f"http://localhost:{port}/v1", options={"identity": "m"}))
        for port in ("1", "2")
    ]
    assert message(*same) == []


def test_of_many_runs_each_value_is_told_once_and_that_of_most_at_last() -> None:
    runs = [run("a"), run("b", limit=8), run("c"), run("d", limit=8), run("e", limit=20)]
    assert message(*runs) == ["limit: 20 in e; not set in a and c; 8 in b and d."]
    more = [run(f"r{number}") for number in range(4)]
    assert message(*runs, *more) == ["limit: 20 in e; 8 in b and d; not set in the other 6."]


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
