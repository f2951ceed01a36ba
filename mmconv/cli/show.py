"""`mmconv show`: the transcript of a sample, as it was sent to the models.

That is before a model's own processor, which may scale or crop a picture, and its chat template;
with `--raw` it is what these make of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import click

from mmconv.cli.shared.option_values import FILE
from mmconv.cli.shared.progress import counted
from mmconv.cli.shared.run_folders import open_made
from mmconv.cli.shared.sent_prompts import (
    INDENT,
    PromptPrinter,
    about_raw,
    as_messages,
    as_raw,
    open_renderers,
)
from mmconv.cli.shared.visible_text import visible
from mmconv.core.errors import ConfigError
from mmconv.core.plans import Finished
from mmconv.core.trials import read_trial
from mmconv.core.types import Call, Failure, Outcome, Reply, Skipped
from mmconv.core.validation import nearest
from mmconv.engine.run import Evaluation
from mmconv.report.changed_inputs import check_shown, check_there, tell_gone
from mmconv.run_folder.transcripts import judged_as

Kept = TypeVar("Kept")


@click.command(name="show")
@click.argument("run", type=FILE)
@click.argument("sample", default="")
@click.option("--condition", default="", help="Only this condition.")
@click.option("--judge", "with_judge", is_flag=True, help="Print the judges' prompts in full too.")
@click.option("--raw", is_flag=True, help="Print prompts as their tokenizer gets them.")
def command(run: Path, sample: str, condition: str, *, with_judge: bool, raw: bool) -> None:
    """Show what was sent and what came back for SAMPLE of RUN (a run's folder).

    Without SAMPLE, list the samples with how far they are. Nothing is asked: prompts are planned
    again and replies read from the store.

    With --raw a prompt is the text that the model's chat template makes of the messages today,
    with its number of tokens and what the processor makes of pictures: for checkpoints of the
    providers hf and vllm that are on this machine. No weights are loaded.
    """
    if raw and not sample:
        raise click.UsageError(f"--raw is for one sample: `mmconv show {run}` lists them")
    asyncio.run(_show(run.absolute(), sample, condition, with_judge=with_judge, raw=raw))


async def _show(folder: Path, sample: str, condition: str, *, with_judge: bool, raw: bool) -> None:
    async with open_made(folder) as evaluation:
        known = evaluation.benchmark.conditions
        if condition and condition not in known:
            raise ConfigError(f"{folder} has no condition {condition!r}{nearest(condition, known)}")
        if not sample:
            # A line of each is kept: all prompts and replies of a run may not fit into memory.
            lines = await _finished(evaluation, sample, condition, _how_far)
            for line in (*lines, *tell_gone(evaluation.manifest().gone)):
                click.echo(visible(line))
            return
        found = await _finished(evaluation, sample, condition, lambda finished: finished)
        prompts: PromptPrinter = as_messages
        if raw:
            prompts = await asyncio.to_thread(_open_raw, evaluation, found, with_judge)
    if not found:
        check_there(folder, read_trial(sample).key, evaluation.manifest())
        raise ConfigError(f"{folder} has no sample {sample!r}; `mmconv show {folder}` lists them")
    for finished in found:
        told = "\n".join(transcript(finished, prompts, with_judge=with_judge))
        click.echo(visible(told))


def _how_far(finished: Finished) -> str:
    """How many calls are answered, however often they were asked, of those that had to be."""
    plan = finished.plan
    outcomes = [finished.outcomes[call.id] for call in plan.calls]
    answered = sum(isinstance(each, Reply) for each in outcomes)
    needless = sum(isinstance(each, Skipped) and each.reason == "same_text" for each in outcomes)
    count = len(outcomes) - needless
    return f"{plan.sample}  {plan.condition}: {answered} of {count} calls answered"


async def _finished(
    evaluation: Evaluation, sample: str, condition: str, keep: Callable[[Finished], Kept]
) -> list[Kept]:
    """What `keep` makes of the chosen calls as the store holds them, in the run's order.

    Raises `DataError` as `check_shown` does.
    """
    chosen = (
        plan
        for plan, _ in evaluation.plans()
        if sample in ("", plan.sample) and condition in ("", plan.condition)
    )
    found: dict[int, Kept] = {}

    def take(finished: Finished) -> None:
        found[finished.plan.order] = keep(finished)

    runner = evaluation.runner(offline=True)
    await runner.run(chosen, take)
    store = evaluation.place.absolute_store
    check_shown(evaluation.folder, evaluation.manifest(), runner.tally.unasked, store)
    return [found[order] for order in sorted(found)]


def _open_raw(evaluation: Evaluation, found: Sequence[Finished], with_judge: bool) -> PromptPrinter:
    """What prints the raw prompts of these; tells at once of which seats it cannot, and why."""
    seats = dict.fromkeys(
        asked.call.seat
        for finished in found
        for asked in finished.asked.values()
        if _is_printed(asked.call, with_judge)
    )
    models = {seat: evaluation.spec.seats[seat] for seat in seats}
    renderers = open_renderers(models, evaluation.equipment.library)
    for seat, renderer in renderers.items():
        model = models[seat]
        for line in about_raw(model.provider, renderer):
            click.echo(visible(f"{seat} ({model.label}): {line}"))
    return as_raw(renderers)


def _is_printed(call: Call, with_judge: bool) -> bool:
    """Whether its prompt is printed in full, which those of prompt files are if asked for."""
    return call.prompt is None or with_judge


def transcript(
    finished: Finished, prompts: PromptPrinter = as_messages, *, with_judge: bool = False
) -> Iterator[str]:
    """The lines that tell one sample under one condition, call by call."""
    yield f"=== sample {finished.plan.sample}, condition {finished.plan.condition}"
    for each in finished.exchanges():
        call, outcome = each.call, each.outcome
        yield ""
        yield f"--- {call.id} (asked of: {call.seat})"
        if call.prompt is not None:
            hidden = "" if with_judge else " (--judge prints it filled in)"
            yield f"prompt file {call.prompt}{hidden}"
        if each.asked is not None and _is_printed(call, with_judge):
            yield from prompts(each.asked, outcome)
        yield from _came_back(outcome)
        if call.parser is not None and isinstance(outcome, Reply):
            yield f"read as: {judged_as(call, outcome)}"


def _came_back(outcome: Outcome) -> Iterator[str]:
    if isinstance(outcome, Failure):
        yield f"FAILED ({outcome.kind}, {outcome.attempts} attempts): {outcome.message}"
    elif isinstance(outcome, Skipped):
        yield f"SKIPPED: {outcome.because}"
    else:
        if outcome.reasoning is not None:
            yield "[thought aloud, kept apart]"
            yield from (INDENT + row for row in outcome.reasoning.split("\n"))
        yield "[reply]"
        yield from (INDENT + row for row in outcome.text.split("\n"))
        yield _facts(outcome)


def _facts(reply: Reply) -> str:
    parts = [f"{reply.seconds:.2f} s"]
    if reply.output_tokens is not None:
        parts.insert(
            0, f"{counted(reply.input_tokens or 0, 'token')} in, {reply.output_tokens} out"
        )
    if reply.finish != "stop":
        parts.append("CUT OFF at max_tokens" if reply.finish == "length" else reply.finish)
    if reply.dropped:
        parts.append(f"{reply.dropped} oldest messages dropped")
    if reply.answered_by is not None:
        parts.append(f"by {reply.answered_by}")
    return ", ".join(parts)
