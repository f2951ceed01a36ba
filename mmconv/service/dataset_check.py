"""Unpack and check an uploaded dataset: `python -P -m mmconv.service.dataset_check`.

A small file may unpack to gigabytes, or keep its reader busy for hours. So it runs in
a separate process, with a small part of the machine. It reads an `Order` from standard input
and writes a `Checked`. Paths are relative to the dataset's folder, so messages name no place of
this machine.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from shutil import copyfileobj
from threading import Lock
from typing import Any, get_origin
from zipfile import BadZipFile, ZipFile, ZipInfo

from pydantic import BaseModel

from images import ImageStore, Limits
from mmconv.benchmarks.data_files.records import scan_records
from mmconv.benchmarks.options import describe, file_options
from mmconv.core.config import ModelSpec, RunSpec
from mmconv.core.errors import InputError
from mmconv.core.keys import hash_bytes
from mmconv.core.types import Image
from mmconv.engine.setup import build_benchmark

UPLOAD = "upload"
"""The file as the client sent it, in the dataset's folder."""

EMBEDDED = "embedded"
"""The folder of images that are inside a Parquet file."""

CPU_SECONDS = 300
"""The processor time of a check: a gigabyte of photographs takes less than a minute."""

MEMORY_BYTES = 2_000_000_000
"""The memory of a check. Four threads decode images of up to 350 MB each."""

MOST_FILES = 100_000
"""How many files an archive may hold."""

_JUDGE = {"judge": ModelSpec(provider="fake", model="judge")}
"""Stands for the judge of later runs: data are checked for what it needs."""

# what zipfile raises for a damaged, encrypted or unsupported archive
_BROKEN = (
    BadZipFile,
    RuntimeError,
    NotImplementedError,
    EOFError,
    ValueError,
    zlib.error,
    LZMAError,
)


class Order(BaseModel):
    """What to check: the folder, the benchmark, and the limits.

    `most_bytes` bounds what is unpacked, `text_bytes` a file of records and the texts of all
    samples, `records` their number.
    """

    folder: Path
    benchmark: str
    generate_only: bool
    most_bytes: int
    text_bytes: int
    records: int
    images: Limits


class Checked(BaseModel):
    """The options that locate the data, and the number of samples; or what is wrong.

    `is_large`: a limit was exceeded.
    """

    options: dict[str, Any] = {}
    samples: int = 0
    problem: str | None = None
    is_large: bool = False


class TooLarge(InputError):
    """A dataset that exceeds a limit."""


class BoundedStore(ImageStore):
    """Keeps at most `most_bytes` of images that are inside a file. Raises `TooLarge`."""

    def __init__(self, folder: Path, *, limits: Limits, most_bytes: int) -> None:
        super().__init__(folder, limits=limits)
        self._most_bytes = most_bytes
        self._left = most_bytes
        self._counting = Lock()

    def add_bytes(self, data: bytes, where: str = "image") -> Image:
        """See `ImageStore`."""
        with self._counting:
            if not self.holds(hash_bytes(data)):
                self._left -= len(data)
            if self._left < 0:
                raise TooLarge(f"its images unpack to more than {self._most_bytes:,} bytes")
        return super().add_bytes(data, where)


def main() -> None:
    """Read the order, check the dataset, write the result."""
    order = Order.model_validate_json(sys.stdin.buffer.read())
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    os.chdir(order.folder)
    try:
        options = unpack(order)
        result = Checked(options=options, samples=_count_samples(order, options))
    except TooLarge as error:
        result = Checked(problem=str(error), is_large=True)
    except InputError as error:
        result = Checked(problem=str(error))
    except OSError as error:
        if error.errno == errno.ENOSPC:
            sys.exit(errno.ENOSPC)
        result = Checked(problem=f"the archive cannot be unpacked ({error.strerror or error})")
    except MemoryError:
        result = Checked(problem="it takes too much memory to read", is_large=True)
    sys.stdout.write(result.model_dump_json())


def unpack(order: Order) -> dict[str, Any]:
    """The options that locate the files, which are put into the folder. Raises `InputError`."""
    upload = Path(UPLOAD)
    with upload.open("rb") as file:
        begin = file.read(4096)
    text = begin.removeprefix(BOM_UTF8).lstrip()
    if begin.startswith(b"PK\x03\x04"):
        try:
            with ZipFile(upload) as archive:
                if sum(info.file_size for info in archive.infolist()) > order.most_bytes:
                    raise TooLarge(f"it unpacks to more than {order.most_bytes:,} bytes")
                if "xl/workbook.xml" not in archive.namelist():
                    return _extract(archive, order.benchmark)
        except _BROKEN as error:
            raise InputError(f"the archive cannot be read ({error}); pack it again") from error
        suffix = ".xlsx"
    elif begin.startswith(b"PAR1"):
        suffix = ".parquet"
    elif text.startswith((b"{", b"[")):
        suffix = ".jsonl" if text.startswith(b"{") else ".json"
    else:
        raise InputError(
            "the file is of another kind; send .jsonl, .json, .xlsx, .parquet, or a .zip with a "
            "file named data"
        )
    data = f"data{suffix}"
    upload.rename(data)
    return {"data": data}


def _extract(archive: ZipFile, benchmark: str) -> dict[str, Any]:
    """Extract the files, which are named after the options that they are."""
    members = dict(_members(archive.infolist()))
    if len(members) > MOST_FILES:
        raise TooLarge(f"the archive holds more than {MOST_FILES:,} files")
    options = _options(benchmark, [*members])
    for name, member in members.items():
        Path(name.parent).mkdir(parents=True, exist_ok=True)
        with archive.open(member) as source, Path(name).open("xb") as target:
            copyfileobj(source, target)
    Path(UPLOAD).unlink()
    return options


def _members(infos: Sequence[ZipInfo]) -> Iterator[tuple[PurePosixPath, ZipInfo]]:
    """The files by their names, without a folder that holds all, and without hidden ones."""
    files: dict[PurePosixPath, ZipInfo] = {}
    for info in infos:
        name = PurePosixPath(info.filename)
        if name.is_absolute() or ".." in name.parts or "\\" in info.filename:
            raise InputError(f"{info.filename!r} is not inside the archive; pack it again")
        # systems add such files
        hidden = any(part.startswith(".") or part == "__MACOSX" for part in name.parts)
        if info.is_dir() or hidden:
            continue
        if name in files:
            raise InputError(f"{name} is in the archive twice")
        files[name] = info
    firsts = {name.parts[0] for name in files}
    is_wrapped = len(firsts) == 1 and all(len(name.parts) > 1 for name in files)
    for name, info in files.items():
        yield (PurePosixPath(*name.parts[1:]) if is_wrapped else name), info


def _options(benchmark: str, names: Sequence[PurePosixPath]) -> dict[str, Any]:
    """Option -> file or folder, or the files in the folder of an option with several."""
    kind = describe(benchmark).options
    known = sorted(file_options(kind))
    options: dict[str, Any] = {}
    for first in dict.fromkeys(name.parts[0] for name in names):
        inside = sorted(
            str(name) for name in names if name.parts[0] == first and str(name) != first
        )
        option = first if inside else PurePosixPath(first).stem
        if option not in known or option in options:
            raise InputError(
                f"{first} is not one of the files {', '.join(known)} of {benchmark}; name each "
                "after its option, such as data.jsonl, and images as a folder"
            )
        several = get_origin(kind.model_fields[option].annotation) is tuple
        options[option] = inside if several and inside else first
    if "data" not in options:
        raise InputError("the archive has no file named data, such as data.jsonl")
    return options


def _count_samples(order: Order, options: Mapping[str, Any]) -> int:
    """The number of samples of the checked dataset. Raises `InputError`."""
    for path in map(Path, filter(lambda value: isinstance(value, str), options.values())):
        if path.is_file() and path.suffix != ".parquet" and path.stat().st_size > order.text_bytes:
            raise TooLarge(f"{path}: larger than {order.text_bytes:,} bytes")
    records = scan_records(Path(options["data"]))
    if sum(1 for _ in islice(records, order.records + 1)) > order.records:
        raise TooLarge(f"data: at most {order.records:,} records are taken")
    spec = RunSpec(
        benchmark=order.benchmark,
        options={**options, "generate_only": order.generate_only},
        models={} if order.generate_only else _JUDGE,
    )
    images = BoundedStore(Path(EMBEDDED), limits=order.images, most_bytes=order.most_bytes)
    benchmark = build_benchmark(spec, images)
    if sum(len(sample.model_dump_json()) for sample in benchmark.load()) > order.text_bytes:
        raise TooLarge(f"data: all samples together have more than {order.text_bytes:,} bytes")
    return benchmark.size


if __name__ == "__main__":
    main()
