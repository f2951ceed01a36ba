"""Finished runs whose pages are looked at: one with true differences, one that means harm."""

from pathlib import Path

import orjson

from mmconv.benchmarks.convbench.data import CATEGORIES
from mmconv.core.config import ModelSpec, RunSpec
from tests.drawn_data import write_scenes
from tests.mmconv.report.runs import evaluate, make_run

SIZE = 12
SEED = 4
"""Of the scenes: those on which planted mistakes set the candidates apart."""
OTHER_CATEGORY = "Odd One Out"
"""The category of reasoning of every other row."""

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=alert(1)> ${7*7} {{7}}"
)
"""An answer that tries to get out of every place into which a page may write it."""

_SIMULATED = "model_zoo.simulated.planted"


async def simulated_run(folder: Path, name: str = "pocket", perception: float = 0.6) -> Path:
    """ConvBench on drawn pictures, with a candidate that perceives wrongly at a rate."""
    data, images = write_scenes(folder / "data", SIZE, SEED)
    rows = [orjson.loads(line) for line in data.read_bytes().splitlines()]
    for row in rows[::2]:
        row[CATEGORIES[1]] = OTHER_CATEGORY
    data.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    options = {"perception": perception}
    spec = RunSpec(
        benchmark="convbench",
        options={"data": str(data), "images": str(images)},
        models={
            "candidate": ModelSpec(
                provider=_SIMULATED, model="candidate", name=name, options=options
            ),
            "judge": ModelSpec(provider=_SIMULATED, model="judge", name="arbiter"),
        },
    )
    return (await evaluate(spec, folder / "runs")).folder


async def hostile_run(folder: Path) -> Path:
    """ConvBench with a candidate that answers with markup, and has some in its name too."""
    candidate = ModelSpec(
        provider="fake", model="scripted", name="<script>", options={"script": {"(?s).*": HOSTILE}}
    )
    return await make_run("convbench", folder, candidate)


def multiply(folder: Path, count: int) -> None:
    """Repeat a run's samples under new names, with new last answers, until there are so many."""
    for name in ("transcripts.jsonl", "scores.jsonl"):
        path = folder / name
        records = [orjson.loads(line) for line in path.read_bytes().splitlines()]
        samples = list(dict.fromkeys(record["sample"] for record in records))
        lines = []
        for number in range(count):
            source = samples[number % len(samples)]
            for record in records:
                if record["sample"] == source:
                    varied = {"sample": str(number + 1)}
                    if record.get("call") == "turn_3":
                        varied["text"] = f"{record['text']} ({number})"
                    lines.append(orjson.dumps(record | varied))
        path.write_bytes(b"\n".join([*lines, b""]))
