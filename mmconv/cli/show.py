"""`mmconv show`: the transcript of a sample: prompts as they were sent, and what came back.

A prompt is printed before a model's processor, which may scale or crop an image, and before its
chat template. With `--raw` the model's provider makes the text of the tokenizer again, from what
its checkpoint and its options are today. No request is sent, and nothing is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

import click

from mmconv.cli.shared.basics import FILE, visible
from mmconv.cli.shared.progress import counted
from mmconv.cli.shared.run_folders import open_existing
from mmconv.core.documents import nearest
from mmconv.core.errors import ConfigError, ImageError, Refused
from mmconv.core.plans import Finished, Origin, ResolvedCall
from mmconv.core.protocols import RawPrompt, Renderer
from mmconv.core.turns import without_oldest
from mmconv.core.types import Failure, Image, Outcome, Reply, Skipped, Text
from mmconv.engine.run import Evaluation
from mmconv.report.changed_inputs import check_unchanged, describe_gone
from mmconv.run_folder.transcripts import judged_as
from model_zoo.providers import provider_of

Kept = TypeVar("Kept")

PromptPrinter: TypeAlias = Callable[[ResolvedCall, Outcome], Iterator[str]]

INDENT = "    "
_BREAK = "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}"
_SPACE = "\N{OPEN BOX}"
_ORIGINS: Mapping[Origin, str] = {
    "given": "",
    "own": ", the model's own turn",
    "reference": ", reference turn",
    "prompt_file": ", from the prompt file",
    "model_file": ", from the model file",
}


@click.command(name="show")
@click.argument("run", type=FILE)
@click.argument("sample", default="")
@click.option("--condition", default="", help="Only this condition.")
@click.option("--judge", "with_judge", is_flag=True, help="Print the judges' prompts in full too.")
@click.option("--raw", is_flag=True, help="Print prompts as the tokenizer receives them.")
def show_command(run: Path, sample: str, condition: str, *, with_judge: bool, raw: bool) -> None:
    """Show the prompts and replies of SAMPLE of RUN (a run's folder).

    Without SAMPLE, list the samples and how many of their calls are answered. No request is sent:
    prompts are planned again, and replies come from the cache.

    With --raw a prompt is the text that the model's chat template makes today, with its number of
    tokens and what the processor makes of images. This works for checkpoints of the providers hf
    and vllm on this machine, and loads no weights.
    """
    if raw and not sample:
        raise click.UsageError(f"--raw needs a SAMPLE: `mmconv show {run}` lists them")
    asyncio.run(_show(run.absolute(), sample, condition, with_judge=with_judge, raw=raw))


async def _show(folder: Path, sample: str, condition: str, *, with_judge: bool, raw: bool) -> None:
    async with open_existing(folder) as evaluation:
        known = evaluation.benchmark.conditions
        if condition and condition not in known:
            raise ConfigError(f"{folder} has no condition {condition!r}{nearest(condition, known)}")
        if not sample:
            # one line of each is kept: a run's prompts and replies may not fit into memory
            lines = await _finished(evaluation, sample, condition, _summarize)
            for line in (*lines, *describe_gone(evaluation.manifest().gone)):
                click.echo(visible(line))
            return
        finished = await _finished(evaluation, sample, condition, lambda plan: plan)
        prompts: PromptPrinter = as_messages
        if raw:
            prompts = await asyncio.to_thread(_open_raw, evaluation, finished, with_judge)
    if not finished:
        raise ConfigError(f"{folder} has no sample {sample!r}; `mmconv show {folder}` lists them")
    for each in finished:
        click.echo(visible("\n".join(transcript(each, prompts, with_judge=with_judge))))


def _summarize(finished: Finished) -> str:
    plan = finished.plan
    outcomes = [finished.outcomes[call.id] for call in plan.calls]
    answered = sum(isinstance(outcome, Reply) for outcome in outcomes)
    skipped = sum(isinstance(each, Skipped) and each.reason == "same_text" for each in outcomes)
    count = len(outcomes) - skipped
    return f"{plan.sample}  {plan.condition}: {answered} of {count} calls answered"


async def _finished(
    evaluation: Evaluation, sample: str, condition: str, keep: Callable[[Finished], Kept]
) -> list[Kept]:
    plans = (
        plan
        for plan, _ in evaluation.plans()
        if sample in ("", plan.sample) and condition in ("", plan.condition)
    )
    kept: dict[int, Kept] = {}

    def take(finished: Finished) -> None:
        kept[finished.plan.order] = keep(finished)

    runner = evaluation.runner(offline=True)
    await runner.run(plans, take)
    store = evaluation.place.absolute_store
    check_unchanged(evaluation.folder, evaluation.manifest(), runner.stats, store)
    return [kept[order] for order in sorted(kept)]


def transcript(
    finished: Finished, prompts: PromptPrinter | None = None, *, with_judge: bool = False
) -> Iterator[str]:
    """The lines of one sample under one condition, call by call."""
    yield f"=== sample {finished.plan.sample}, condition {finished.plan.condition}"
    for each in finished.exchanges():
        call, outcome = each.call, each.outcome
        yield ""
        yield f"--- {call.id} (requested from: {call.model})"
        if call.prompt is not None:
            hidden = "" if with_judge else " (--judge prints it filled in)"
            yield f"prompt file {call.prompt}{hidden}"
        if each.resolved is not None and (call.prompt is None or with_judge):
            yield from (prompts or as_messages)(each.resolved, outcome)
        yield from _outcome(outcome)
        if call.parser is not None and isinstance(outcome, Reply):
            yield f"read as: {judged_as(call, outcome)}"


def _outcome(outcome: Outcome) -> Iterator[str]:
    if isinstance(outcome, Failure):
        yield f"FAILED ({outcome.kind}, {outcome.attempts} attempts): {outcome.message}"
        return
    if isinstance(outcome, Skipped):
        yield f"SKIPPED: {outcome.because}"
        return
    if outcome.reasoning is not None:
        yield "[reasoning, kept apart]"
        yield from (INDENT + row for row in outcome.reasoning.split("\n"))
    yield "[reply]"
    yield from (INDENT + row for row in outcome.text.split("\n"))
    facts = [f"{outcome.seconds:.2f} s"]
    if outcome.output_tokens is not None:
        tokens = counted(outcome.input_tokens or 0, "token")
        facts.insert(0, f"{tokens} in, {outcome.output_tokens} out")
    if outcome.finish != "stop":
        facts.append("CUT OFF at max_tokens" if outcome.finish == "length" else outcome.finish)
    if outcome.dropped:
        facts.append(f"{outcome.dropped} oldest messages dropped")
    if outcome.answered_by is not None:
        facts.append(f"by {outcome.answered_by}")
    yield ", ".join(facts)


def as_messages(resolved: ResolvedCall, outcome: Outcome) -> Iterator[str]:
    """The lines of the messages that were sent, and the form in which images were sent."""
    for message, origin in zip(resolved.messages, resolved.origins, strict=True):
        yield f"[{message.role}{_ORIGINS[origin]}]"
        for part in message.parts:
            if isinstance(part, Text):
                yield from (INDENT + row for row in part.text.split("\n"))
            elif isinstance(part, Image):
                yield f"{INDENT}<{_name(part)}{_sent_as(part, outcome)}>"


def _name(image: Image) -> str:
    return f"image {image.sha256[:12]}, {image.media_type}, {image.width}x{image.height}"


def _sent_as(image: Image, outcome: Outcome) -> str:
    for seen in outcome.seen if isinstance(outcome, Reply) else ():
        if seen.sha256 == image.sha256:
            kind = f"{seen.media_type}, " if seen.media_type else ""
            return f", sent as {kind}{seen.width}x{seen.height}"
    return ""


def _open_raw(
    evaluation: Evaluation, finished: Sequence[Finished], with_judge: bool
) -> PromptPrinter:
    """What prints raw prompts; says first which model roles have none, and the reason. Blocks.

    Raises `ConfigError` as `open_renderer` of `Provider` does.
    """
    roles = dict.fromkeys(
        resolved.call.model
        for each in finished
        for resolved in each.resolved.values()
        if resolved.call.prompt is None or with_judge
    )
    renderers: dict[str, Renderer | None] = {}
    for role in roles:
        model = evaluation.spec.models[role]
        renderer = provider_of(model).open_renderer(model, evaluation.resources.library)
        renderers[role] = renderer
        note = f"no raw prompts: the provider {model.provider} does not write them"
        if renderer is not None:
            note = renderer.note
        if note:
            click.echo(visible(f"{role} ({model.label}): {note}"))
    return as_raw(renderers)


def as_raw(renderers: Mapping[str, Renderer | None]) -> PromptPrinter:
    """Prints raw prompts, or messages if no renderer can write them."""

    def lines(resolved: ResolvedCall, outcome: Outcome) -> Iterator[str]:
        renderer = renderers[resolved.call.model]
        if renderer is None:
            yield from as_messages(resolved, outcome)
            return
        messages = resolved.messages
        for _ in range(outcome.dropped if isinstance(outcome, Reply) else 0):
            messages = without_oldest(messages, resolved.call.pinned) or messages
        try:
            prompt = renderer(messages)
        except (Refused, ImageError) as error:
            yield from as_messages(resolved, outcome)
            yield f"no raw prompt: {error}"
            return
        yield f"[raw prompt; {_BREAK} is a line break, {_SPACE} a space at its end]"
        *rows, last = prompt.text.split("\n")
        yield from (f"{INDENT}{row}{_BREAK}" for row in rows)
        if last:
            text = last.rstrip(" ")
            yield INDENT + text + _SPACE * (len(last) - len(text))
        yield _tokens(prompt, outcome)
        images = [image for message in messages for image in message.images]
        for image, (width, height) in zip(images, prompt.images, strict=True):
            yield f"<{_name(image)}, received by the processor as {width}x{height}>"
        if prompt.tensors:
            shapes = (f"{name} {'x'.join(map(str, size))}" for name, size in prompt.tensors.items())
            count = prompt.image_tokens or "unknown number of"
            yield f"images: {count} tokens; {', '.join(shapes)}"

    return lines


def _tokens(prompt: RawPrompt, outcome: Outcome) -> str:
    recorded = outcome.input_tokens if isinstance(outcome, Reply) else None
    if recorded is None:
        remark = "none recorded"
    elif recorded == prompt.tokens:
        remark = "as recorded"
    else:
        remark = f"but {recorded} were recorded: the model received a different prompt"
    added = f"; the tokenizer adds {' '.join(prompt.added)}" if prompt.added else ""
    return f"{prompt.tokens} tokens in, {remark}{added}"
