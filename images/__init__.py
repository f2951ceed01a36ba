"""Image bytes: safe decoding, what a model is shown, and a store by content.

The package knows no model, no benchmark and no network.
"""

from images.decode import Facts, Limits
from images.store import ImageStore

__all__ = ["Facts", "ImageStore", "Limits"]
