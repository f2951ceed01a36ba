"""The benchmarks that are shipped, and where the parts of each lie.

Each is a package beside this module: `benchmark:build` makes it for a run, `options:DESCRIPTION`
describes its options, `compared:compared_quantities` yields what its runs are compared in,
`leaderboard:boards` what they are ranked by, and `rescore:rescore`, if it has one, reads the
judgements that its authors made. A small package has them in fewer modules.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
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
    "botchat": "mmconv.benchmarks.botchat.benchmark:BotChat",
    "dialogue": "mmconv.benchmarks.dialogue:Dialogue",
    "cmteval": "mmconv.benchmarks.cmteval.benchmark:CMTEval",
    "convbench": "mmconv.benchmarks.convbench.benchmark:ConvBench",
    "mtbench101": "mmconv.benchmarks.mtbench101:MTBench101",
    "fbbench": "mmconv.benchmarks.fbbench:FBBench",
}
"""Benchmark -> its class, for those that declare themselves as one."""

RESCORED = ("botchat", "cmteval", "fbbench", "mtbench101")
"""The benchmarks whose authors' judgements can be read."""

_ELSEWHERE = {"options": "benchmark", "rescore": "published"}
"""Module -> where its parts are in a package that does not have it."""


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
    """A part of a shipped benchmark, such as `options:DESCRIPTION`, imported when it is needed.

    A benchmark without such a module has the part in its module `benchmark`.
    """
    module, _, name = part.partition(":")
    package = f"{__package__}.{benchmark}"
    if find_spec(f"{package}.{module}") is None:
        module = _ELSEWHERE.get(module, "benchmark")
    return getattr(import_module(f"{package}.{module}"), name)
