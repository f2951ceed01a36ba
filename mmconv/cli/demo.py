"""`mmconv demo`: the main job from start to report, with a small model that looks at scenes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from mmconv.benchmarks.convbench.quantities import DIRECT, delta, estimate
from mmconv.benchmarks.convbench.scenes import write_scenes
from mmconv.cli.session import evaluate
from mmconv.cli.specs import FILE
from mmconv.config import ModelSpec, RunSpec, load_model
from mmconv.evaluation import Place, Result, open_evaluation
from mmconv.report.output import RunFolder
from mmconv.stats import ScoreFrame
from mmconv.values import Summary

CANDIDATE = "pocket"
SERIES = "demo"
"""The demo's own series of scenes, which neither training nor `mmconv scenes` draws from."""


@click.command(name="demo")
@click.option("--out", type=FILE, default=Path("runs/demo"), show_default=True)
@click.option("--samples", type=click.IntRange(1), default=80, show_default=True)
@click.option(
    "--candidate",
    default=CANDIDATE,
    show_default=True,
    help="Another model: pocket-blind and pocket-confused are damaged on purpose.",
)
def command(out: Path, samples: int, candidate: str) -> None:
    """Evaluate a small model on drawn scenes: CPU only, no key, no download.

    It really looks, and errs in what it sees. What it reasons and writes then is compared with what
    it does where its perception was made perfect: that is what mmconv is for.
    """
    data, images = write_scenes(out / "data", samples, series=SERIES)
    spec = RunSpec(
        benchmark="convbench",
        options={
            "data": str(data),
            "images": str(images),
            # an answer as good as the reference ties with it: a choice between them tells nothing
            "grading": ["direct"],
            # only an exact answer is rated 10, so that any mistake counts in the attribution
            "failure_rating": 10,
        },
        seats={
            "candidate": load_model(candidate),
            "judge": ModelSpec(provider="scenes", model="facts", name="judge of scenes"),
        },
    )
    result = asyncio.run(_demo(spec, Place(out=out)))
    frame = ScoreFrame(RunFolder(result.folder).scores())
    before, change = estimate(frame, DIRECT, "S2"), delta(frame, DIRECT, "S2_hat - S2")
    click.echo(f"\n{sentence(before, change)}")
    click.echo(f"A transcript: {sys.argv[0]} show {result.folder} 1")


def sentence(before: Summary, change: Summary) -> str:
    """What perfect perception changes for reasoning, in plain words; ratings from 1 to 10."""
    if before.mean is None or change.mean is None:
        return "What perfect perception changes for reasoning can't be told: nothing was rated."
    told = (
        f"rates {before.mean:.1f} of 10 on its own and {change.mean:+.1f} with perfect perception"
    )
    if change.low is None or change.high is None:
        return f"Reasoning {told}; one scene is too few for an interval."
    interval = f"95 % interval {change.low:+.1f} to {change.high:+.1f}, {change.n} scenes"
    if change.low > 0:
        meaning = "what it gets wrong there is to a good part what it has not seen"
    elif change.high < 0:
        meaning = "the true answer to the first turn makes it worse"
    else:
        meaning = "so many scenes show no difference"
    return f"Reasoning {told} ({interval}): {meaning}."


async def _demo(spec: RunSpec, place: Place) -> Result:
    async with open_evaluation(spec, place) as evaluation:
        return await evaluate(evaluation)
