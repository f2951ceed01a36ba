"""`mmconv demo`: the main job from start to report on drawn pictures and a tiny random model."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from mmconv.benchmarks.convbench.drawn import write_drawn_data
from mmconv.cli.session import evaluate
from mmconv.cli.specs import FILE
from mmconv.config import ModelSpec, RunSpec
from mmconv.evaluation import Place, Result, open_evaluation
from mmconv.report.output import REPORT

FAMILY = "llava"


@click.command(name="demo")
@click.option("--out", type=FILE, default=Path("runs/demo"), show_default=True)
@click.option("--samples", type=click.IntRange(1), default=12, show_default=True)
def command(out: Path, samples: int) -> None:
    """Evaluate a tiny random LLaVA on drawn pictures: CPU only, no key, no download.

    The model knows nothing, so its answers are noise; what you see is everything around it: three
    turns, both ablations, both gradings, tables and transcripts.
    """
    from model_zoo.tiny import make_checkpoint

    data, images = write_drawn_data(out / "data", samples)
    checkpoint = make_checkpoint(FAMILY, out / "tiny-llava")
    spec = RunSpec(
        benchmark="convbench",
        options={"data": str(data), "images": str(images), "max_tokens": 24},
        seats={
            "candidate": ModelSpec(provider="hf", model=str(checkpoint), name="tiny-llava"),
            "judge": ModelSpec(provider="reference", model="chrf", name="chrF reference judge"),
        },
    )
    result = asyncio.run(_demo(spec, Place(out=out)))
    click.echo(f"The report: {result.folder / REPORT}")
    click.echo(f"A transcript: {sys.argv[0]} show {result.folder} 1")


async def _demo(spec: RunSpec, place: Place) -> Result:
    async with open_evaluation(spec, place) as evaluation:
        return await evaluate(evaluation)
