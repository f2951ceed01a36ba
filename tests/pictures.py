"""A picture for any test that needs one and does not care what it shows."""

import io
from dataclasses import replace
from random import Random

from images.drawn.shapes import paint, sample_scene


def picture(seed: int, size: tuple[int, int] = (320, 160)) -> bytes:
    """A PNG file of a scene, scaled to this width and height; other seeds give other pictures.

    It has no grain, so that it stays within some kilobytes.
    """
    scene = replace(sample_scene(Random(seed)), noise=0.0)
    file = io.BytesIO()
    paint(scene).resize(size).save(file, "PNG")
    return file.getvalue()
