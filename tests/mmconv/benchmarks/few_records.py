"""A few records of each benchmark, as files of a test's own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from tests.drawn_data import write_scenes
from tests.mmconv.benchmarks.botchat import samples as botchat
from tests.mmconv.benchmarks.cmteval import dialogues as cmteval
from tests.mmconv.benchmarks.fbbench import samples as fbbench
from tests.mmconv.benchmarks.mtbench101 import dialogues as mtbench101


def drawn(folder: Path) -> dict[str, Any]:
    data, images = write_scenes(folder / "scenes", 2)
    return {"data": str(data), "images": str(images)}


def stored(name: str, *records: Any) -> Callable[[Path], dict[str, Any]]:
    def write(folder: Path) -> dict[str, Any]:
        (folder / name).write_bytes(orjson.dumps(records))
        return {"data": str(folder / name)}

    return write


DATA: dict[str, Callable[[Path], dict[str, Any]]] = {
    "botchat": stored("a.json", botchat.record(1)),
    "cmteval": stored("standard_data.json", cmteval.record("1")),
    "convbench": drawn,
    "fbbench": stored("a.json", fbbench.correction(1)),
    "mtbench101": stored("a.json", *mtbench101.records()[:2]),
}
"""Benchmark -> what writes a few records and says which options name them."""
