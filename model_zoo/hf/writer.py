"""Loads what writes a checkpoint's prompts: its tokenizer and its processor, no weights.

What a checkpoint is (image-text, text, encoder-decoder) is read off its configuration, never off
its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from mmconv.core.user_code import telling
from model_zoo.chat_templates import default_template
from model_zoo.checkpoints import check_files, is_local
from model_zoo.hf.options import HfOptions, Kind, require_template, takes_images

# most of its loaders are untyped
_library: Any = transformers

_PACKAGES = {
    "accelerate": "'mmconv[hf]'",
    "bitsandbytes": "'mmconv[quant]'",
    "einops": "einops",
    "flashattention2": "flash-attn --no-build-isolation",
    "flash_attn": "flash-attn --no-build-isolation",
    "num2words": "num2words torchvision",
    "sentencepiece": "sentencepiece",
    "tiktoken": "tiktoken",
    "timm": "timm",
    "torchvision": "torchvision",
}
"""What brings the libraries that an error may speak of, in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """What turns conversations into a checkpoint's inputs.

    `processor` is None where the model sees no images. `one_image` says that the architecture (a
    Q-Former) takes exactly one image, at the front.
    """

    tokenizer: Any
    processor: Any | None
    one_image: bool


@contextmanager
def naming(spec: ModelSpec) -> Iterator[None]:
    """Raise what transformers raises of a checkpoint as a `ConfigError` that names the model."""
    try:
        yield
    except ImportError as error:
        lacks = "needs a library that is not installed"
        if "cannot import name" in str(error):
            lacks = "cannot be loaded by this version of its libraries"
        raise ConfigError(
            f"model {spec.label}: {lacks}: {short(error)}{_installed_by(error)}"
        ) from error
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"model {spec.label}: cannot be loaded: {short(error)}") from error


def foreign_code(spec: ModelSpec, options: HfOptions) -> AbstractContextManager[None]:
    """What code that the checkpoint brings raises in here comes out as an `OwnCodeError`."""
    if not options.trust_remote_code:
        return nullcontext()
    return telling(
        f"model {spec.label}: the code that the checkpoint brings",
        f"It may be written for another version of transformers than {transformers.__version__}; "
        "the checkpoint's own page often names one.",
    )


def short(error: BaseException) -> str:
    """An exception's first lines, on one line: libraries append pages of advice."""
    return " ".join(str(error).split())[:400]


def _installed_by(error: ImportError) -> str:
    """How to install what an error speaks of; empty for libraries that are not known here."""
    said = str(error).lower()
    packages = dict.fromkeys(package for sign, package in _PACKAGES.items() if sign in said)
    return f"; run: pip install {' '.join(packages)}" if packages else ""


def origin(name: str, options: HfOptions) -> tuple[str, dict[str, Any]]:
    """Where transformers finds a checkpoint, as the arguments of its loaders."""
    source = str(Path(name).expanduser()) if is_local(name) else name
    if is_local(name) and not Path(source).is_dir():
        raise ConfigError(f"model {name}: there is no such folder; give a checkpoint's folder")
    told: dict[str, Any] = {"trust_remote_code": options.trust_remote_code}
    if options.revision is not None:
        told["revision"] = options.revision
    return source, told


def load_writer(name: str, options: HfOptions, *, download: bool = True) -> tuple[Writer, Kind]:
    """The tokenizer and processor of a checkpoint, and what it is.

    Without `download` a hub name's files must have been downloaded before. Raises `ConfigError` for
    a checkpoint that has no chat template and needs one, and what transformers raises.
    """
    source, told = origin(name, options)
    check_files(source, images=takes_images(options))
    if not download:
        told["local_files_only"] = True
    config = _library.AutoConfig.from_pretrained(source, **told)
    kind = detect_kind(config) if options.kind == "auto" else options.kind
    processor = None
    if kind == "image-text":
        processor = _library.AutoProcessor.from_pretrained(source, **told)
        tokenizer = getattr(processor, "tokenizer", processor)
        processor = None if tokenizer is processor else processor
    else:
        tokenizer = _library.AutoTokenizer.from_pretrained(source, **told)
    if options.chat_template is None and not _has_template(processor, tokenizer):
        require_template(name, config.model_type)
    writer = Writer(tokenizer=tokenizer, processor=processor, one_image=takes_one_image(config))
    return writer, kind


def _has_template(processor: Any | None, tokenizer: Any) -> bool:
    held = (getattr(each, "chat_template", None) for each in (processor, tokenizer))
    return any(map(default_template, held))


def detect_kind(config: Any) -> Kind:
    """What a configuration describes: a model that sees images, an encoder-decoder, or neither."""
    if config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        return "image-text"
    if getattr(config, "vision_config", None) is not None:
        return "image-text"
    return "encoder-decoder" if config.is_encoder_decoder else "text"


def takes_one_image(config: Any) -> bool:
    """Whether a configuration describes a model that asks an image through a Q-Former."""
    return getattr(config, "qformer_config", None) is not None
