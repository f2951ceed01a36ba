"""Small finished runs of all five benchmarks with fakes, for tests of what is made from runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from mmconv.core.config import ModelSpec, RunSpec
from mmconv.engine.run import Place, Result, open_evaluation
from mmconv.run_folder.layout import WHOLE, Shard
from tests.drawn_data import write_scenes
from tests.mmconv.benchmarks.botchat import samples as botchat
from tests.mmconv.benchmarks.cmteval import dialogues as cmteval
from tests.mmconv.benchmarks.fbbench import samples as fbbench
from tests.mmconv.benchmarks.mtbench101 import dialogues as mtbench101

ALPHA = ModelSpec(provider="fake", model="echo", name="alpha")
BETA = ModelSpec(
    provider="fake", model="scripted", name="beta", options={"script": {"(?s).*": "Another word."}}
)
FAILING = ModelSpec(
    provider="fake", model="failing", name="gamma", attempts=1, options={"rate": 0.3}
)
JUDGE = ModelSpec(provider="fake", model="judge", name="arbiter")

SIZE = 12

Pair: TypeAlias = Callable[[str], tuple[Path, Path]]


def write_data(benchmark: str, folder: Path) -> dict[str, Any]:
    """Write a dataset of the benchmark, of our own making, and return the options that name it."""
    folder.mkdir(parents=True, exist_ok=True)
    match benchmark:
        case "convbench":
            data, images = write_scenes(folder, SIZE)
            return {"data": str(data), "images": str(images)}
        case "botchat":
            records = [botchat.record(number, count=16) for number in range(1, SIZE + 1)]
            return {"data": str(botchat.write(folder / "data.jsonl", records))}
        case "cmteval":
            return {"data": str(cmteval.write_folder(folder, SIZE))}
        case "scenes":
            return {"families": ["clocks"], "levels": [1, 2], "n": SIZE}
        case "dialogue":
            turns = [{"instruction": f"Ask {n}?", "reference": f"Say {n}."} for n in (1, 2)]
            rows = [{"id": str(number), "turns": turns} for number in range(1, SIZE + 1)]
            return {"data": str(mtbench101.write(folder / "data.jsonl", rows))}
        case "fbbench":
            return {"data": str(fbbench.write(folder / "data.json", fbbench.mixed(SIZE)))}
        case _:
            records = mtbench101.records()
            return {"data": str(mtbench101.write(folder / "data.jsonl", records))}


async def evaluate(spec: RunSpec, out: Path, *, page: bool = False, shard: Shard = WHOLE) -> Result:
    """Run it to its end; with `page` also its report as a page, which takes a while."""
    async with open_evaluation(spec, Place(out=out), shard) as evaluation:
        return await evaluation.run(evaluation.runner(), page=page)


async def make_run(
    benchmark: str,
    folder: Path,
    candidate: ModelSpec = ALPHA,
    judge: ModelSpec = JUDGE,
    *,
    page: bool = False,
    shard: Shard = WHOLE,
    **fields: Any,
) -> Path:
    """Run it on data beneath the folder, which are written once, and return the run's folder."""
    options = write_data(benchmark, folder / "data") | fields.pop("options", {})
    spec = RunSpec(
        benchmark=benchmark,
        options=options,
        models={"candidate": candidate} | ({} if benchmark == "scenes" else {"judge": judge}),
        **fields,
    )
    return (await evaluate(spec, folder / "runs", page=page, shard=shard)).folder
