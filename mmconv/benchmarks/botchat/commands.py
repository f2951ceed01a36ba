"""BotChat's command: fit the threshold of DupDetect, which the paper does not publish."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from mmconv.benchmarks.botchat.dialogues import (
    HUMAN,
    UTTERANCES,
    Similarity,
    StoredDialogue,
    calibrate,
    highest_similarity,
    stored_dialogues,
)
from mmconv.cli.shared.basics import FILE
from mmconv.core.errors import ConfigError


@click.command(name="calibrate")
@click.argument("benchmark", type=click.Choice(["botchat"]), expose_value=False)
@click.option(
    "--dialogues",
    "paths",
    type=FILE,
    multiple=True,
    required=True,
    help="A run's folder, or a table like MuTualTest-convs.tsv: index, and a column per model. "
    "Repeatable; all are pooled.",
)
@click.option(
    "--non-loop-rate",
    "target",
    type=click.FloatRange(0, 1, min_open=True),
    required=True,
    help="Target share of dialogues without a loop (paper, Table 1: GPT-4 0.952).",
)
@click.option("--model", help="Only this model's dialogues.  [default: all but human ones]")
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
    help=f"Number of utterances that are compared.  [default: {UTTERANCES}]",
)
def calibrate_command(
    paths: tuple[Path, ...],
    target: float,
    model: str | None,
    similarity: Similarity,
    utterances: int | None,
) -> None:
    """Find the threshold of DupDetect for a target rate of dialogues without a loop.

    The candidates are the highest similarities of the dialogues. The one whose rate is nearest to
    the target is chosen.
    """
    dialogues = [dialogue for path in paths for dialogue in _dialogues(path, model)]
    length = utterances or UTTERANCES
    highest = [highest_similarity(each.utterances[:length], similarity) for each in dialogues]
    rates = calibrate(highest, target)
    threshold = min(rates, key=lambda each: abs(rates[each] - target))
    rate = rates[threshold]
    counts = Counter(each.model for each in dialogues).items()
    listed = ", ".join(f"{count} of {name}" for name, count in counts)
    click.echo(f"{len(dialogues)} dialogues: {listed}")
    click.echo(f"threshold {threshold!r}: {rate:.1%} of {len(highest)} without a loop")
    for other, other_rate in rates.items():
        place = "above" if other > threshold else "below"
        if other != threshold:
            click.echo(f"next {place}, {other!r}: {other_rate:.1%}")
    setting = f"{{similarity: {similarity}, threshold: {threshold!r}}}"
    click.echo(f"Run with:\n  --set 'options.dup_detect={setting}'")


def _dialogues(path: Path, model: str | None) -> list[StoredDialogue]:
    """The dialogues of the model, or of all but people; raises `ConfigError` if there are none."""
    stored = [*stored_dialogues(path)]
    dialogues = [
        dialogue
        for dialogue in stored
        if dialogue.model == model or (model is None and dialogue.model != HUMAN)
    ]
    if dialogues:
        return dialogues
    models = ", ".join(dict.fromkeys(dialogue.model for dialogue in stored))
    raise ConfigError(f"{path} has no dialogue of {model or 'a model'}; it has those of: {models}")
