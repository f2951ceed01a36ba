"""`mmconv scenes`: a data set in ConvBench's layout over drawn pictures, as large as one likes."""

from __future__ import annotations

from pathlib import Path

import click

from images.scenes import DIFFICULTIES, Difficulty
from mmconv.benchmarks.convbench.scenes import write_scenes
from mmconv.cli.shared.option_values import FILE
from mmconv.core.errors import ConfigError


@click.command(name="scenes")
@click.option(
    "--n",
    "count",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="How many pictures are drawn.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of what is drawn.")
@click.option(
    "--difficulty",
    type=click.Choice(DIFFICULTIES),
    default="normal",
    show_default=True,
    help="Noise, overlap and shades, and the number of things.",
)
@click.option("--out", type=FILE, required=True, help="The folder to write; new, or empty.")
def command(count: int, seed: int, difficulty: Difficulty, out: Path) -> None:
    """Draw a data set: pictures of coloured things, three turns about each, references and all.

    It is complete, so it runs without annotations: the judge scenes/facts checks every answer
    fact by fact. Nothing that comes of it says how a model does on ConvBench itself.
    """
    try:
        if out.exists() and any(out.iterdir()):
            raise ConfigError(f"--out {out}: something is there already; name a new folder")
        data, images = write_scenes(out, count, seed, difficulty)
    except OSError as error:
        raise ConfigError(f"--out {out}: {error.strerror or error}") from error
    click.echo(f"{count} rows: {data}, images in {images}")
    click.echo(
        f"Run it: mmconv run convbench --data {data} --images {images} --judge scenes/facts "
        "--candidate pocket"
    )
