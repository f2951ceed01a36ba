"""Makes `import torchvision` work beside a CPU build of torch, in every process of an environment.

`.ci/vllm_env.sh` copies it into the environment of the real vLLM, with a `.pth` file that imports
it: vLLM starts processes of its own, so no call in the first one would do. It costs nothing until
torchvision is imported, and then defines the two operators whose compiled form does not load.
`tests/torchvision_stub.py` does the same for this project's own environment.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_kept: list[object] = []


class _DefineOperatorsFirst(MetaPathFinder):
    """Finds nothing: it takes the question for torchvision as the sign to act."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            _define_operators()
        return None


def _define_operators() -> None:
    import torch

    library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]  # torch
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    # the operators vanish with the library object
    _kept.append(library)


sys.meta_path.insert(0, _DefineOperatorsFirst())
