"""`python -m model_zoo.pocket.train --out FOLDER`: makes the weights of the pocket model.

A script for a clone: the package does not import it, and wheels do not contain it. The finished
checkpoint is FOLDER, as transformers saves and loads it. There are three stages:

1. sight: the vision tower alone learns to say of every patch what it shows, by linear heads that
   are thrown away afterwards;
2. language: the decoder alone learns the later turns of dialogues, from what was said before;
3. joint: both together, first turns and whole dialogues with images.

The log shows the loss; `python -m tests.bench.pocket` counts the exact answers of a checkpoint.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import click
import torch
import transformers
from torch import nn
from torch.nn import functional

from model_zoo.pocket import recipe
from model_zoo.pocket.recipe import ASPECTS, IGNORED, Ids, Texts, build_model, build_processor

_library: Any = transformers

_WARM_UP = 200
_LAST_RATE = 0.03
_SIGHT_KEPT = 0.1


class Stage(NamedTuple):
    """How long a stage trains, in `steps` of `size` samples, and its highest learning rate."""

    name: str
    steps: int
    size: int
    rate: float


STAGES = (
    Stage("sight", steps=1000, size=96, rate=1e-3),
    Stage("language", steps=1000, size=64, rate=1.5e-3),
    Stage("joint", steps=1100, size=96, rate=8e-4),
)


class Pupil(nn.Module):
    """The model with the heads that help to train its vision tower."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        # plain attention: on CPUs the fused one takes twice as long backwards at this size
        model.set_attn_implementation("eager")
        self.model = model
        width = model.config.vision_config.hidden_size
        self.norm = nn.LayerNorm(width)
        self.heads = nn.ModuleList(nn.Linear(width, labels) for labels in ASPECTS)

    def features(self, pictures: torch.Tensor) -> torch.Tensor:
        """The input of the decoder's projector: (rows, patches, width)."""
        seen = self.model.model.vision_tower(pictures)
        return seen.last_hidden_state[:, 1:]  # type: ignore[no-any-return]  # untyped library

    def patch_loss(self, features: torch.Tensor, patches: torch.Tensor) -> torch.Tensor:
        """How badly the heads read each patch off its features."""
        normed = self.norm(features)
        losses = [
            functional.cross_entropy(head(normed).flatten(0, 1).float(), patches[..., k].flatten())
            for k, head in enumerate(self.heads)
        ]
        return torch.stack(losses).sum()

    def predictions(self, texts: Texts, features: torch.Tensor | None) -> torch.Tensor:
        """Scores of each next token (rows, length, words), the picture behind the first token."""
        inner = self.model.model
        embedded = inner.get_input_embeddings()(texts.ids)
        patches = 0
        if features is not None:
            shown = inner.multi_modal_projector(features)
            patches = shown.shape[1]
            embedded = torch.cat([embedded[:, :1], shown, embedded[:, 1:]], dim=1)
        hidden = inner.language_model(inputs_embeds=embedded).last_hidden_state
        return self.model.lm_head(hidden[:, patches:])  # type: ignore[no-any-return]  # untyped

    def text_loss(self, texts: Texts, features: torch.Tensor | None = None) -> torch.Tensor:
        """Cross-entropy of the answers to be learnt, per token."""
        scores = self.predictions(texts, features)[:, :-1].float()
        return functional.cross_entropy(
            scores.flatten(0, 1), texts.labels[:, 1:].flatten(), ignore_index=IGNORED
        )


def batch_loss(stage: Stage, number: int, pupil: Pupil, known: Ids) -> torch.Tensor:
    """The loss of step `number`."""
    if stage.name == "sight":
        views = recipe.sight(number, stage.size)
        return pupil.patch_loss(pupil.features(views.pictures), views.patches)
    if stage.name == "language":
        return pupil.text_loss(recipe.language(number, stage.size, known))
    whole = stage.size // 3
    total = torch.zeros(())
    for views, texts in (
        recipe.looking(number, stage.size - whole, known),
        recipe.conversing(number, whole, known),
    ):
        features = pupil.features(views.pictures)
        total = total + pupil.text_loss(texts, features)
        total = total + _SIGHT_KEPT * pupil.patch_loss(features, views.patches)
    return total


def train_stage(pupil: Pupil, stage: Stage, known: Ids) -> None:
    """Train one stage to its end."""
    optimiser = torch.optim.AdamW(
        pupil.parameters(), stage.rate, betas=(0.9, 0.98), weight_decay=0.02
    )
    for number in range(stage.steps):
        for group in optimiser.param_groups:
            group["lr"] = stage.rate * _share_of_rate(number, stage.steps)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = batch_loss(stage, number, pupil, known)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        nn.utils.clip_grad_norm_(pupil.parameters(), 1.0)
        optimiser.step()
        if (number + 1) % 100 == 0:
            progress = f"{number + 1}/{stage.steps}: loss {float(loss.detach()):.3f}"
            click.echo(f"{stage.name} {progress}")


def _share_of_rate(number: int, steps: int) -> float:
    """Linear warm-up, then half a cosine."""
    if number < _WARM_UP:
        return (number + 1) / _WARM_UP
    done = (number - _WARM_UP) / max(steps - _WARM_UP, 1)
    return _LAST_RATE + (1 - _LAST_RATE) * (1 + math.cos(math.pi * done)) / 2


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option(
    "--steps",
    type=click.IntRange(1),
    nargs=3,
    default=tuple(stage.steps for stage in STAGES),
    show_default=True,
    help="Steps of the stages sight, language and joint.",
)
def main(out: Path, steps: tuple[int, int, int]) -> None:
    """Train the pocket model from scratch on drawn scenes, on two cores of the CPU."""
    torch.set_num_threads(2)
    _library.utils.logging.disable_progress_bar()
    train(out, [stage._replace(steps=n) for stage, n in zip(STAGES, steps, strict=True)])


def train(out: Path, stages: list[Stage]) -> None:
    """Run the stages sight, language and joint, and save the checkpoint in the folder `out`."""
    processor = build_processor(_library)
    known = processor.tokenizer.get_vocab()
    sight, language, joint = stages
    pupils = {}
    for stage in (sight, language):
        torch.manual_seed(0)
        pupils[stage.name] = Pupil(build_model(_library, processor.tokenizer))
        train_stage(pupils[stage.name], stage, known)
    pupil = pupils["sight"]
    pupil.model.model.language_model.load_state_dict(
        pupils["language"].model.model.language_model.state_dict()
    )
    train_stage(pupil, joint, known)
    # float16 on disk, float32 when loaded
    model = pupil.model.half()
    model.save_pretrained(out)
    model.config.dtype = torch.float32
    model.config.save_pretrained(out)
    processor.save_pretrained(out)


if __name__ == "__main__":
    main()
