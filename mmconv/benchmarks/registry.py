"""The benchmarks that are shipped, and where the parts of each lie.

Each is a package beside this module: `benchmark:build` makes it for a run, `options:DESCRIPTION`
tells what it can be told, `compared:compared_quantities` by what its runs are compared,
`leaderboard:boards` by what they are ranked, and `rescore:rescore`, where it has one, reads the
judgements that its authors made.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

TITLES = {
    "botchat": "BotChat",
    "cmteval": "CMT-Eval",
    "convbench": "ConvBench",
    "dialogue": "Dialogues",
    "fbbench": "FB-Bench",
    "mtbench101": "MT-Bench-101",
}
"""Benchmark -> how its authors write it."""

CLASSES = {
    "dialogue": "mmconv.benchmarks.dialogue:Dialogue",
    "convbench": "mmconv.benchmarks.convbench.benchmark:ConvBench",
    "mtbench101": "mmconv.benchmarks.mtbench101:MTBench101",
}
"""Benchmark -> its class, for those that declare themselves as one."""

RESCORED = ("botchat", "cmteval", "fbbench", "mtbench101")
"""The benchmarks whose authors' judgements can be read."""


def find_class(benchmark: str) -> Any:
    """The class of a benchmark: a shipped one, or `package.module:Class`; None if there is none.

    Raises `ImportError` if the module cannot be imported.
    """
    path = CLASSES.get(benchmark, benchmark)
    module, _, name = path.partition(":")
    return getattr(import_module(module), name, None) if name else None


def find_rescorer(benchmark: str) -> Any:
    """The function that makes tables of published judgements, of one of `RESCORED`."""
    if benchmark in CLASSES:
        return import_module(f"{__package__}.readers.{benchmark}").rescore
    return find_part(benchmark, "rescore:rescore")


def find_part(benchmark: str, part: str) -> Any:
    """A part of a shipped benchmark, such as `options:DESCRIPTION`, imported when asked for."""
    module, _, name = part.partition(":")
    return getattr(import_module(f"{__package__}.{benchmark}.{module}"), name)
