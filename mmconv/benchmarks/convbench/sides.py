"""The sides that ConvBench's authors fixed for pairwise grading (their pairwise.npy).

Drawing sides, or judging both, needs no file and is not done here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from mmconv.core.errors import DataError

Side: TypeAlias = Literal["A", "B"]
"""Where the candidate stands in a comparison."""


def read_sides(path: Path) -> dict[int, Side]:
    """The model's side by row ID, from an int array[n] of 0 (A) and 1 (B) for the IDs 1 to n.

    The authors' script reads it as `pairwise[ID - 1]`. Raises `DataError` for any other file.
    """
    # Imported here: numpy is slow to load, and a run without positions does not need it.
    import numpy as np

    try:
        with path.open("rb") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            str(path), [f"not a readable .npy file: {error}"], "Give the authors' pairwise.npy."
        ) from error
    if array.ndim != 1 or array.dtype.kind not in "iu" or not np.isin(array, (0, 1)).all():
        raise DataError(
            str(path),
            ["not a plain row of zeros and ones"],
            "It must hold one whole number per ID: 0 where the model is A, 1 where it is B.",
        )
    return {number: "B" if side else "A" for number, side in enumerate(array.tolist(), start=1)}
