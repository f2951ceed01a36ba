"""Which file holds which subset: the authors' folder, a mapping, or one file by name or layout.

Files are found and told apart here; their records are read in `mmconv.benchmarks.cmteval.data`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from mmconv.benchmarks.cmteval.data import subset_by_layout
from mmconv.benchmarks.cmteval.fields import SUBSETS, Subset
from mmconv.benchmarks.cmteval.options import CMTEvalOptions
from mmconv.benchmarks.data_files.records import Record, scan_records
from mmconv.core.errors import ConfigError, DataError

REFERENCES = "long-text_summary_QA_data.json"
"""The authors' file of summaries and QA pairs."""

_ANY = "|".join(SUBSETS)
_IN_NAME = (
    re.compile(rf"^(?:eval[_-])?(?P<subset>{_ANY})(?![a-z])"),
    re.compile(rf"(?<![a-z])(?P<subset>{_ANY})$"),
    re.compile(rf"(?<![a-z])(?P<subset>{_ANY})(?![a-z])"),
)
"""Where a file's name may say the subset: in front as the authors write it, at its end, within."""


def find_files(options: CMTEvalOptions) -> dict[Subset, Path]:
    """The dialogue file of every subset that the run takes in, in the paper's order.

    Raises `ConfigError` for a subset that `data` does not name, `DataError` for a missing file.
    """
    files = _named(options.data)
    missing = [name for name in options.subsets or () if name not in files]
    if missing:
        raise ConfigError(
            f"options of cmteval: data has no {', '.join(missing)}; it has {', '.join(files)}"
        )
    chosen = options.subsets or tuple(files)
    return {name: files[name] for name in SUBSETS if name in chosen}


def find_references(options: CMTEvalOptions) -> Path:
    """The file of summaries and QA pairs; raises `ConfigError` if nothing says where it is."""
    if options.references is not None:
        return options.references
    if isinstance(options.data, Path):
        folder = options.data if options.data.is_dir() else options.data.parent
        if (folder / REFERENCES).is_file():
            return folder / REFERENCES
    raise ConfigError(
        "options of cmteval: judging Long-Text needs the summaries and QA pairs of its texts; "
        f"give references: the path of {REFERENCES}, or leave long-text out of subsets"
    )


def subset_of(path: Path) -> Subset:
    """The subset that a file belongs to: by its name, or by the layout of its first record."""
    if (named := _named_in(path)) is not None:
        return next(subset for subset in SUBSETS if subset == named["subset"])
    first = next((each for each in scan_records(path) if isinstance(each, Record)), None)
    if first is None:
        raise DataError(str(path), ["holds no records"])
    return subset_by_layout(first)


def model_of(path: Path) -> str:
    """The model whose judgements a file has, which only its name tells: what is not the subset."""
    named = _named_in(path)
    rest = path.stem if named is None else path.stem[: named.start()] + path.stem[named.end() :]
    return re.sub("^eval[_-]", "", rest).strip("_-") or path.stem


def _named_in(path: Path) -> re.Match[str] | None:
    return next(filter(None, (pattern.search(path.stem) for pattern in _IN_NAME)), None)


def _named(data: Path | Mapping[Subset, Path]) -> dict[Subset, Path]:
    if not isinstance(data, Path):
        return dict(data)
    if not data.is_dir():
        return {subset_of(data): data}
    files = {name: data / f"{name}_data.json" for name in SUBSETS}
    there = {name: path for name, path in files.items() if path.is_file()}
    if not there:
        names = ", ".join(path.name for path in files.values())
        raise DataError(str(data), [f"none of these files is here: {names}"], "Check the folder.")
    return there
