"""Loads a checkpoint from a folder or the hub: tokenizer and processor, then weights and settings.

What a checkpoint is (image-text, text, encoder-decoder) is read off its configuration, never off
its name. Nothing is generated here.
"""

from __future__ import annotations

import inspect
import logging
import math
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError, MmconvError, UserCodeError
from model_zoo.chat_templates import default_template
from model_zoo.checkpoints import check_files, is_local, list_first, weight_files
from model_zoo.hf.options import HfOptions, Kind, refuse_adapter, require_template
from model_zoo.hf.process import LOAD_LOCK, is_out_of_memory
from model_zoo.hf.prompts import Writer

# most of its loaders are untyped
_library: Any = transformers

_AUTO_CLASSES: dict[Kind, str] = {
    "image-text": "AutoModelForImageTextToText",
    "text": "AutoModelForCausalLM",
    "encoder-decoder": "AutoModelForSeq2SeqLM",
}


_MISFIT_SIGN = "ignore_mismatched_sizes"
"""An option that transformers mentions if weights and configuration differ in their shapes."""

_OF_WEIGHTS = re.compile(
    r"(^|\.)(weight_scale\w*|scale_inv|weight_packed|qweight|qzeros|SCB)$|absmax|quant_state|lora_"
)
"""Names of weights without which other weights mean something else: scales, adapters."""

_NOT_IN_BATCHES = (
    *("stop_strings", "forced_eos_token_id", "max_time", "guidance_scale"),
    *("cache_implementation", "prompt_lookup_num_tokens", "penalty_alpha", "dola_layers"),
)
"""Settings that would hide why a row ended, are for drawing, or only change how it is computed.

The last of them fail with more than one row, or without another library.
"""

log = logging.getLogger(__name__)

_DAMAGE_SIGNS = ("PytorchStreamReader", "unexpected EOF")
"""How torch reports a file of weights that is cut short, in its present format and its old one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(Writer):
    """A loaded model, its tokenizer and its processor.

    `context` is the number of positions, in tokens, or None if it has no limit. `encoder_decoder`
    says that prompt and reply do not share them. `settings` are the checkpoint's generation
    settings; by these, `stop_strings` end a reply. `device` is where inputs go. `token_types` says
    that the model takes token_type_ids. `embeddings` is how many tokens the model has embeddings
    of, or None if that cannot be seen.
    """

    model: Any
    device: torch.device
    token_types: bool
    settings: Any
    stop_strings: tuple[str, ...]
    context: int | None
    encoder_decoder: bool
    embeddings: int | None

    @property
    def stop_ids(self) -> frozenset[int]:
        """The token ids that end a reply: those of the settings and the tokenizer's.

        Fine-tuned models that end otherwise often keep the settings of their base.
        """
        stop = self.settings.eos_token_id
        ids = [stop] if isinstance(stop, int) else list(stop or [])
        end = self.tokenizer.eos_token_id
        return frozenset(ids if end is None else [*ids, end])

    @property
    def pad_id(self) -> int:
        """The token id that fills up rows; any that has an embedding will do, it is masked."""
        for candidate in (self.settings.pad_token_id, self.tokenizer.pad_token_id):
            if candidate is not None and 0 <= candidate < (self.embeddings or math.inf):
                return int(candidate)
        return 0


def load_checkpoint(spec: ModelSpec, options: HfOptions) -> Checkpoint:
    """Load what `spec.model` names; blocks for as long as reading the weights takes.

    No other checkpoint loads or runs in this process meanwhile. Raises `ConfigError` that names the
    model and says what is missing or too large, and `UserCodeError` if code that the checkpoint
    brings fails.
    """
    if not sys.stderr.isatty():
        # a progress bar is for a person who waits, and litters a job's log
        _library.utils.logging.disable_progress_bar()
    with foreign_code(spec, options):
        try:
            with naming(spec), LOAD_LOCK.loading():
                return _load(spec.model, options)
        except RuntimeError as error:
            if any(sign in str(error) for sign in _DAMAGE_SIGNS):
                raise _damaged(spec, error) from error
            if _MISFIT_SIGN in str(error):
                raise ConfigError(
                    f"model {spec.label}: the shapes of its weights differ from its config.json; "
                    "transformers' report above names them; copy or download it again"
                ) from error
            if not is_out_of_memory(error):
                raise
            raise ConfigError(
                f"model {spec.label}: does not fit into memory: {short(error)}; set "
                "options.quantization, options.dtype or, to spread it over all GPUs, "
                "options.device_map=auto"
            ) from error
        except (SafetensorError, EOFError, UnpicklingError) as error:
            raise _damaged(spec, error) from error


def _damaged(spec: ModelSpec, error: Exception) -> ConfigError:
    return ConfigError(
        f"model {spec.label}: its weights cannot be read: {short(error)}; copy or download them "
        "again"
    )


@contextmanager
def naming(spec: ModelSpec) -> Iterator[None]:
    """Raise transformers' errors as a `ConfigError` that names the model."""
    try:
        yield
    except ImportError as error:
        problem = "needs a library that is not installed"
        if "cannot import name" in str(error):
            problem = "cannot be loaded by this version of its libraries"
        raise ConfigError(f"model {spec.label}: {problem}: {short(error)}") from error
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"model {spec.label}: cannot be loaded: {short(error)}") from error


@contextmanager
def foreign_code(spec: ModelSpec, options: HfOptions) -> Iterator[None]:
    """Raise errors of code that the checkpoint brings as an `UserCodeError`."""
    try:
        yield
    except MmconvError:
        raise
    except Exception as error:
        if not options.trust_remote_code:
            raise
        raise UserCodeError(
            f"model {spec.label}: the code that the checkpoint brings fails\n"
            f"{type(error).__name__}: {error}\n"
            "It may be written for another version of transformers than "
            f"{transformers.__version__}; the checkpoint's own page often names one."
        ) from error


def short(error: BaseException) -> str:
    """An exception's first lines, on one line: libraries append pages of advice."""
    return " ".join(str(error).split())[:400]


def origin(name: str, options: HfOptions) -> tuple[str, dict[str, Any]]:
    """The arguments by which transformers' loaders find a checkpoint."""
    source = str(Path(name).expanduser()) if is_local(name) else name
    if is_local(name) and not Path(source).is_dir():
        raise ConfigError(f"model {name}: no such folder; give a checkpoint's folder")
    arguments: dict[str, Any] = {"trust_remote_code": options.trust_remote_code}
    if options.revision is not None:
        arguments["revision"] = options.revision
    return source, arguments


def load_writer(name: str, options: HfOptions, *, download: bool = True) -> tuple[Writer, Any]:
    """The tokenizer and processor of a checkpoint, and its configuration.

    Without `download` a hub name's files must have been downloaded before. Raises `ConfigError` for
    a checkpoint that has no chat template and needs one; transformers' errors pass through.
    """
    source, arguments = origin(name, options)
    check_files(source, images=options.takes_images())
    if not download:
        arguments["local_files_only"] = True
    config = _library.AutoConfig.from_pretrained(source, **arguments)
    processor = None
    if kind_of(config, options) == "image-text":
        processor = _library.AutoProcessor.from_pretrained(source, **arguments)
        tokenizer = getattr(processor, "tokenizer", processor)
        processor = None if tokenizer is processor else processor
    else:
        tokenizer = _library.AutoTokenizer.from_pretrained(source, **arguments)
    templates = (getattr(part, "chat_template", None) for part in (processor, tokenizer))
    if options.chat_template is None and not any(map(default_template, templates)):
        require_template(name, config.model_type)
    writer = Writer(tokenizer=tokenizer, processor=processor, one_image=takes_one_image(config))
    return writer, config


def kind_of(config: Any, options: HfOptions) -> Kind:
    """The kind of model that an option sets, or else its configuration describes."""
    if options.kind != "auto":
        return options.kind
    if config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        return "image-text"
    if getattr(config, "vision_config", None) is not None:
        return "image-text"
    return "encoder-decoder" if config.is_encoder_decoder else "text"


def takes_one_image(config: Any) -> bool:
    """Whether a configuration describes a model that reads an image through a Q-Former."""
    return getattr(config, "qformer_config", None) is not None


def _load(name: str, options: HfOptions) -> Checkpoint:
    refuse_adapter(name, options.revision)
    writer, config = load_writer(name, options)
    _check_quantization(name, config, options)
    source, arguments = origin(name, options)
    auto_class = getattr(_library, _AUTO_CLASSES[kind_of(config, options)])
    model, report = auto_class.from_pretrained(
        source, **arguments, **_placement(name, options), output_loading_info=True
    )
    _check_complete(name, report["missing_keys"])
    _check_used(name, report["unexpected_keys"])
    return as_checkpoint(model.eval(), writer.tokenizer, writer.processor)


def _check_complete(name: str, missing: Collection[str]) -> None:
    """Raise `ConfigError` for weights that transformers would leave random, with a warning."""
    if missing:
        raise ConfigError(
            f"model {name}: {len(missing)} of its weights are not in the checkpoint "
            f"({list_first(missing)}) and would be random; is it of another class, or was it saved "
            "in part?"
        )


def _check_used(name: str, left_out: Collection[str]) -> None:
    """Raise `ConfigError` if transformers left out weights that change what others mean."""
    lost = [*filter(_OF_WEIGHTS.search, left_out)]
    if lost:
        raise ConfigError(
            f"model {name}: {len(lost)} of the weights that it holds would be left out "
            f"({list_first(lost)}), scales or adapters that make it another model: merge an "
            "adapter into its base (merge_and_unload of peft), use the provider vllm for what was "
            "quantized in a way that transformers does not know"
        )


def _check_quantization(name: str, config: Any, options: HfOptions) -> None:
    parts = (config, config.get_text_config(decoder=True))
    is_quantized = any(getattr(part, "quantization_config", None) for part in parts)
    if is_quantized and options.quantization is not None:
        raise ConfigError(
            f"model {name}: its weights are quantized already (quantization_config in its "
            "config.json); leave options.quantization out"
        )


def _placement(name: str, options: HfOptions) -> dict[str, Any]:
    dtype: Any = "auto" if options.dtype == "auto" else getattr(torch, options.dtype)
    chosen: dict[str, Any] = {"dtype": dtype}
    if options.device_map is not None:
        chosen["device_map"] = options.device_map
    elif torch.cuda.device_count() > 1:
        chosen["device_map"] = _one_gpu(name, options)
    elif torch.cuda.is_available() or torch.backends.mps.is_available():
        chosen["device_map"] = "auto"
    if options.attn_implementation is not None:
        chosen["attn_implementation"] = options.attn_implementation
    if options.quantization is not None:
        chosen["quantization_config"] = _quantization(options)
    return chosen


def _one_gpu(name: str, options: HfOptions) -> dict[str, int]:
    """The map that puts all weights on the GPU with the most free memory.

    Raises `ConfigError` if they are larger than that. The size of weights on the hub, or that are
    converted or quantized, is not known before they are loaded.
    """
    count = torch.cuda.device_count()
    free, gpu = max((torch.cuda.mem_get_info(gpu)[0], gpu) for gpu in range(count))
    size = 0
    if options.dtype == "auto" and options.quantization is None and is_local(name):
        size = sum(file.stat().st_size for file in weight_files(Path(name).expanduser()))
    if size > free:
        raise ConfigError(
            f"model {name}: its weights have {size / 1e9:.1f} GB, and of {count} GPUs none has "
            f"more than {free / 1e9:.1f} GB free; set options.device_map to auto to spread them "
            "over all GPUs, or options.quantization"
        )
    log.warning(
        "model %s runs on GPU %d only, and this machine has %d: replicas (provider ray) use the "
        "others; options.device_map=auto spreads one copy over all of them, which is not faster",
        name,
        gpu,
        count,
    )
    return {"": gpu}


def _quantization(options: HfOptions) -> Any:
    """8-bit integers with float16 outliers, or 4-bit normal floats (the QLoRA paper's)."""
    if options.quantization == "8bit":
        # it says at every multiplication that bfloat16 is not float16; what comes out is again
        logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
        return _library.BitsAndBytesConfig(load_in_8bit=True)
    if options.dtype != "auto":
        compute = getattr(torch, options.dtype)
    elif torch.backends.mps.is_available() or torch.cuda.is_bf16_supported(
        including_emulation=False
    ):
        compute = torch.bfloat16
    else:
        # not float16: models that were trained in bfloat16 overflow in it, without an error
        compute = torch.float32
    return _library.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=compute
    )


def as_checkpoint(model: Any, tokenizer: Any, processor: Any | None) -> Checkpoint:
    """A loaded model as a checkpoint; `processor` is None if it sees no images."""
    config = model.config
    text = config.get_text_config(decoder=True)
    one_image = takes_one_image(config)
    # BLIP-like models hand generation over to their language model and its settings
    speaker = model.language_model if one_image else model
    return Checkpoint(
        model=model,
        device=_entry_device(model),
        token_types="token_type_ids" in inspect.signature(model.forward).parameters,
        tokenizer=tokenizer,
        processor=processor,
        settings=speaker.generation_config,
        stop_strings=_take_out(speaker.generation_config),
        context=getattr(text, "max_position_embeddings", None),
        encoder_decoder=bool(speaker.config.is_encoder_decoder),
        embeddings=count_embeddings(model),
        one_image=one_image,
    )


def _take_out(settings: Any) -> tuple[str, ...]:
    """Clear settings that batches cannot obey; returns the stop strings, which `RowLimits` obeys.

    Cleared at the source: generate falls back to it for what the settings of a call leave open.
    """
    stop = settings.stop_strings or ()
    for name in _NOT_IN_BATCHES:
        setattr(settings, name, None)
    return (stop,) if isinstance(stop, str) else tuple(stop)


def count_embeddings(model: Any) -> int | None:
    """How many tokens have an embedding; None if a model keeps them in another way."""
    try:
        table = model.get_input_embeddings()
        # Idefics keeps those of its image tokens behind the others, in another table
        return int(table.weight.shape[0]) + getattr(table, "num_additional_embeddings", 0)
    except (AttributeError, NotImplementedError):
        return None


def _entry_device(model: Any) -> torch.device:
    """Where inputs go: to the first weights that are on a device.

    Weights that a device map offloads are on "meta" until they are needed; accelerate moves each
    module's inputs to where it runs.
    """
    devices = (parameter.device for parameter in model.parameters())
    return next((device for device in devices if device.type != "meta"), torch.device("cpu"))
