"""The shipped benchmarks and their commands; a module is imported when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

BENCHMARKS = {
    "botchat": ("BotChat", "mmconv.benchmarks.botchat.benchmark:BotChat"),
    "cmteval": ("CMT-Eval", "mmconv.benchmarks.cmteval.benchmark:CMTEval"),
    "convbench": ("ConvBench", "mmconv.benchmarks.convbench.benchmark:ConvBench"),
    "dialogue": ("Dialogues", "mmconv.benchmarks.dialogue:Dialogue"),
    "fbbench": ("FB-Bench", "mmconv.benchmarks.fbbench:FBBench"),
    "mtbench101": ("MT-Bench-101", "mmconv.benchmarks.mtbench101:MTBench101"),
    "scenes": ("Scenes", "mmconv.benchmarks.scenes:Scenes"),
}
"""Name -> how its authors write it, and its class."""

TITLES = {name: title for name, (title, _) in BENCHMARKS.items()}
CLASSES = {name: path for name, (_, path) in BENCHMARKS.items()}

AUDIT = "mmconv.benchmarks.audit:Audit"
"""The benchmark of known answers, whose candidate is a judge; `mmconv judge` runs it."""


JUDGED = {"scenes": "mmconv.benchmarks.scenes.judged:JudgedScenes"}
"""The classes that `mmconv judge` takes for benchmarks without a judge."""


def title_of(benchmark: str) -> str:
    """How people call a benchmark; one of a user's own has the name of its class."""
    return {**TITLES, AUDIT: "known answers"}.get(benchmark, benchmark)


RESCORED = ("botchat", "cmteval", "fbbench", "mtbench101")
"""The benchmarks with a reader of published judgements in `mmconv.benchmarks.readers`."""


def find_class(benchmark: str) -> Any:
    """The class of a benchmark: a shipped one, or `package.module:Class`; None if there is none.

    Raises `ImportError` if the module cannot be imported.
    """
    path = CLASSES.get(benchmark, benchmark)
    module, _, name = path.partition(":")
    return getattr(import_module(module), name, None) if name else None


def find_rescorer(benchmark: str) -> Any:
    """The function that makes tables of published judgements, of one of `RESCORED`."""
    return import_module(f"{__package__}.readers.{benchmark}").rescore


COMMANDS = {
    "scenes": ("scenes", "Draw a dataset of images with questions and true answers."),
    "demo": ("scenes", "Evaluate a small model on drawn images: no data, key or GPU."),
    "annotate": ("convbench", "Draft missing annotations of a dataset."),
    "review": ("convbench", "Correct and verify drafted annotations in a web page."),
    "perturb": ("cmteval", "Add typing errors and pinyin to users' messages."),
    "calibrate": ("botchat", "Fit settings that papers do not publish."),
}
"""Command line commands that benchmarks bring -> the benchmark, and the help.

Its module `commands` has them as `NAME_command`. These modules alone may import `mmconv.cli`.
"""


def find_command(name: str) -> tuple[str, str]:
    """The module and the attribute of one of `COMMANDS`, a click command."""
    benchmark, _ = COMMANDS[name]
    return f"{__package__}.{benchmark}.commands", f"{name}_command"
