"""Which samples a run takes: the first, some drawn at random, named ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from images import ImageStore
from mmconv.benchmarks.base import Benchmark
from mmconv.cli import commands
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import ConfigError, DataError
from mmconv.engine.run import Place, open_evaluation
from mmconv.engine.setup import build_benchmark
from mmconv.run_folder.layout import Shard
from tests.drawn_data import write_scenes
from tests.mmconv.benchmarks.botchat import samples as botchat
from tests.mmconv.benchmarks.cmteval import dialogues as cmteval
from tests.mmconv.benchmarks.fbbench import samples as fbbench
from tests.mmconv.benchmarks.few_records import stored
from tests.mmconv.benchmarks.mtbench101 import dialogues as mtbench101

ROLES = {role: ModelSpec(provider="fake", model="judge") for role in ("candidate", "judge")}
RIDDLES = "tests.example_benchmark:Riddles"
COUNT = 6


def six_scenes(folder: Path) -> dict[str, Any]:
    data, images = write_scenes(folder / "scenes", COUNT)
    return {"data": str(data), "images": str(images)}


NUMBERS = range(1, COUNT + 1)
[EXAMPLE, *_] = mtbench101.records()

DATA: dict[str, Callable[[Path], dict[str, Any]]] = {
    "botchat": stored("a.json", *map(botchat.record, NUMBERS)),
    "cmteval": stored("standard_data.json", *(cmteval.record(str(each)) for each in NUMBERS)),
    "convbench": six_scenes,
    "fbbench": stored("a.json", *map(fbbench.correction, NUMBERS)),
    "mtbench101": stored("a.json", *({**EXAMPLE, "id": each} for each in NUMBERS)),
    RIDDLES: stored("a.json", *({"id": each, "riddle": f"Who is {each}?"} for each in NUMBERS)),
}


def spec(name: str, options: dict[str, Any], **chosen: Any) -> RunSpec:
    return RunSpec(benchmark=name, options=options, models=ROLES, **chosen)


def built(name: str, options: dict[str, Any], **chosen: Any) -> Benchmark[Any, Any]:
    return build_benchmark(spec(name, options, **chosen), ImageStore())


def keys(benchmark: Benchmark[Any, Any]) -> list[str]:
    return [sample.id for sample in benchmark.load()]


def rewrite(options: dict[str, Any], change: Callable[[list[Any]], list[Any]]) -> None:
    """Write the records of the data file as `change` makes them."""
    path = Path(options["data"])
    is_lines = path.suffix == ".jsonl"
    whole = path.read_bytes()
    records = change([*map(orjson.loads, whole.splitlines())] if is_lines else orjson.loads(whole))
    lines = b"\n".join(map(orjson.dumps, records))
    path.write_bytes(lines if is_lines else orjson.dumps(records))


@pytest.mark.parametrize("name", DATA)
def test_what_is_drawn_depends_on_the_seed_and_not_on_the_order(tmp_path: Path, name: str) -> None:
    options = DATA[name](tmp_path)
    whole = keys(built(name, options))
    drawn = {seed: built(name, options, limit=3, shuffle=seed) for seed in range(4)}
    found = {seed: keys(benchmark) for seed, benchmark in drawn.items()}
    assert all(benchmark.size == 3 for benchmark in drawn.values())
    # in the order of the data, and not always the first
    assert all(each == [key for key in whole if key in each] for each in found.values())
    assert len(set(map(tuple, found.values()))) > 1
    assert f"3 of {COUNT} samples, drawn at random (--shuffle 2)." in drawn[2].notes
    rewrite(options, lambda records: records[::-1])
    assert keys(built(name, options, limit=3, shuffle=2)) == found[2][::-1]
    assert keys(built(name, options, limit=2, shuffle=2)) == [
        key for key in reversed(whole) if key in keys(built(name, options, limit=2, shuffle=2))
    ]


@pytest.mark.parametrize("name", DATA)
def test_named_samples_run_and_no_others(tmp_path: Path, name: str) -> None:
    options = DATA[name](tmp_path)
    whole = built(name, options)
    first, second, *_, last = keys(whole)
    benchmark = built(name, options, samples=[last, second])
    assert keys(benchmark) == [second, last]
    assert f"2 of {COUNT} samples, named (--sample-id)." in benchmark.notes
    assert not any("samples" in note for note in whole.notes)
    with pytest.raises(ConfigError, match=rf"^samples: no sample has the key {last}0; "):
        built(name, options, samples=[f"{last}0", first])


@pytest.mark.parametrize("name", DATA)
def test_the_first_ones_are_told_of_as_such(tmp_path: Path, name: str) -> None:
    options = DATA[name](tmp_path)
    message = f"The first 2 of {COUNT} samples of the data (--limit)."
    assert message in built(name, options, limit=2).notes
    assert message.replace("first 2", "first") in built(name, options, limit=1).notes
    assert not any("--limit" in note for note in built(name, options, limit=COUNT).notes)


def test_only_the_drawn_rows_of_convbench_are_checked(tmp_path: Path) -> None:
    options = six_scenes(tmp_path)
    notes = tmp_path / "notes.jsonl"
    notes.write_bytes(b"\n".join(orjson.dumps({"ID": each}) for each in NUMBERS))
    options |= {"annotations": str(notes)}
    drawn = keys(built("convbench", options, limit=2, shuffle=5))
    for row in NUMBERS:
        if str(row) not in drawn:
            (Path(options["images"]) / f"scene_{row:05}.png").unlink()
    benchmark = built("convbench", options, limit=2, shuffle=5)
    assert keys(benchmark) == drawn
    assert not any("annotation" in note for note in benchmark.notes)
    (Path(options["images"]) / f"scene_{int(drawn[0]):05}.png").unlink()
    with pytest.raises(DataError, match="1 problem\n"):
        built("convbench", options, limit=2, shuffle=5)


def test_bad_records_are_drawn_like_good_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [orjson.dumps({"id": each, "riddle": "Who?"}) for each in NUMBERS]
    path.write_bytes(b"\n".join([*lines, b"{", orjson.dumps({"id": 8})]))
    options = {"data": str(path), "skip_bad_records": True}
    benchmark = built(RIDDLES, options, limit=8, shuffle=1)
    assert benchmark.size == COUNT
    assert [each["where"] for each in benchmark.provenance["left_out"]] == [
        "a.jsonl line 7",
        "a.jsonl line 8 (id 8)",
    ]
    assert keys(built(RIDDLES, {"data": str(path)}, samples=["3"])) == ["3"]


def half_annotated_scenes(folder: Path) -> dict[str, Any]:
    """Six rows, of which every second one has a caption and references; the last is a draft."""
    options = six_scenes(folder)
    drafted = ("first_turn_answer", "second_turn_answer", "third_turn_answer")
    notes = folder / "notes.jsonl"
    lines = []
    for record in map(orjson.loads, Path(options["data"]).read_bytes().splitlines()):
        names = [each for each in (*drafted, "instruction-conditioned-caption") if each in record]
        taken = {name: record.pop(name) for name in names}
        if record["ID"] % 2 == 0:
            status = "draft" if record["ID"] == COUNT else "verified"
            lines.append({"ID": record["ID"], "status": status, **taken})
        with (folder / "bare.jsonl").open("ab") as file:
            file.write(orjson.dumps(record) + b"\n")
    notes.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    return {**options, "data": str(folder / "bare.jsonl"), "annotations": str(notes)}


def half_referenced_texts(folder: Path) -> dict[str, Any]:
    write = stored("long-text_data.json", *(cmteval.long_record(str(each)) for each in NUMBERS))
    references = [cmteval.reference(each) for each in NUMBERS if each % 2 == 0]
    (folder / "long-text_summary_QA_data.json").write_bytes(orjson.dumps(references))
    return write(folder)


HALF = {
    "convbench": half_annotated_scenes,
    "cmteval": half_referenced_texts,
    "fbbench": stored(
        "a.json",
        *(
            fbbench.correction(each, **({} if each % 2 else {"reference_second_response": "4"}))
            for each in NUMBERS
        ),
    ),
}
"""Data of which every second sample lacks what a judge reads."""


@pytest.mark.parametrize("chosen", [{"limit": 2}, {"limit": 4, "shuffle": 1}, {}])
@pytest.mark.parametrize("name", HALF)
def test_a_later_judge_gets_the_samples(tmp_path: Path, name: str, chosen: dict[str, Any]) -> None:
    options = {**HALF[name](tmp_path), "skip_bad_records": True}
    if name == "fbbench":
        options["reference"] = True
    judged = built(name, options, **chosen)
    alone = built(name, {**options, "generate_only": True}, **chosen)
    assert 0 < len(keys(judged)) < COUNT
    assert keys(alone) == keys(judged)
    assert alone.provenance["left_out"] == judged.provenance["left_out"]


def test_rows_without_any_reference_are_answered_all_the_same(tmp_path: Path) -> None:
    options = half_annotated_scenes(tmp_path) | {"skip_bad_records": True, "generate_only": True}
    del options["annotations"]
    assert len(keys(built("convbench", options))) == COUNT


async def test_shards_have_the_drawn_samples_among_them(tmp_path: Path) -> None:
    options = DATA["mtbench101"](tmp_path)
    drawn = spec("mtbench101", options, limit=4, shuffle=3)
    names: list[str] = []
    for index in range(3):
        shard = Shard(index=index, count=3)
        async with open_evaluation(drawn, Place(out=tmp_path / "runs"), shard) as evaluation:
            names += [plan.sample for plan, _ in evaluation.plans()]
    assert sorted(names) == sorted(keys(built("mtbench101", options, limit=4, shuffle=3)))


def test_the_command_line_chooses_and_every_table_tells(tmp_path: Path) -> None:
    options = DATA["mtbench101"](tmp_path)
    typed = ["run", "mtbench101", "--data", options["data"], "--no-page"]
    typed += ["--candidate", "fake/echo", "--judge", "fake/judge", "--out", str(tmp_path / "runs")]
    for chosen, message in (
        (("--limit", "2", "--shuffle", "7"), "2 of 6 samples, drawn at random (--shuffle 7)."),
        (("--sample-id", "3, 5"), "2 of 6 samples, named (--sample-id)."),
    ):
        ended = CliRunner().invoke(commands, [*typed, *chosen])
        assert ended.exit_code == 0, ended.output
        assert message in " ".join(ended.output.split())
    folders = [*(tmp_path / "runs").glob("mtbench101-*")]
    assert len(folders) == 2
    manifests = [orjson.loads((folder / "manifest.json").read_bytes()) for folder in folders]
    assert {note for each in manifests for note in each["notes"] if "samples" in note} == {
        "2 of 6 samples, drawn at random (--shuffle 7).",
        "2 of 6 samples, named (--sample-id).",
    }
