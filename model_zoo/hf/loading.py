"""Loads a checkpoint from a folder or the hub: weights and generation settings.

`model_zoo.hf.prompts` loads its tokenizer and processor. Nothing is generated here.
"""

from __future__ import annotations

import gc
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
from threading import Condition
from typing import Any

import torch
import transformers
from safetensors import SafetensorError

from mmconv.core.config import ModelSpec
from mmconv.core.errors import ConfigError
from model_zoo.checkpoints import is_local, weight_files
from model_zoo.hf.options import HfOptions, Kind, refuse_adapter
from model_zoo.hf.prompts import (
    Writer,
    foreign_code,
    load_writer,
    naming,
    origin,
    short,
    takes_one_image,
)

# most of its loaders are untyped
_library: Any = transformers

_AUTO_CLASSES: dict[Kind, str] = {
    "image-text": "AutoModelForImageTextToText",
    "text": "AutoModelForCausalLM",
    "encoder-decoder": "AutoModelForSeq2SeqLM",
}


_MEMORY_SIGNS = (
    *("out of memory", "not enough memory", "can't allocate memory", "alloc_failed"),
    *("cublas_status_not_initialized", "nvml_success == r internal assert"),
)
"""How CUDA, MPS, the CPU allocator and cuBLAS report it, in lower case.

The last two come from a GPU that is completely full: cuBLAS has no room for its handle, and torch's
allocator fails while it puts the message together.
"""

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


class LoadLock:
    """No model runs while a checkpoint is loaded, in any thread; many may run at a time.

    While transformers builds a model it changes torch for the whole process: the default dtype, the
    functions that initialise weights, a few that make tensors. Two checkpoints that load at once
    leave weights of one of them random, and a model that runs meanwhile may compute in the other's
    dtype. Neither is reported as an error. A thread that waits to load goes before one that waits
    to run.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._running = 0
        self._loading = 0  # includes those that wait for it

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold loads off; blocks while a load is under way or waits."""
        with self._changed:
            self._changed.wait_for(lambda: not self._loading)
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Run alone; blocks until nothing runs and no other load is under way."""
        with self._changed:
            self._loading += 1
            self._changed.wait_for(lambda: self._running == 0)
            # A load counts as a run too, so that the next one waits for it.
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._loading -= 1
                self._running -= 1
                self._changed.notify_all()


LOAD_LOCK = LoadLock()
"""One for the process, as transformers changes torch for all of it."""


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


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch ran out of memory, on any device."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    message = str(error).lower()
    return any(sign in message for sign in _MEMORY_SIGNS)


def release_memory() -> None:
    """Give back the memory that torch keeps cached after tensors are gone."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _load(name: str, options: HfOptions) -> Checkpoint:
    refuse_adapter(name, options.revision)
    writer, kind = load_writer(name, options)
    source, arguments = origin(name, options)
    config = _library.AutoConfig.from_pretrained(source, **arguments)
    _check_quantization(name, config, options)
    auto_class = getattr(_library, _AUTO_CLASSES[kind])
    model, report = auto_class.from_pretrained(
        source, **arguments, **_placement(name, options), output_loading_info=True
    )
    _check_complete(name, report["missing_keys"])
    _check_used(name, report["unexpected_keys"])
    return as_checkpoint(model.eval(), writer.tokenizer, writer.processor)


def _check_complete(name: str, missing: Collection[str]) -> None:
    """Raise `ConfigError` for weights that transformers would leave random, with a warning."""
    if missing:
        few = ", ".join(sorted(missing)[:3])
        raise ConfigError(
            f"model {name}: {len(missing)} of its weights are not in the checkpoint ({few}"
            f"{', ...' if len(missing) > 3 else ''}) and would be random; is it of another class, "
            "or was it saved in part?"
        )


def _check_used(name: str, left_out: Collection[str]) -> None:
    """Raise `ConfigError` if transformers left out weights that change what others mean."""
    lost = sorted(filter(_OF_WEIGHTS.search, left_out))
    if lost:
        raise ConfigError(
            f"model {name}: {len(lost)} of the weights that it holds would be left out "
            f"({', '.join(lost[:3])}{', ...' if len(lost) > 3 else ''}), scales or adapters that "
            "make it another model: merge an adapter into its base (merge_and_unload of peft), use "
            "the provider vllm for what was quantized in a way that transformers does not know"
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
