"""Makes torchvision importable beside a CPU build of torch, for tests only.

torchvision has no CPU wheel on some registries, and the ordinary one fails on import because its
compiled operators do not load. Two operator schemas are enough for what image processors use. The
package lies in a folder of its own, for once it is on the path every import of transformers needs
the schemas::

    pip install --no-deps --target "$VIRTUAL_ENV/torchvision-only" torchvision==0.28.0

Nothing of the product calls this.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.prefix) / "torchvision-only"
"""Where the package is looked for if it is not installed in the ordinary way."""

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_kept: list[object] = []


def install() -> str | None:
    """Make `import torchvision` work; the reason why not, if it cannot.

    Must run before transformers is imported, which remembers what it found.
    """
    if "torchvision" in sys.modules:
        return None
    if "transformers" in sys.modules:
        return "transformers was imported before torchvision could be made importable"
    if importlib.util.find_spec("torchvision") is None:
        if not FOLDER.is_dir():
            return f"torchvision is not installed in {FOLDER.name}/ (see tests/torchvision_stub.py)"
        sys.path.append(str(FOLDER))
    _define_schemas()
    # fails here, if at all, and not inside transformers
    importlib.import_module("torchvision")
    return None


def _define_schemas() -> None:
    import torch

    if hasattr(torch.ops.torchvision, "nms"):
        return
    registry: Any = torch.library
    library = registry.Library("torchvision", "DEF")
    for schema in _SCHEMAS:
        library.define(schema)
    # the schemas vanish with the library object
    _kept.append(library)
