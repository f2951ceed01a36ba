"""Image bytes: safe decoding, what a model is shown, and a library by content.

Names are taken from where they are defined (`images.door`, `images.policy`, `images.library`,
`images.scenes`) or from here. The package knows no model, no benchmark and no network.
"""

from images.door import Facts, Limits
from images.library import Library
from images.policy import Policy, Prepared, fit, prepare, prepare_pixels

__all__ = ["Facts", "Library", "Limits", "Policy", "Prepared", "fit", "prepare", "prepare_pixels"]
