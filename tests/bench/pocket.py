"""The pocket model's figures: how many answers are exact, and what perfect turns change.

`python -m tests.bench.pocket --n 500 --seed S` draws shapes of level 1 that no training saw,
and prints exact answers by condition with 95 % intervals. `--candidate` names another model file.
It times nothing.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mmconv.core.config import RunSpec, load_model
from mmconv.core.types import Summary
from mmconv.engine.run import Place, open_evaluation
from mmconv.run_folder.layout import SCORES
from mmconv.run_folder.saved_run import read_scores
from mmconv.stats import Column, bounded, pair, summarise_share, summarise_share_change

TURNS = {
    "perception, free": ("free", 1),
    "reasoning, free": ("free", 2),
    "creation, free": ("free", 3),
    "reasoning, perfect perception": ("perception", 2),
    "creation, perfect perception": ("perception", 3),
    "creation, perfect reasoning": ("reasoning", 3),
}
DIFFERENCES = {
    "reasoning, by perfect perception": ("reasoning, free", "reasoning, perfect perception"),
    "creation, by perfect perception": ("creation, free", "creation, perfect perception"),
    "creation, by perfect reasoning": (
        "creation, perfect perception",
        "creation, perfect reasoning",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--candidate", default="pocket")
    parser.add_argument("--out", type=Path, default=None, help="A folder to keep everything in.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = options.out or Path(folder)
        spec = RunSpec(
            benchmark="scenes",
            options={"families": ["shapes"], "levels": [1], "n": options.n},
            models={"candidate": load_model(options.candidate)},
            seed=options.seed,
        )
        for line in _lines(asyncio.run(_run(spec, out / "run"))):
            print(line)


async def _run(spec: RunSpec, out: Path) -> Path:
    async with open_evaluation(spec, Place(out=out)) as evaluation:
        result = await evaluation.run(evaluation.runner())
    return result.folder


def _lines(folder: Path) -> list[str]:
    columns = _exact(folder)
    lines = ["| exact answers | % | 95 % interval | n |", "|---|---|---|---|"]
    lines += [_line(name, summarise_share(column)) for name, column in columns.items()]
    lines += ["", "| change | points | 95 % interval | n |", "|---|---|---|---|"]
    for name, (before, after) in DIFFERENCES.items():
        change = summarise_share_change(pair(columns[before], columns[after]))
        lines.append(_line(name, bounded(change, -1.0, 1.0)))
    return lines


def _exact(folder: Path) -> Mapping[str, Column]:
    found: dict[tuple[str, int | None], dict[str, float]] = {}
    for score in read_scores(folder / SCORES):
        if score.metric == "right" and score.value is not None:
            values = found.setdefault((score.condition, score.turn), {})
            values[score.sample] = float(score.value)
    return {
        name: Column.of(
            list(found[place].values()), samples=list(found[place]), clusters=list(found[place])
        )
        for name, place in TURNS.items()
    }


def _line(name: str, summary: Summary) -> str:
    assert summary.mean is not None and summary.low is not None and summary.high is not None
    shown = (100 * value for value in (summary.mean, summary.low, summary.high))
    value, low, high = (f"{each:.1f}" for each in shown)
    return f"| {name} | {value} | {low} to {high} | {summary.n} |"


if __name__ == "__main__":
    main()
