"""`mmconv demo`: the main job from start to report, with a small model that looks at scenes."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path

import click

from mmconv.benchmarks.convbench.scenes import write_scenes
from mmconv.cli.shared.option_values import FILE
from mmconv.cli.shared.session import exit_code, run_new
from mmconv.cli.shared.table_output import folded
from mmconv.core.config import ModelSpec, RunSpec, validate
from mmconv.engine.run import Place
from mmconv.report.page import lead_sentences

MODEL = "pocket"
SERIES = "demo"
"""The demo's own series of scenes, which neither training nor `mmconv scenes` draws from."""


@click.command(name="demo")
@click.option(
    "--out",
    type=FILE,
    default=Path("runs/demo"),
    show_default=True,
    help="Folder of the pictures and the run.",
)
@click.option(
    "--samples",
    type=click.IntRange(1),
    default=80,
    show_default=True,
    help="How many pictures are drawn.",
)
@click.option(
    "--candidate",
    default=MODEL,
    show_default=True,
    help="Another model: pocket-blind and pocket-confused are damaged on purpose.",
)
def command(out: Path, samples: int, candidate: str) -> None:
    """Evaluate a small model on drawn scenes: CPU only, no key, no download.

    It really looks, and errs in what it sees. What it reasons and writes then is compared with what
    it does where its perception was made perfect: that is what mmconv is for.
    """
    data, images = write_scenes(out / "data", samples, series=SERIES)
    document = {
        "benchmark": "convbench",
        "options": {
            "data": str(data),
            "images": str(images),
            # an answer as good as the reference ties with it: a choice between them tells nothing
            "grading": ["direct"],
            # only an exact answer is rated 10, so that any mistake counts in the attribution
            "failure_rating": 10,
        },
        "seats": {
            "candidate": candidate,
            "judge": ModelSpec(provider="scenes", model="facts", name="judge of scenes"),
        },
    }
    spec = validate(RunSpec, document, "command line")
    result = asyncio.run(run_new(spec, Place(out=out)))
    if result.complete:
        click.echo("\n".join(["", *map(folded, lead_sentences(result.tables))]))
        click.echo(f"A transcript: {shlex.join([*_program(), 'show', str(result.folder), '1'])}")
    sys.exit(exit_code(result, store=""))


def _program() -> list[str]:
    """How this command was started: `python -m mmconv` names a file that cannot be."""
    started = sys.argv[0]
    return ["python", "-m", "mmconv"] if Path(started).name == "__main__.py" else [started]
