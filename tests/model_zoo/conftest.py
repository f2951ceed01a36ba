"""Makes torchvision importable, where it can be, before any test here imports transformers."""

from __future__ import annotations

from tests import torchvision_stub

torchvision_stub.install()
