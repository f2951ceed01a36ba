"""`mmconv calibrate`: settings that papers do not publish, fitted to what they do publish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from mmconv.benchmarks.botchat.dialogue_files import HUMAN, StoredDialogue
from mmconv.benchmarks.botchat.loops import calibrate, highest_similarity
from mmconv.benchmarks.botchat.options import UTTERANCES, Similarity
from mmconv.benchmarks.botchat.stored_dialogues import stored_dialogues
from mmconv.cli.shared.option_values import FILE
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
    "Given several times, all are taken together.",
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
    help=f"How many utterances of each dialogue are looked at.  [default: {UTTERANCES}]",
)
def command(
    paths: tuple[Path, ...],
    wanted: float,
    model: str | None,
    similarity: Similarity,
    utterances: int | None,
) -> None:
    """Find DupDetect's threshold for a wanted rate of dialogues without a loop.

    Only the dialogues' own highest similarities make a difference: the one is taken whose rate is
    nearest to the wanted one.
    """
    _refuse_twice(paths)
    dialogues = [each for path in paths for each in _chosen(path, model)]
    longest = max(len(each.utterances) for each in dialogues)
    if utterances is not None and utterances > longest:
        raise ConfigError(
            f"--utterances {utterances}: the longest of these dialogues has {longest}; "
            "leave the option out, or give dialogues of that length"
        )
    looked_at = utterances or UTTERANCES
    highest = [highest_similarity(each.utterances[:looked_at], similarity) for each in dialogues]
    found = calibrate(highest, wanted)
    steps = [("above", found.threshold, found.rate)]
    if found.lower_threshold is not None and found.lower_rate is not None:
        steps.append(("below", found.lower_threshold, found.lower_rate))
    nearest = min(steps, key=lambda step: abs(step[2] - wanted))
    _, threshold, rate = nearest
    _check(threshold, rate, highest, wanted)
    counts = Counter(each.model for each in dialogues)
    told = ", ".join(f"{count} of {name}" for name, count in counts.items())
    click.echo(f"{len(dialogues)} dialogues: {told}")
    click.echo(f"threshold {threshold!r}: {rate:.1%} of {len(highest)} without a loop")
    for place, other, other_rate in steps:
        if other != threshold:
            click.echo(f"next {place}, {other!r}: {other_rate:.1%}")
    setting = f"{{similarity: {similarity}, threshold: {threshold!r}}}"
    click.echo(f"Run with:\n  --set 'options.dup_detect={setting}'")


def _refuse_twice(paths: Sequence[Path]) -> None:
    """Refuse a file or folder that is given twice: its dialogues would count twice."""
    given: dict[Path, Path] = {}
    for path in paths:
        before = given.setdefault(path.resolve(), path)
        if before is not path:
            raise ConfigError(f"--dialogues {path} is {before} again: give each only once")


def _check(threshold: float, rate: float, highest: Sequence[float], wanted: float) -> None:
    """Warn of a rate that is further off than the number of dialogues explains.

    Raises `ConfigError` if no loop at all would be found though some are wanted.
    """
    # between two neighbouring rates, the nearer is at most half a dialogue away
    if abs(rate - wanted) <= 0.5 / len(highest) + 1e-9:
        return
    alike = f"{highest.count(threshold)} of {len(highest)} dialogues have the highest similarity"
    if rate == 1:
        raise ConfigError(
            f"no threshold comes near {wanted:.1%} without a loop: {alike} {threshold!r}, and a "
            "threshold of that would find no loop in any; compare other dialogues, or by the "
            "other --similarity"
        )
    click.echo(
        f"WARNING: no threshold gives {wanted:.1%}; {rate:.1%} is the nearest, since many "
        "dialogues have the same highest similarity.",
        err=True,
    )


def _chosen(path: Path, model: str | None) -> list[StoredDialogue]:
    """The dialogues of the model, of all but the human without one; raises if there are none."""
    models: dict[str, None] = {}
    found = []
    for dialogue in stored_dialogues(path):
        models[dialogue.model] = None
        if dialogue.model == model or (model is None and dialogue.model != HUMAN):
            found.append(dialogue)
    if found:
        return found
    advice = f"there are those of: {', '.join(models) or 'none'}"
    if model == HUMAN and path.is_dir():
        advice += "; a run's folder has no human ones, a table like MuTualTest-convs.tsv has"
    raise ConfigError(f"{path} holds no dialogue of {model or 'a model'}; {advice}")
