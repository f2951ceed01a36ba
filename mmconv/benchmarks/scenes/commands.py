"""`mmconv scenes` writes drawings as files; `mmconv demo` evaluates a small model on them."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from mmconv.benchmarks.options import read_options
from mmconv.benchmarks.scenes.benchmark import ScenesOptions
from mmconv.benchmarks.scenes.files import write_jsonl, write_parquet
from mmconv.cli.shared.basics import FILE, writing_option
from mmconv.cli.shared.options import own_options, read_own
from mmconv.cli.shared.session import exit_code, run_new
from mmconv.core.config import RunSpec
from mmconv.core.documents import validate
from mmconv.core.errors import ConfigError
from mmconv.engine.run import Place

DRAWING = ("--families", "--levels", "--n", "--language")
"""The options of the benchmark that decide the drawings."""


@click.command(
    name="scenes",
    params=[
        click.Argument(["out"], type=FILE),
        *(option for option in own_options("scenes") if option.opts[0] in DRAWING),
        click.Option(["--seed"], type=int, default=0, show_default=True, help="Random seed."),
    ],
)
def scenes_command(out: Path, seed: int, **values: Any) -> None:
    """Draw a dataset into the folder OUT, which is new or empty.

    It has images, questions, true answers and facts: data.jsonl with the folder images, and
    data.parquet with the images inside. The columns are ConvBench's and a few more.
    """
    options = read_options(ScenesOptions, read_own(values), "scenes")
    with writing_option("OUT", out):
        if out.exists() and any(out.iterdir()):
            raise ConfigError(f"OUT {out}: the folder is not empty; name a new one")
        data, images = write_jsonl(out, options, seed)
        write_parquet(out / "data.parquet", options, seed)
    count = len(options.families) * len(options.levels) * options.n
    click.echo(f"{count} scenes: {data}, images in {images}; {out / 'data.parquet'}")
    click.echo(
        f"ConvBench runs on them: mmconv run convbench --data {data} --images {images} "
        "--candidate MODEL --judge MODEL"
    )


@click.command(name="demo")
@click.option(
    "--out", type=FILE, default=Path("runs/demo"), show_default=True, help="Folder of the run."
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=80,
    show_default=True,
    metavar="N",
    help="Draw N images.",
)
@click.option(
    "--candidate",
    default="pocket",
    show_default=True,
    help="The model to evaluate: pocket-blind and pocket-confused are damaged on purpose.",
)
def demo_command(out: Path, limit: int, candidate: str) -> None:
    """Evaluate a small model on drawn images: CPU only, no key, no download.

    The model really sees the images, and makes mistakes. The demo compares its reasoning and
    creation with what it does after perfect perception: the question that mmconv answers.
    """
    document = {
        "benchmark": "scenes",
        "options": {"families": ["shapes"], "levels": [1], "n": limit},
        "models": {"candidate": candidate},
    }
    spec = validate(RunSpec, document, "command line")
    result = asyncio.run(run_new(spec, Place(out=out)))
    if result.complete:
        started = [sys.argv[0]]
        if Path(started[0]).name == "__main__.py":
            started = ["python", "-m", "mmconv"]
        transcript = [*started, "show", str(result.folder), "shapes-1-1"]
        click.echo(f"A transcript: {shlex.join(transcript)}")
        click.echo(f"All runs in a browser: {shlex.join([*started, 'view', str(out)])}")
    sys.exit(exit_code(result, store=""))
