"""The training of the pocket model: what it is fed is what the model will meet."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from images.drawn.canvas import png
from images.drawn.shapes import COLOURS, SHAPES, paint
from images.drawn.truth import Dialogue
from model_zoo.pocket import recipe
from model_zoo.pocket.recipe import IGNORED, build_model, build_processor
from model_zoo.pocket.train import Pupil, Stage, train

ROOT = Path(__file__).parents[3]
LIBRARY: Any = transformers
SAMPLES = [recipe.draw_sample("tests", 0, number) for number in range(12)]


@pytest.fixture(scope="module")
def processor() -> Any:
    return build_processor(LIBRARY)


@pytest.fixture(scope="module")
def pupil(processor: Any) -> Pupil:
    torch.manual_seed(0)
    return Pupil(build_model(LIBRARY, processor.tokenizer)).eval()


def conversation(dialogue: Dialogue) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for number, turn in enumerate(dialogue.turns):
        image = [{"type": "image"}] if number == 0 else []
        asked = [*image, {"type": "text", "text": turn.instruction}]
        messages.append({"role": "user", "content": asked})
        told = [{"type": "text", "text": turn.reference}]
        messages.append({"role": "assistant", "content": told})
    return messages


def test_dialogues_are_fed_as_the_chat_template_writes_them(processor: Any) -> None:
    known = processor.tokenizer.get_vocab()
    for sample in SAMPLES:
        fed = recipe.texts([sample[1]], known, 3, [{1, 2, 3}])
        written = processor.apply_chat_template(conversation(sample[1]), tokenize=False)
        ids = processor.tokenizer(written)["input_ids"]
        ids.remove(processor.tokenizer.image_token_id)
        assert fed.ids[0, : len(ids)].tolist() == ids
        assert set(fed.ids[0, len(ids) :].tolist()) <= {processor.tokenizer.pad_token_id}


def test_answers_and_their_ends_are_the_labels(processor: Any) -> None:
    known = processor.tokenizer.get_vocab()
    dialogue = SAMPLES[0][1]
    fed = recipe.texts([dialogue], known, 3, [{2, 3}])
    learnt = fed.labels[0][fed.labels[0] != IGNORED]
    told = "<end>".join([dialogue.turns[1].reference, dialogue.turns[2].reference, ""])
    assert processor.tokenizer.decode(learnt) == told
    assert torch.equal(learnt, fed.ids[0][fed.labels[0] != IGNORED])


def test_pictures_are_fed_as_the_processor_scales_them(processor: Any) -> None:
    from images.policy import Policy, prepare_pixels
    from mmconv.core.types import Image

    scene = SAMPLES[0][0]
    image = Image(sha256="0" * 64, media_type="image/png", width=256, height=256)
    picture = prepare_pixels(png(paint(scene)), image, Policy())
    met = processor.image_processor(images=picture, return_tensors="pt")["pixel_values"]
    fed = recipe.views([scene]).pictures
    # torchvision, where it is installed, rounds a few values to the next of the 256 levels
    assert torch.allclose(fed, met.float(), atol=0.01)


def test_the_pupil_predicts_what_the_saved_model_predicts(processor: Any, pupil: Pupil) -> None:
    sample = SAMPLES[1]
    known = processor.tokenizer.get_vocab()
    fed = recipe.texts([sample[1]], known, 3, [{1, 2, 3}])
    views = recipe.views([sample[0]])
    length = int((fed.ids[0] != processor.tokenizer.pad_token_id).sum())
    with torch.no_grad():
        ours = pupil.predictions(fed, pupil.features(views.pictures))[0, :length]
        image = torch.full((64,), processor.tokenizer.image_token_id)
        ids = torch.cat([fed.ids[0, :1], image, fed.ids[0, 1:length]])[None]
        whole = pupil.model(
            input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=views.pictures
        ).logits[0]
    assert torch.allclose(ours, whole[64:], atol=1e-4)


def test_patches_are_labelled_by_the_thing_they_show() -> None:
    scene = SAMPLES[2][0]
    labels = recipe.views([scene]).patches[0]
    for place, thing in enumerate(scene.things, start=1):
        patch = int(thing.y * 8) * 8 + int(thing.x * 8)
        if labels[patch, 3] == place:
            assert labels[patch, 0] == COLOURS.index(thing.colour) + 1
            assert labels[patch, 1] == SHAPES.index(thing.shape) + 1
    assert {int(place) for place in labels[:, 3]} - {0} == set(range(1, len(scene.things) + 1))
    assert bool(((labels == 0).all(1) | (labels > 0).all(1)).all())


STEPS = {"sight": 2, "language": 1, "joint": 3}


def test_training_is_reproducible_and_its_checkpoint_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # emulated by most CPUs, which takes five times as long
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    stages = [Stage(name=name, steps=STEPS[name], size=6, rate=1e-3) for name in STEPS]
    for folder in ("first", "second"):
        train(tmp_path / folder, stages)
    files = [tmp_path / folder / "model.safetensors" for folder in ("first", "second")]
    assert files[0].read_bytes() == files[1].read_bytes()
    model = LIBRARY.AutoModelForImageTextToText.from_pretrained(tmp_path / "first")
    assert model.dtype == torch.float32
    processor = LIBRARY.AutoProcessor.from_pretrained(tmp_path / "first")
    assert processor.tokenizer.image_token == "<image>"


def test_the_package_imports_nothing_of_the_training() -> None:
    code = (
        "import sys; from importlib import import_module;"
        "from model_zoo.providers import PROVIDERS;"
        "[import_module(path) for path in PROVIDERS.values()]; import mmconv.cli.evaluating;"
        "sys.exit(any(name in sys.modules for name in sys.argv[1:]))"
    )
    training = ["model_zoo.pocket.train", "model_zoo.pocket.recipe"]
    subprocess.run([sys.executable, "-c", code, *training], cwd=ROOT, check=True)
    excluded = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    files = [f"{name.replace('.', '/')}.py" for name in training]
    assert excluded["targets"]["wheel"]["exclude"] == files
