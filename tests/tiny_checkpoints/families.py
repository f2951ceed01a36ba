"""The architectures that tiny checkpoints exist of, and how their prompts are written.

Each has a small builder: transformers and a tokenizer in, a random model and its processor out. The
classes are transformers' own; nothing is subclassed or patched.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.tiny_checkpoints.blip import blip2, blip2_opt, instructblip
from tests.tiny_checkpoints.deepseek import deepseek_vl, janus
from tests.tiny_checkpoints.llava import llava, llava_next, llava_onevision
from tests.tiny_checkpoints.molmo import IMAGE_TOKENS, molmo2
from tests.tiny_checkpoints.others import aya_vision, gemma3, idefics3, internvl, mistral3, mllama
from tests.tiny_checkpoints.parts import Pair
from tests.tiny_checkpoints.qwen import glm4v, qwen2_5_vl, qwen2_vl, qwen3_vl
from tests.tiny_checkpoints.text import llama_text, qwen2_text, t5


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """An architecture and how its prompts are written.

    `image` stands in the chat template for an image, empty where the model sees none; `tokens` are
    special tokens by the attribute that the processor reads; `template` False makes a checkpoint
    without a chat template; `torchvision` says that the processor does not load without it.
    """

    build: Callable[[Any, Any], Pair]
    image: str = ""
    tokens: Mapping[str, str] = field(default_factory=dict)
    template: bool = True
    torchvision: bool = False


_QWEN_TOKENS = {
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "vision_bos_token": "<|vision_start|>",
    "vision_eos_token": "<|vision_end|>",
}
# not named image_token: the BLIP processors fail on a tokenizer that has one
_QUERIES = {"query_token": "<image>"}
_QWEN_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


def _by_themselves(*tokens: str) -> dict[str, str]:
    """Special tokens that no processor reads by an attribute."""
    return {token: token for token in tokens}


FAMILIES: Mapping[str, Family] = {
    "llama": Family(build=llama_text),
    "qwen2": Family(build=qwen2_text),
    "t5": Family(build=t5, template=False),
    "llava": Family(build=llava, image="<image>", tokens={"image_token": "<image>"}),
    "llava-next": Family(build=llava_next, image="<image>", tokens={"image_token": "<image>"}),
    "llava-onevision": Family(
        build=llava_onevision,
        image="<image>",
        tokens={"image_token": "<image>", "video_token": "<video>"},
        torchvision=True,
    ),
    "blip2": Family(build=blip2, tokens=_QUERIES, template=False),
    "blip2-opt": Family(build=blip2_opt, tokens=_QUERIES, template=False),
    "instructblip": Family(build=instructblip, tokens=_QUERIES, template=False),
    "qwen2-vl": Family(build=qwen2_vl, image=_QWEN_IMAGE, tokens=_QWEN_TOKENS, torchvision=True),
    "qwen2.5-vl": Family(
        build=qwen2_5_vl, image=_QWEN_IMAGE, tokens=_QWEN_TOKENS, torchvision=True
    ),
    "internvl": Family(
        build=internvl,
        image="<IMG_CONTEXT>",
        tokens={
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
        torchvision=True,
    ),
    "idefics3": Family(
        build=idefics3,
        image="<image>",
        tokens={
            "image_token": "<image>",
            "fake_image_token": "<fake_token_around_image>",
            "end_of_utterance_token": "<end_of_utterance>",
            "global_image_token": "<global-img>",
        },
    ),
    "gemma3": Family(
        build=gemma3,
        image="<start_of_image>",
        tokens={
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
            "image_token": "<image_soft_token>",
        },
    ),
    "mllama": Family(
        build=mllama,
        image="<|image|>",
        tokens={"image_token": "<|image|>", "python_token": "<|python_tag|>"},
    ),
    "mistral3": Family(
        build=mistral3,
        image="[IMG]",
        tokens={
            "image_token": "[IMG]",
            "image_break_token": "[IMG_BREAK]",
            "image_end_token": "[IMG_END]",
        },
        torchvision=True,
    ),
    "qwen3-vl": Family(build=qwen3_vl, image=_QWEN_IMAGE, tokens=_QWEN_TOKENS, torchvision=True),
    "glm4v": Family(
        build=glm4v,
        image="<|begin_of_image|><|image|><|end_of_image|>",
        tokens={
            "image_token": "<|image|>",
            "video_token": "<|video|>",
            **_by_themselves("<|begin_of_image|>", "<|end_of_image|>"),
            **_by_themselves("<|begin_of_video|>", "<|end_of_video|>"),
        },
        torchvision=True,
    ),
    "aya-vision": Family(
        build=aya_vision,
        image="<image>",
        tokens=_by_themselves(
            *("<|IMG_PATCH|>", "<|START_OF_IMG|>", "<|END_OF_IMG|>", "<|IMG_LINE_BREAK|>"),
            *("TILE", "TILE_GLOBAL", "TILE_1", "TILE_2", "TILE_3", "TILE_4"),
        ),
    ),
    "deepseek-vl": Family(
        build=deepseek_vl,
        image="<image_placeholder>",
        tokens={"image_token": "<image_placeholder>"},
    ),
    "janus": Family(
        build=janus,
        image="<image_placeholder>",
        tokens={
            "image_token": "<image_placeholder>",
            "boi_token": "<begin_of_image>",
            "eoi_token": "<end_of_image>",
        },
    ),
    "molmo2": Family(
        build=molmo2,
        image="<|image|>",
        tokens={
            "image_token": "<|image|>",
            "video_token": "<|video|>",
            **_by_themselves(*IMAGE_TOKENS.values(), "<im_col>", "<im_low>"),
        },
        torchvision=True,
    ),
}
"""The architectures by name; what they need beside transformers is told by the `Family`."""
