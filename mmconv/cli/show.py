"""`mmconv show`: the transcript of a sample, as it was sent to the models.

That is before a model's own processor, which may scale or crop a picture, and its chat template.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import click

from mmconv.cli.option_values import FILE
from mmconv.cli.run_folders import enter_run
from mmconv.config import nearest
from mmconv.errors import ConfigError
from mmconv.evaluation import Evaluation, open_evaluation
from mmconv.plans import Asked, Finished
from mmconv.report.changes import check_shown
from mmconv.report.transcripts import judged_as
from mmconv.values import Failure, Image, Message, Outcome, Ref, Reply, Skipped, Text

INDENT = "    "


@click.command(name="show")
@click.argument("run", type=FILE)
@click.argument("sample", default="")
@click.option("--condition", default="", help="Only this condition.")
@click.option("--judge", "with_judge", is_flag=True, help="Print the judges' prompts in full too.")
def command(run: Path, sample: str, condition: str, with_judge: bool) -> None:
    """Show what was sent and what came back for SAMPLE of RUN (a run's folder).

    Without SAMPLE, list the samples with how far they are. Nothing is asked: prompts are planned
    again and replies read from the store.
    """
    asyncio.run(_show(run.absolute(), sample, condition, with_judge))


async def _show(folder: Path, sample: str, condition: str, with_judge: bool) -> None:
    spec, place, shard = enter_run(folder)
    async with open_evaluation(spec, place, shard, create=False, folder=folder) as evaluation:
        known = evaluation.benchmark.conditions
        if condition and condition not in known:
            raise ConfigError(f"{folder} has no condition {condition!r}{nearest(condition, known)}")
        found = await _finished(evaluation, sample, condition)
    if sample and not found:
        raise ConfigError(f"{folder} has no sample {sample!r}; `mmconv show {folder}` lists them")
    for finished in found:
        if sample:
            click.echo("\n".join(transcript(finished, with_judge=with_judge)))
        else:
            click.echo(_how_far(finished))


def _how_far(finished: Finished) -> str:
    """How many calls are answered, however often they were asked, of those that had to be."""
    plan = finished.plan
    outcomes = [finished.outcomes[call.id] for call in plan.calls]
    answered = sum(isinstance(each, Reply) for each in outcomes)
    needless = sum(isinstance(each, Skipped) and each.reason == "same_text" for each in outcomes)
    count = len(outcomes) - needless
    return f"{plan.sample}  {plan.condition}: {answered} of {count} calls answered"


async def _finished(evaluation: Evaluation, sample: str, condition: str) -> list[Finished]:
    """What the store holds of the chosen calls; raises `DataError` as `check_shown` does."""
    chosen = (
        plan
        for plan, _ in evaluation.plans()
        if sample in ("", plan.sample) and condition in ("", plan.condition)
    )
    found: list[Finished] = []
    runner = evaluation.runner(offline=True)
    await runner.run(chosen, found.append)
    unasked = sum(seat.unasked for seat in runner.tally.seats.values())
    if unasked:
        store = evaluation.place.absolute_store
        check_shown(evaluation.folder, evaluation.manifest(), unasked, store)
    return sorted(found, key=lambda finished: finished.plan.order)


def transcript(finished: Finished, *, with_judge: bool = False) -> Iterator[str]:
    """The lines that tell one sample under one condition, call by call."""
    yield f"=== sample {finished.plan.sample}, condition {finished.plan.condition}"
    for call in finished.plan.calls:
        for each in (call, *call.rescues):
            outcome = finished.outcomes.get(each.id)
            if outcome is None:
                continue
            asked = finished.asked.get(each.id)
            yield ""
            yield f"--- {each.id} (asked of: {each.seat})"
            if each.prompt is not None:
                hidden = "" if with_judge else " (--judge prints it filled in)"
                yield f"prompt file {each.prompt}{hidden}"
            if asked is not None and (each.prompt is None or with_judge):
                yield from _sent(asked, outcome)
            yield from _came_back(outcome)
            if each.parser is not None and isinstance(outcome, Reply):
                yield f"read as: {judged_as(each.parser, outcome.text)}"


def _sent(asked: Asked, outcome: Outcome) -> Iterator[str]:
    origins = _origins(asked)
    for message, origin in zip(asked.messages, origins, strict=True):
        yield f"[{message.role}{origin}]"
        for part in message.parts:
            if isinstance(part, Text):
                yield from (INDENT + row for row in part.text.splitlines())
            elif isinstance(part, Image):
                yield INDENT + _picture(part, outcome)


def _origins(asked: Asked) -> list[str]:
    """Where each message's text comes from: planned messages tell, resolved ones do not."""
    own = len(asked.messages) - len(asked.call.messages)
    filled = asked.call.prompt is not None
    planned = [_origin(message, filled=filled) for message in asked.call.messages]
    return [*[", the model file's"] * own, *planned]


def _origin(message: Message, *, filled: bool) -> str:
    """Where a planned message is from; a `filled` prompt file has turns that nobody said."""
    if message.role != "assistant":
        return ""
    if any(isinstance(part, Ref) for part in message.parts):
        return ", the model's own turn"
    return ", the prompt file's" if filled else ", reference turn"


def _picture(image: Image, outcome: Outcome) -> str:
    text = f"<image {image.sha256[:12]}, {image.media_type}, {image.width}x{image.height}"
    if isinstance(outcome, Reply):
        for seen in outcome.seen:
            if seen.sha256 == image.sha256:
                return f"{text}, sent as {seen.width}x{seen.height}>"
    return f"{text}>"


def _came_back(outcome: Outcome) -> Iterator[str]:
    if isinstance(outcome, Failure):
        yield f"FAILED ({outcome.kind}, {outcome.attempts} attempts): {outcome.message}"
    elif isinstance(outcome, Skipped):
        yield f"SKIPPED: {outcome.because}"
    else:
        if outcome.reasoning is not None:
            yield "[thought aloud, kept apart]"
            yield from (INDENT + row for row in outcome.reasoning.splitlines())
        yield "[reply]"
        yield from (INDENT + row for row in outcome.text.splitlines())
        yield _facts(outcome)


def _facts(reply: Reply) -> str:
    parts = [f"{reply.seconds:.2f} s"]
    if reply.output_tokens is not None:
        parts.insert(0, f"{reply.input_tokens} tokens in, {reply.output_tokens} out")
    if reply.finish != "stop":
        parts.append("CUT OFF at max_tokens" if reply.finish == "length" else reply.finish)
    if reply.dropped:
        parts.append(f"{reply.dropped} oldest messages dropped")
    return ", ".join(parts)
