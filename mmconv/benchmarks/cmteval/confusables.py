"""Characters that are easily taken for each other, from a file like the authors' char_confuse.data.

That file is a pickle of plain containers: character -> {"同音": [...], "形近": {...}, ...}. It is
read without letting it name any class or function, so that no code can come with it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from mmconv.core.errors import DataError

SOUND = "同音"
SHAPE = "形近"

# What a damaged pickle may raise, besides the error that it has of its own.
_DAMAGE = (
    pickle.UnpicklingError,
    EOFError,
    AttributeError,
    ImportError,
    IndexError,
    KeyError,
    OverflowError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusable:
    """What one character may be mistaken for: `sounds` in the file's order, `shapes` sorted."""

    sounds: tuple[str, ...]
    shapes: tuple[str, ...]


def read_confusables(path: Path) -> dict[str, Confusable]:
    """The confusable characters by character; entries of more than one character are passed over.

    Raises `DataError` for a file that is missing, of another layout, or names code to run.
    """
    try:
        with path.open("rb") as file:
            found = _PlainUnpickler(file).load()
    except OSError as error:
        raise DataError(str(path), [error.strerror or str(error)], "Check the path.") from error
    except _DAMAGE as error:
        raise DataError(
            str(path),
            [f"not a pickle of plain lists and dictionaries: {error}"],
            "Give the authors' char_confuse.data, or a file of its layout.",
        ) from error
    if not isinstance(found, dict) or not found:
        raise DataError(str(path), ["holds no dictionary of characters"])
    return {
        _character(path, name): _confusable(path, name, fields) for name, fields in found.items()
    }


class _PlainUnpickler(pickle.Unpickler):
    """Reads numbers, texts and containers, and nothing else."""

    def find_class(self, module_name: str, global_name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module_name}.{global_name}, which is never loaded")


def _character(path: Path, name: Any) -> str:
    if isinstance(name, str) and len(name) == 1:
        return name
    raise DataError(str(path), [f"{name!r} is no character"])


def _confusable(path: Path, name: str, fields: Any) -> Confusable:
    if not isinstance(fields, Mapping) or not all(
        isinstance(fields.get(kind), list | set | tuple | frozenset) for kind in (SOUND, SHAPE)
    ):
        raise DataError(str(path), [f"{name!r} has no collections {SOUND} and {SHAPE}"])
    sounds, shapes = (_singles(name, fields[kind]) for kind in (SOUND, SHAPE))
    # a set has no order, and what is drawn by a seed must not depend on one
    ranked = isinstance(fields[SOUND], list | tuple)
    return Confusable(
        sounds=sounds if ranked else tuple(sorted(sounds)), shapes=tuple(sorted(shapes))
    )


def _singles(name: str, characters: Iterable[Any]) -> tuple[str, ...]:
    return tuple(
        each for each in characters if isinstance(each, str) and len(each) == 1 and each != name
    )
