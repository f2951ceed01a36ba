"""A benchmark in one file has tables, comparisons, a leaderboard, a report and a command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.protocols import ImageSource
from mmconv.core.types import Cell, Reply, Sampling, Table
from mmconv.report.comparison.differences import compare
from mmconv.report.comparison.leaderboard import make_leaderboard
from mmconv.run_folder.saved_run import read_tables
from tests.messages import Messages
from tests.mmconv.processes import typed
from tests.mmconv.report.runs import evaluate
from tests.pictures import picture

BENCHMARK = "tests.mmconv.benchmarks.base.second_look:SecondLook"
SIZE = 8


def fingerprint(spec: ModelSpec) -> str:
    return f"candidate 1, {spec.model}"


async def open_backend(spec: ModelSpec, images: ImageSource) -> Candidate:
    return Candidate(mistaken=int(spec.model.removeprefix("every-")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Mistakes the object in every n-th image; its second answer is as right as the first."""

    mistaken: int
    max_concurrency: int = 4

    async def generate(self, messages: Messages, sampling: Sampling, *, affinity: str) -> Reply:
        number = int(messages[-1].text.rpartition(" ")[2])
        if len(messages) == 1:
            return Reply(text="A hat." if number % self.mistaken == 0 else f"Cup {number}.")
        is_right = messages[1].text.casefold().startswith("cup")
        return Reply(text=f"Clay {number}." if is_right else "Felt.")

    async def aclose(self) -> None:
        pass


def write_data(folder: Path) -> dict[str, str]:
    """Write images and records, and return the options that name them."""
    data, images = folder / "data.jsonl", folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    records = []
    for number in range(1, SIZE + 1):
        (images / f"{number}.png").write_bytes(picture(number))
        records.append(
            {
                "id": number,
                "image": f"{number}.png",
                "first": f"What is on table {number}",
                "first_answer": f"cup {number}",
                "second": f"What is it made of, on table {number}",
                "second_answer": f"clay {number}",
            }
        )
    data.write_bytes(b"\n".join(map(orjson.dumps, records)))
    return {"data": str(data), "images": str(images)}


async def make_run(folder: Path, mistaken: int) -> Path:
    model = ModelSpec(provider=__name__, model=f"every-{mistaken}", name=f"every-{mistaken}")
    spec = RunSpec(
        benchmark=BENCHMARK, options=write_data(folder / "data"), models={"candidate": model}
    )
    return (await evaluate(spec, folder / "runs", page=True)).folder


def by_name(tables: Sequence[Table]) -> dict[str, Table]:
    return {table.name: table for table in tables}


async def test_a_true_first_answer_corrects_the_second(tmp_path: Path) -> None:
    run = await make_run(tmp_path, 4)
    tables = by_name(read_tables(run / "tables"))
    values = {name: row["exact (%)"].value for name, row in tables["scores"].rows.items()}
    assert values == {"first": 75.0, "second, free": 75.0, "second, given": 100.0}
    change = tables["deltas"].rows["given - free"]["exact (%)"]
    assert (change.value, change.n, change.missing) == (25.0, SIZE, {})
    assert change.low is not None
    assert change.low < 25.0 < (change.high or 0.0)
    assert "What a true first answer changes" in (run / "report.html").read_text(encoding="utf-8")


async def test_runs_are_compared_and_ranked(tmp_path: Path) -> None:
    runs = [await make_run(tmp_path, mistaken) for mistaken in (2, 4)]
    tables = by_name(compare(runs).tables)
    compared = {name: row["exact (%)"] for name, row in tables["differences"].rows.items()}
    values = {name: cell.value for name, cell in compared.items() if isinstance(cell, Cell)}
    assert values == {"first": 25.0, "second, free": 25.0, "second, given": 0.0}
    change = tables["delta_differences"].rows["given - free"]["exact (%)"]
    assert (change.value, change.n) == (-25.0, SIZE)
    board = make_leaderboard(runs).tables[0]
    assert board.title == "Exact answers (%)"
    assert [*board.rows] == ["every-4", "every-2"]
    columns = {name: board.rows["every-4"][name].value for name in board.columns[1:4]}
    assert columns == {"second, free": 75.0, "second, given": 100.0, "first": 75.0}


def test_the_command_line_runs_it(tmp_path: Path) -> None:
    options = write_data(tmp_path)
    result = typed(
        *("run", BENCHMARK, "--data", options["data"], "--images", options["images"]),
        *("--candidate", f"{__name__}/every-4", "--out", str(tmp_path / "runs")),
    )
    if result.exception is not None:
        raise result.exception
    assert "second, given" in result.output
