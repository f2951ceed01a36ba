"""Drawn images whose whole truth is known: families of pictures on a ladder of ten levels.

A *family* is one file with a function `draw(draft)`, which returns a `Drawing`: the image, the
question of the perception turn, the facts that answer it, and a problem whose answer follows from
these facts. Facts and answers are data (`truth`): a subject and a value. All else is common to the
families, but for the English sentences about shapes of level 1 (`script`). `dialogue` writes
references of several styles, and a creation turn that needs only the facts and the answer.
`reading` compares a reply with the truth, in English and Chinese. `checks` are the constraints of
creation turns.

Sentences are in `texts.toml` and `script.toml`, words and looks in `words.toml`, corners of marks
in `outlines.toml`, what is looked for in replies in `reading.toml`, the levels in `ladder.toml`.
To add a family, write its file, its sentences and its ladder, and name it in `FAMILIES`.
"""

from images.drawn.canvas import FINGERPRINT, fingerprint, hash_code
from images.drawn.dialogue import FAMILIES, LEVELS, Sample, draw_sample
from images.drawn.truth import Check, Turn
from images.drawn.words import LANGUAGES, Language

__all__ = [
    "FAMILIES",
    "FINGERPRINT",
    "LANGUAGES",
    "LEVELS",
    "Check",
    "Language",
    "Sample",
    "Turn",
    "draw_sample",
    "fingerprint",
    "hash_code",
]
