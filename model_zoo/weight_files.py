"""Whether a checkpoint's weight files are whole, by their headers, lengths and ends.

No tensor is read, so that this takes milliseconds whatever the size; a byte that is another within
a tensor is not found.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from mmconv.core.errors import ConfigError

_HEADER_BYTES = 100 * 1024 * 1024
_NAMES = ("model.safetensors", "pytorch_model.bin")
"""What transformers looks for, the first before the second, or an index of such a name."""

_AGAIN = "copy or download it again"
POINTER = b"version https://git-lfs"
"""What a file begins with that Git LFS has not downloaded."""

POINTER_ONLY = "only Git's pointer to the file; run `git lfs pull`"


def weight_files(folder: Path) -> list[Path]:
    """The files that transformers reads a checkpoint's weights from; none where it has others.

    Raises `ConfigError` for an index that cannot be read or names missing files.
    """
    for name in _NAMES:
        if (folder / name).exists():
            return [folder / name]
        if (folder / f"{name}.index.json").exists():
            return _indexed(folder / f"{name}.index.json")
    return []


def check_whole(folder: Path) -> None:
    """Raise `ConfigError` that names a file that is missing, cut short or damaged."""
    for file in weight_files(folder):
        with file.open("rb") as stream:
            if stream.read(len(POINTER)) == POINTER:
                raise ConfigError(f"{file}: {POINTER_ONLY}")
        if file.suffix == ".safetensors":
            safetensors_header(file)
        else:
            _check_archive(file)


def safetensors_header(file: Path) -> tuple[int, dict[str, Any]]:
    """Where the tensors begin, in bytes, and what lies where (layout: the safetensors format).

    Raises `ConfigError` where the header cannot be read, or tells of another length.
    """
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > _HEADER_BYTES:
            raise ConfigError(f"{file}: not a safetensors file; {_AGAIN}")
        text = stream.read(length)
    try:
        header: dict[str, Any] = json.loads(text)
        ends = [told["data_offsets"][1] for name, told in header.items() if name != "__metadata__"]
        whole = 8 + length + max(ends, default=0)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file}: cut short or damaged; {_AGAIN}") from error
    if (size := file.stat().st_size) != whole:
        raise ConfigError(
            f"{file}: cut short or damaged ({size:,} bytes; its header says {whole:,}); {_AGAIN}"
        )
    return 8 + length, header


def _check_archive(file: Path) -> None:
    """Torch's files are zip archives, whose table stands at the end; older ones tell nothing."""
    with file.open("rb") as stream:
        begin = stream.read(4)
    if not begin or (begin == b"PK\x03\x04" and not zipfile.is_zipfile(file)):
        raise ConfigError(f"{file}: cut short or damaged; {_AGAIN}")


def _indexed(index: Path) -> list[Path]:
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{index}: cut short or damaged; {_AGAIN}") from error
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        few = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise ConfigError(
            f"{index} names {len(names)} files, of which {len(missing)} are missing ({few}); copy "
            "or download them too"
        )
    return [index.parent / name for name in names]
