"""`python -m model_zoo.pocket.train --out FOLDER`: makes the weights of the pocket model.

The stages are those of `model_zoo.pocket.training`; README.md tells how the shipped weights were
made. A run that was stopped goes on with `--resume`, from the last checkpoint in FOLDER. The
finished checkpoint lies in FOLDER/weights, as transformers saves and loads it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import torch
import transformers

from model_zoo.pocket.architecture import build_model, build_processor
from model_zoo.pocket.training import Lesson, Pupil, Stage, train_stage

_library: Any = transformers

SIGHT = Stage(name="sight", steps=1000, size=96, rate=1e-3)
LANGUAGE = Stage(name="language", steps=1000, size=64, rate=1.5e-3)
JOINT = Stage(name="joint", steps=1100, size=96, rate=8e-4)
SEED = 0


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option(
    "--steps",
    type=click.IntRange(1),
    nargs=3,
    default=(SIGHT.steps, LANGUAGE.steps, JOINT.steps),
    show_default=True,
    help="Steps of the stages sight, language and joint.",
)
@click.option("--resume", is_flag=True, help="Go on from the checkpoints in the folder.")
@click.option("--threads", type=click.IntRange(1), default=2, show_default=True)
def main(out: Path, steps: tuple[int, int, int], resume: bool, threads: int) -> None:
    """Train the pocket model from scratch on drawn scenes, on the CPU."""
    if not resume and any(out.glob("*.pt")):
        raise click.UsageError(f"{out} holds checkpoints: give --resume, or another folder")
    torch.set_num_threads(threads)
    _library.utils.logging.disable_progress_bar()
    stages = [
        Stage(name=stage.name, steps=count, size=stage.size, rate=stage.rate)
        for stage, count in zip((SIGHT, LANGUAGE, JOINT), steps, strict=True)
    ]
    train(out, stages)


def train(out: Path, stages: list[Stage]) -> Path:
    """Run the stages sight, language and joint; returns the folder of the finished checkpoint."""
    out.mkdir(parents=True, exist_ok=True)
    processor = build_processor(_library)
    known = processor.tokenizer.get_vocab()
    sight, language, joint = stages
    pupils = {}
    for stage in (sight, language):
        pupils[stage.name] = _fresh(processor)
        train_stage(pupils[stage.name], Lesson(stage, known), out, _report)
    pupil = pupils["sight"]
    pupil.model.model.language_model.load_state_dict(
        pupils["language"].model.model.language_model.state_dict()
    )
    train_stage(pupil, Lesson(joint, known), out, _report)
    return save(pupil, processor, out / "weights")


def save(pupil: Pupil, processor: Any, folder: Path) -> Path:
    """Write model and processor as a checkpoint: float16 on disk, float32 when loaded."""
    model = pupil.model.half()
    model.save_pretrained(folder)
    model.config.dtype = torch.float32
    model.config.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _fresh(processor: Any) -> Pupil:
    torch.manual_seed(SEED)
    return Pupil(build_model(_library, processor.tokenizer))


def _report(line: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {line}")


if __name__ == "__main__":
    main()
