"""Tiny checkpoints with random weights, for tests without a hub.

They are real architectures in miniature (under a million parameters each), saved as hub
checkpoints are, and load through the same code. They know nothing: their replies are noise.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mmconv.core.errors import ConfigError
from tests.tiny_checkpoints.families import FAMILIES, Family
from tests.tiny_checkpoints.parts import chat_template, train_tokenizer

__all__ = ["FAMILIES", "Family", "make_checkpoint"]


def make_checkpoint(family: str, folder: Path | str, seed: int = 0) -> Path:
    """Save a tiny checkpoint of `family` in `folder` and return the folder.

    The same seed gives the same weights; the caller's random state is left alone. Raises
    `ConfigError` for a family that is not in `FAMILIES`.
    """
    if family not in FAMILIES:
        raise ConfigError(f"no tiny family {family!r}; there are: {', '.join(FAMILIES)}")
    import transformers

    with _quiet(transformers.utils.logging):
        return _save(FAMILIES[family], Path(folder), seed)


def _save(recipe: Family, path: Path, seed: int) -> Path:
    import torch
    import transformers

    tokenizer = train_tokenizer(transformers, recipe.tokens)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, processor = recipe.build(transformers, tokenizer)
        for name, parameter in model.named_parameters():
            if not name.endswith("bias") and not parameter.any():
                # gates, queries and projections that start at zero would hide the picture
                torch.nn.init.uniform_(parameter, 0.5, 1.5)
    saved = tokenizer if processor is None else processor
    if recipe.template:
        saved.chat_template = chat_template(recipe.image)
    model.save_pretrained(path)
    saved.save_pretrained(path)
    return path


@contextmanager
def _quiet(logging: Any) -> Iterator[None]:
    """No progress bars and advice while a checkpoint of half a megabyte is written."""
    verbosity = logging.get_verbosity()
    shown = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()
