"""`mmconv calibrate`: settings that papers do not publish, fitted to what they do publish."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from mmconv.benchmarks.botchat.dialogues import HUMAN
from mmconv.benchmarks.botchat.loops import calibrate, highest_similarity
from mmconv.benchmarks.botchat.options import UTTERANCES, Similarity
from mmconv.benchmarks.botchat.recorded import stored_dialogues
from mmconv.cli.specs import FILE
from mmconv.errors import ConfigError


@click.group(name="calibrate")
def command() -> None:
    """Fit a setting that a paper does not publish."""


@command.command(name="botchat")
@click.option(
    "--dialogues",
    "path",
    type=FILE,
    required=True,
    help="A run's folder, or a table like MuTualTest-convs.tsv: index, and a column per model.",
)
@click.option(
    "--non-loop-rate",
    "wanted",
    type=click.FloatRange(0, 1, min_open=True),
    required=True,
    help="The share of dialogues that shall have no loop (paper, Table 1: GPT-4 0.952).",
)
@click.option("--model", help="Whose dialogues.  [default: all but the human ones]")
@click.option(
    "--similarity",
    type=click.Choice(["characters", "words"]),
    default="characters",
    show_default=True,
    help="What difflib compares.",
)
@click.option(
    "--utterances",
    type=click.IntRange(min=5),
    default=UTTERANCES,
    show_default=True,
    help="How many utterances of each dialogue are looked at.",
)
def botchat(
    path: Path, wanted: float, model: str | None, similarity: Similarity, utterances: int
) -> None:
    """Find DupDetect's threshold for a wanted rate of dialogues without a loop."""
    dialogues = list(_chosen(path, model))
    if not dialogues:
        raise ConfigError(
            f"{path} holds no dialogue of {model or 'a model'}; --model GT takes the human ones"
        )
    highest = [highest_similarity(each[:utterances], similarity) for each in dialogues]
    found = calibrate(highest, wanted)
    click.echo(f"threshold {found.threshold!r}: {found.rate:.1%} of {len(highest)} without a loop")
    if found.lower_threshold is not None:
        click.echo(f"next below, {found.lower_threshold!r}: {found.lower_rate:.1%}")
    setting = f"{{similarity: {similarity}, threshold: {found.threshold!r}}}"
    click.echo(f"Run with:\n  --set 'options.dup_detect={setting}'")


def _chosen(path: Path, model: str | None) -> Iterator[tuple[str, ...]]:
    for dialogue in stored_dialogues(path):
        if dialogue.model == model or (model is None and dialogue.model != HUMAN):
            yield dialogue.utterances
